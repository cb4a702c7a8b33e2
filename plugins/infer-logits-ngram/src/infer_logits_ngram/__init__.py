"""No repeated n-grams, as a logits processor of infer. Everything starts at `manifest.NO_REPEAT_NGRAM`."""
