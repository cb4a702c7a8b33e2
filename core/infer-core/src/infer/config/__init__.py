"""Configuration: typed sections, where each value came from, and the light schema behind help and flags."""
