"""Paged attention in plain PyTorch."""
