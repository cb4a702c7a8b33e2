"""Contracts, value types, manifests, errors and hook specifications of infer.

Nothing is re-exported here: import the module that you need, so that reading a manifest costs
neither msgspec nor pydantic. Modules by reader:

- every plugin: `errors`, `manifest`, `options`
- hardware: `platforms`, `ops`, `executors`
- models: `models`, `layers`, `specs`, `rope`, `weights`
- attention and KV: `attention`, `specs`, `steps`
- checkpoints: `loaders`, `quantization`, `tokenizers`
- the serving side: `requests`, `services`, `routes`, `commands`, `hooks`
"""

__version__ = "0.1.0"
__all__ = ["__version__"]
