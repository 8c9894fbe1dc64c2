"""A progress bar on stderr."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress


@contextmanager
def open_bar(*, wanted: bool | None = None) -> Iterator[Progress | None]:
    """Open an empty progress bar while the block runs. Its tasks have the field `note`, which follows the bar.

    Yields None if `wanted` is False, or if `wanted` is None and stderr is not a terminal.
    """
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield None
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
    with Progress(*columns, console=Console(stderr=True, markup=False, highlight=False), transient=True) as bar:
        yield bar


@contextmanager
def show_progress(title: str, total: int | None = None, *, wanted: bool | None = None) -> Iterator[Callable[..., None]]:
    """Show a progress bar while the block runs, or a count if there is no total.

    Yields a function that adds steps, and may show a note after the bar: `advance(1, "prod.events")`. `wanted` is that
    of `open_bar`.
    """
    with open_bar(wanted=wanted) as bar:
        if bar is None:
            yield lambda _steps, _note="": None
            return
        task = bar.add_task(title, total=total, note="")
        yield lambda steps, note="": bar.update(task, advance=steps, note=note)
