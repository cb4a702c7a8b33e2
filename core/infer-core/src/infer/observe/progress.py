"""Progress bars for bytes that are fetched or loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["Report", "byte_progress"]

Report = Callable[[int, "int | None"], None]
"""Called with (bytes done, bytes in all, or None when unknown); cheap enough to call once per tensor."""


@contextmanager
def byte_progress(title: str, *, stream: TextIO | None = None, shown: bool | None = None) -> Iterator[Report]:
    """A bar with size, speed and time left on `stream` (standard error) for the length of the `with` block.

    Yields the function to report to. Until it is told of bytes the bar pulses beside the time that has passed: a load
    begins with imports and planning, which have no size. `shown` None means: only when the stream is a terminal, so
    that logs stay clean. The bar vanishes at the end.
    """
    stream = stream or sys.stderr
    if not (stream.isatty() if shown is None else shown):
        yield lambda done, total: None
        return
    from rich import progress
    from rich.console import Console

    named = (progress.TextColumn("{task.description}"), progress.BarColumn())
    sized = (progress.DownloadColumn(binary_units=True), progress.TransferSpeedColumn(), progress.TimeRemainingColumn())
    console = Console(file=stream, force_terminal=True if shown else None)
    with progress.Progress(*named, progress.TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)

        def report(done: int, total: int | None) -> None:
            if done:
                bar.columns = (*named, *sized)
            bar.update(task, completed=done, total=total)

        yield report
