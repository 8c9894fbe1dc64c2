"""Progress of a long run: a bar on a terminal, a line per stage otherwise."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console


@contextmanager
def stage(console: Console, title: str, steps: int) -> Iterator[Callable[[str], None]]:
    """Show one stage of the run, and yield the function that announces each of its steps."""
    if console.is_terminal:
        columns = (TextColumn("{task.description:<46}"), BarColumn(24), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            # The bar is one step behind its label, because an announced step has not run yet.
            task = bar.add_task(title, total=steps, completed=-1)
            yield lambda step: bar.update(task, advance=1, description=f"{title}: {step}")
    else:
        start = time.perf_counter()
        yield lambda _step: None
        console.print(f"{title}: {time.perf_counter() - start:.1f} s", highlight=False)
