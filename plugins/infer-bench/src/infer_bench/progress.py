"""A bar on standard error, where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from infer_bench.records import RequestRecord

__all__ = ["request_progress"]

_UPDATES_PER_S = 4


@contextmanager
def request_progress(label: str, total: int) -> Iterator[Callable[[RequestRecord], None]]:
    """Gives what to call with each record as its request ends."""
    if not sys.stderr.isatty():
        yield lambda record: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeElapsedColumn(),
    )
    # Few updates: drawing takes time from the process that measures.
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=_UPDATES_PER_S) as bar:
        task, failed = bar.add_task(label, total=total, failed=""), 0

        def tell(record: RequestRecord) -> None:
            nonlocal failed
            failed += not record.is_ok
            bar.update(task, advance=1, failed=f"{failed} failed" if failed else "")

        yield tell
