"""The CPU as a platform."""
