"""How far a job is, for a person at a terminal: on stderr, and nothing anywhere else."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pennon.spark.jobs.outcome import Outcome


@contextmanager
def shown(job: str, total: int, *, wanted: bool | None = None) -> Iterator[Callable[[Outcome], None]]:
    """Show a bar that moves with each outcome, if stderr is a terminal or it is `wanted`."""
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

        def moved(outcome: Outcome) -> None:
            nonlocal failed
            failed += outcome.status == "failed"
            last = outcome.table or ""
            progress.update(task, advance=1, last=f"{last}  [red]{failed} failed[/red]" if failed else last)

        yield moved
