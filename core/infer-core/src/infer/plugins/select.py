"""Which plugin of a kind does the job, and why every other one does not. Works on manifest data alone.

A `Fits` looks at one record and answers None (it fits) or a Reason. Those made here read the manifest's
`supports`; a caller may pass one of its own, for what only code can tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from infer.plugins.catalog import install_hint
from infer.plugins.check import capability_problem
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer.plugins.wording import choosing_option, joined
from infer_api.errors import PluginError
from infer_api.specs import Reason

__all__ = [
    "ExplainRow",
    "Fits",
    "Selection",
    "explain_rows",
    "fits_attention",
    "fits_loader",
    "fits_model",
    "fits_quantization",
    "fits_source",
    "fits_tokenizer",
    "select",
]

Fits = Callable[[PluginRecord], Reason | None]
Losers = tuple[tuple[PluginRecord, Reason], ...]
_AUTO = ("auto", "")


@dataclass(frozen=True)
class Selection:
    """The plugin taken, `because` in a few words, and every other one of its kind with its reason."""

    winner: PluginRecord
    because: str
    losers: Losers = ()


class ExplainRow(NamedTuple):
    """One line of `infer explain`. `verdict` is "taken" or "not taken"."""

    name: str
    distribution: str
    verdict: str
    reason: str


def select(index: PluginIndex, kind: str, wanted: str, fits: Fits, *, fact: str = "") -> Selection:
    """Take the plugin that the user `wanted` (a name, or "distribution/name"), or for "auto" the best that fits.

    `fact` is what the catalogs are asked for when nothing fits, such as an architecture. Raises PluginError when the
    plugin asked for is missing, failed or does not fit; when nothing fits (listing every reason); and when two
    fit equally well.
    """
    if wanted in _AUTO:
        return _select_best(index, kind, fits, fact)
    winner = index.get(kind, wanted)
    fitting, losers = _judge(index, kind, fits)
    if winner not in fitting:
        reason = next(reason for record, reason in losers if record is winner)
        others = joined(record.name for record in fitting)
        raise PluginError(f"{kind} plugin {wanted!r} cannot be used: {reason.text} (plugins that fit: {others})")
    losers += tuple((record, Reason(f"{wanted!r} was asked for")) for record in fitting if record is not winner)
    return Selection(winner, "asked for by name", losers)


def explain_rows(selection: Selection) -> list[ExplainRow]:
    """The winner, then the losers by name, as `infer explain` prints them."""
    rows = [(selection.winner, "taken", selection.because)]
    rows += sorted(((r, "not taken", why.text) for r, why in selection.losers), key=lambda row: row[0].qualified)
    return [ExplainRow(record.name, record.distribution, verdict, why) for record, verdict, why in rows]


def _judge(index: PluginIndex, kind: str, fits: Fits) -> tuple[list[PluginRecord], Losers]:
    fitting: list[PluginRecord] = []
    losers: Losers = ()
    for record in index.records(kind):
        reason = Reason(record.reason) if record.state == "failed" else _ask(fits, record)
        if reason is None:
            fitting.append(record)
        else:
            losers += ((record, reason),)
    return fitting, losers


def _ask(fits: Fits, record: PluginRecord) -> Reason | None:
    """A plugin that breaks when it is looked at (by a `Fits` that runs code) loses; it takes no other one with it."""
    try:
        return fits(record)
    except PluginError as error:
        return Reason(str(error))


def _select_best(index: PluginIndex, kind: str, fits: Fits, fact: str) -> Selection:
    fitting, losers = _judge(index, kind, fits)
    allowed, barred = _admitted(index, fitting)
    losers += barred
    if not allowed:
        raise PluginError(_none_fits(index, kind, losers, fact))
    best, *rest = sorted(allowed, key=lambda record: -record.priority)
    if rest and rest[0].priority == best.priority:
        raise PluginError(_tie(kind, best, rest[0]))
    index.get(kind, best.name)  # a winner whose name another distribution claims too must be decided by the user
    outranked = f"priority {{}} is lower than {best.priority} of {best.name!r}"
    losers += tuple((record, Reason(outranked.format(record.priority))) for record in rest)
    because = f"priority {best.priority}, the highest of {len(allowed)} that fit" if rest else "the only one that fits"
    return Selection(best, because, losers)


def _admitted(index: PluginIndex, fitting: list[PluginRecord]) -> tuple[list[PluginRecord], Losers]:
    """Leave out what `auto` may not take: third parties where ours do the job, and losers of `plugins.prefer`."""
    ours_fit = any(index.is_first_party(record) for record in fitting)
    allowed: list[PluginRecord] = []
    barred: Losers = ()
    for record in fitting:
        if not index.is_preferred(record):
            barred += ((record, Reason("plugins.prefer gives its name to another distribution")),)
        elif ours_fit and not index.is_first_party(record) and not index.is_listed(record):
            way_out = f"ask for it by name, or add {record.distribution!r} to plugins.listed"
            barred += ((record, Reason(f"auto takes a third-party plugin only if it is listed; {way_out}")),)
        else:
            allowed.append(record)
    return allowed, barred


def _none_fits(index: PluginIndex, kind: str, losers: Losers, fact: str) -> str:
    hint = install_hint(kind, fact, index.installed) if fact else ""
    if not losers:
        return f"no {kind} plugin is installed.{hint}"
    reasons = "; ".join(f"{record.qualified}: {reason.text}" for record, reason in losers)
    subject = f" for {fact!r}" if fact else ""
    return f"no installed {kind} plugin fits{subject}: {reasons}.{hint}"


def _tie(kind: str, one: PluginRecord, other: PluginRecord) -> str:
    option = choosing_option(kind)
    if one.name == other.name:
        way_out = f"set plugins.prefer = {{'{kind}:{one.name}': '{one.distribution}'}}"
    elif option is not None:
        way_out = f"choose one with --{option} {one.name}"
    else:
        way_out = f"uninstall one, or add it to plugins.disabled, such as '{kind}:{other.name}'"
    return (
        f"two {kind} plugins fit equally well, {one.qualified} and {other.qualified} (both have priority "
        f"{one.priority}); {way_out}"
    )


# --- what fits, by kind ---------------------------------------------------------------------------------------------


def fits_model(architecture: str, dialect: str) -> Fits:
    """Model families that know `architecture` as the checkpoint's `dialect` spells it."""

    def fits(record: PluginRecord) -> Reason | None:
        known = record.supports.get("architectures", {}).get(dialect, ())
        if architecture in known:
            return None
        return Reason(f"it serves {joined(known)} of dialect {dialect!r}, not {architecture!r}")

    return fits


