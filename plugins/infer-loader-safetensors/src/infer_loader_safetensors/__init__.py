"""Model folders with safetensors files. Everything starts at `manifest.SAFETENSORS`."""
