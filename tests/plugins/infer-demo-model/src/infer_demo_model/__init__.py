"""A sample model family: a small transformer whose blocks attend and think side by side."""
