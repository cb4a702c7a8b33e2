"""The commands `infer chat` and `infer complete`: a model in the terminal."""
