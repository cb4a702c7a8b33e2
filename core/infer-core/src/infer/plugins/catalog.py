"""What could be installed: data packages of the entry-point group `infer.catalog`.

The value of such an entry point is a package that holds `catalog.json`:

    {"format": 1, "plugins": [{"distribution", "kind", "name", "summary", "architectures": {dialect: [...]}}]}

Nothing of it is imported. Errors about something unknown use it to name the distribution that would offer it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from infer.plugins.installed import Installed, InstalledEntry, normalized
from infer_api.errors import PluginError

__all__ = ["CATALOG_FILE", "first_party", "install_hint", "is_our_catalog", "offered_by"]

CATALOG_FILE = "catalog.json"
FORMAT = 1
_OURS = __name__.partition(".")[0]
"""The distribution whose catalog says what is first-party is called like our own package."""


def offered_by(kind: str, fact: str, installed: Installed) -> list[str]:
    """Distributions whose plugin of `kind` has the name `fact` or serves the architecture `fact`, in any dialect.

    Raises PluginError when a catalog is damaged.
    """
    offers = (offer for entry in installed.group("catalog") for offer in _read(entry, installed))
    return sorted({str(offer["distribution"]) for offer in offers if offer["kind"] == kind and _serves(offer, fact)})


def install_hint(kind: str, fact: str, installed: Installed) -> str:
    """A sentence, with a space before it, naming what to install for `fact`; "" when no catalog offers more."""
    missing = [name for name in offered_by(kind, fact, installed) if name not in installed.versions]
    return f" {fact!r} is offered by: {' or '.join(f'pip install {name}' for name in missing)}." if missing else ""


def first_party(installed: Installed) -> frozenset[str]:
    """Distributions that our own catalog lists; empty when it is not installed, and then nobody is a third party."""
    own = filter(is_our_catalog, installed.group("catalog"))
    return frozenset(normalized(str(offer["distribution"])) for entry in own for offer in _read(entry, installed))


def is_our_catalog(entry: InstalledEntry) -> bool:
    """Whether a catalog comes from the distribution that says what is first-party."""
    return entry.distribution == _OURS


def _serves(offer: Mapping[str, Any], fact: str) -> bool:
    names = (name for names in offer.get("architectures", {}).values() for name in names)
    return fact == offer["name"] or fact in names


def _read(entry: InstalledEntry, installed: Installed) -> list[Mapping[str, Any]]:
    try:
        data = json.loads(installed.read_file(entry.package, CATALOG_FILE))
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']!r}, expected {FORMAT}")
        offers = list(data["plugins"])
        for offer in offers:
            _ = offer["distribution"], offer["kind"], offer["name"]
        return offers
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PluginError(
            f"the catalog {entry.name!r} of {entry.distribution} ({CATALOG_FILE} in {entry.package}) cannot be read: "
            f"{error!r}; reinstall {entry.distribution}"
        ) from error
