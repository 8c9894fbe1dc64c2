"""Handling Ctrl-C and termination during a run."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_HELD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Delay Ctrl-C and termination until the block ends. The block is short and must not be interrupted."""
    came: dict[int, None] = {}
    try:
        with _handlers(_HELD, lambda number, _: came.update({number: None})):
            yield
    finally:
        for number in came:
            signal.raise_signal(number)


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C and termination, whatever error the interrupted call raises.

    PySpark's own handler uses the connection of the interrupted call, which may then fail with any error. The caller
    cancels the running Spark jobs.
    """
    before: dict[int, Any] = {number: signal.getsignal(number) for number in _HELD}
    came: list[int] = []

    def end(number: int, frame: Any) -> None:
        came.append(number)
        handler = before[number]
        if number != signal.SIGINT and callable(handler):
            handler(number, frame)
        raise KeyboardInterrupt

    # Without a handler, termination ends the process.
    ours = [number for number in _HELD if number == signal.SIGINT or callable(before[number])]
    with _handlers(ours, end):
        try:
            yield
        except Exception as error:
            if not came:
                raise
            try:
                end(came[0], None)
            except KeyboardInterrupt as interrupt:
                raise interrupt from error


@contextmanager
def _handlers(numbers: Sequence[int], handler: Callable[[int, Any], object]) -> Iterator[None]:
    """Handle signals during the block. Python handles them only in the main thread; others ignore this."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier if earlier is not None else signal.SIG_DFL)
