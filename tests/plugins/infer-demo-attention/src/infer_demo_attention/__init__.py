"""A sample attention backend: one row and one group of heads at a time, written to be read."""
