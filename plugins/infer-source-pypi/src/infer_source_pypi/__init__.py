"""Models inside Python packages, fetched with pip. Everything starts at `manifest.PYPI`."""
