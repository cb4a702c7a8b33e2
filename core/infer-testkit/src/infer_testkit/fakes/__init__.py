"""Real, small implementations of the contracts to test against."""
