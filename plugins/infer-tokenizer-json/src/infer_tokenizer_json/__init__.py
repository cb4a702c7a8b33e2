"""Every tokenizer.json, through the `tokenizers` library. Everything starts at `manifest.JSON`."""
