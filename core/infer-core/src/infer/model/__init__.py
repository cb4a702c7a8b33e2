"""The model: where its files come from, how they are read, and the layers that it is built from."""
