"""Show progress on stderr, on a terminal only."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress


@contextmanager
def open_bar() -> Iterator[Progress | None]:
    """Open an empty progress bar while the block runs; yields None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True, markup=False, highlight=False)
    with Progress(*columns, console=console, transient=True) as bar:
        yield bar


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar while the block runs, or a count if there is no total. Yields a function that adds steps."""
    with open_bar() as bar:
        if bar is None:
            yield lambda _: None
            return
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.advance(task, steps)
