"""Signals that come at the wrong moment."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_HELD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held_back() -> Iterator[None]:
    """Let Ctrl-C and termination wait until the block is through: it is short, and must be done or not begun."""
    if threading.current_thread() is not threading.main_thread():
        # Python handles signals in the main thread alone.
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
