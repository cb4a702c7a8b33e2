"""Models of the Hugging Face hub. Everything starts at `manifest.HUB`."""
