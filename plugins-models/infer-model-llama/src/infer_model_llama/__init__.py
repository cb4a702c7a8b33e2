"""Llama 2 and 3, Mistral and SmolLM2."""
