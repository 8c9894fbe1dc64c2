"""A progress bar on stderr."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def show_progress(title: str, total: int | None = None, *, wanted: bool | None = None) -> Iterator[Callable[..., None]]:
    """Show a progress bar while the block runs, or a count if there is no total.

    Yields a function that adds steps, and may show a note after the bar: `advance(1, "prod.events")`. The bar is shown
    if `wanted` is True, or if `wanted` is None and stderr is a terminal.
    """
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda _steps, _note="": None
        return
    # Imported late: most commands show no bar.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True, markup=False), transient=True) as bar:
        task = bar.add_task(title, total=total, note="")
        yield lambda steps, note="": bar.update(task, advance=steps, note=note)
