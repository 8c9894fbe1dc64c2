"""Handling Ctrl-C and termination during a run."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_HELD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Delay Ctrl-C and termination until the block ends. The block is short and must not be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        # Python handles signals only in the main thread.
        yield
        return
    came: list[tuple[int, Any]] = []
    before = {number: signal.getsignal(number) for number in _HELD}
    for number in _HELD:
        signal.signal(number, lambda got, frame: came.append((got, frame)))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        for got in dict.fromkeys(got for got, _ in came):
            signal.raise_signal(got)


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C and termination, whatever error the interrupted call raises.

    PySpark's own handler uses the connection of the interrupted call, which may then fail with any error. The caller
    cancels the running Spark jobs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
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
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    except Exception as error:
        if not came:
            raise
        try:
            end(came[0], None)
        except KeyboardInterrupt as interrupt:
            raise interrupt from error
    finally:
        for number in ours:
            signal.signal(number, before[number] if before[number] is not None else signal.SIG_DFL)