def fits_attention(
    device_type: str, dtype: str, head_size: int, features: Iterable[str] = (), *, compute_capability: str = ""
) -> Fits:
    """Backends for one kind of attention layer; `features` are the words of `AttentionSupport`."""
    wanted = frozenset(features)

    def fits(record: PluginRecord) -> Reason | None:
        reason = _misfit_device(record, device_type, dtype, compute_capability)
        if reason is not None:
            return reason
        sizes = record.supports.get("head_sizes", {})
        multiple, maximum = int(sizes.get("multiple_of") or 1), int(sizes.get("maximum") or 0)
        if head_size % multiple:
            return Reason(f"it takes head sizes that are multiples of {multiple}, not {head_size}")
        if maximum and head_size > maximum:
            return Reason(f"it takes head sizes up to {maximum}, not {head_size}")
        missing = wanted.difference(record.supports.get("features", ()))
        return Reason(f"it lacks {joined(missing)}") if missing else None

    return fits


def fits_quantization(dialect: str, method: str, device: str, dtype: str, *, compute_capability: str = "") -> Fits:
    """Methods for checkpoints of `dialect` whose `quantization_config.quant_method` is `method` ("" = none named)."""

    def fits(record: PluginRecord) -> Reason | None:
        said = method or "no method named"
        return (
            _lacks("reads checkpoints of dialect", dialect, record.supports.get("dialects", ()))
            or _lacks("implements", said, [name or "no method named" for name in record.supports.get("methods", ())])
            or _misfit_device(record, device, dtype, compute_capability)
        )

    return fits


def fits_loader(path: str | Path) -> Fits:
    """Loaders that open `path`: a file by its suffix (in any case), a folder by what it holds. Looks at the disk."""
    place = Path(path)

    def fits(record: PluginRecord) -> Reason | None:
        suffixes, patterns = record.supports.get("suffixes", ()), record.supports.get("contains", ())
        if place.is_dir():
            if any(next(place.glob(pattern), None) is not None for pattern in patterns):
                return None
            some = f"folders holding {joined(patterns)}, and {place} holds none of it"
            return Reason(f"it opens {some if patterns else f'no folders, and {place} is one'}")
        if place.name.lower().endswith(tuple(suffix.lower() for suffix in suffixes)):
            return None
        return Reason(f"it opens files ending in {joined(suffixes, 'nothing')}, not {place.name!r}")

    return fits


def fits_tokenizer(format: str) -> Fits:
    """Tokenizers that read sources of `format`."""
    return lambda record: _lacks("reads", format, record.supports.get("formats", ()))


def fits_source(name: str) -> Fits:
    """Sources that serve a model called `name`: by their prefix, or by what their bare names look like."""

    def fits(record: PluginRecord) -> Reason | None:
        prefix, bare = record.supports.get("prefix"), record.supports.get("bare")
        if prefix and name.startswith(prefix) or bare and re.fullmatch(bare, name):
            return None
        return Reason(f"it serves names such as {record.supports.get('usage')}")

    return fits


def _misfit_device(record: PluginRecord, device_type: str, dtype: str, compute_capability: str) -> Reason | None:
    reason = _lacks("runs on", device_type, record.supports.get("devices", ()))
    reason = reason or _lacks("computes in", dtype, record.supports.get("dtypes", ()))
    if reason is not None:
        return reason
    problem = capability_problem(record.requires, compute_capability)
    return Reason(problem) if problem else None


def _lacks(verb: str, wanted: str, offered: Iterable[str]) -> Reason | None:
    """None when `wanted` is among `offered` ("*" = anything)."""
    offered = tuple(offered)
    return None if wanted in offered or "*" in offered else Reason(f"it {verb} {joined(offered)}, not {wanted}")
