"""The progress bar of a job, on stderr."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pennon.spark.jobs.outcome import TableOutcome


@contextmanager
def show_progress(job: str, total: int, *, wanted: bool | None = None) -> Iterator[Callable[[TableOutcome], None]]:
    """Yield a function that advances the bar by one outcome.

    The bar is shown if `wanted` is True, or if `wanted` is None and stderr is a terminal.
    """
    if not total or not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[last]}", style="dim"),
    )
    failed = 0
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(job, total=total, last="")

        def advance(outcome: TableOutcome) -> None:
            nonlocal failed
            failed += outcome.status == "failed"
            last = outcome.table or ""
            progress.update(task, advance=1, last=f"{last}  [red]{failed} failed[/red]" if failed else last)

        yield advance
