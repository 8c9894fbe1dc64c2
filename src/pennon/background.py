"""Background threads, and how they end before the interpreter does.

Lance and obstore are written in Rust. Before Python 3.14, a daemon thread that returns from them while the interpreter
shuts down is ended with `pthread_exit`, which unwinds its stack. Rust does not allow that and aborts: the process dies
of SIGABRT instead of exiting with its own code. Such a thread must be out of the call before, and nothing can interrupt
the call.

So at exit, background threads are asked to stop. The process waits for them, and for daemon threads that are inside an
operation. Lance's own threads are an example: they call back when a version is committed, and continue after Ctrl-C.
The process waits for `PATIENCE_SECONDS`. A thread that is still busy after that is suspended until the process ends.
Python 3.14 does the same itself. See docs/adr/0016.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE_SECONDS = 1.0
"""How long the end of the process waits for threads that are busy."""
_SUSPENDING_SECONDS = 0.5
_STEP_SECONDS = 0.002
_THREADS_OUTLIVE_INTERPRETER = sys.version_info >= (3, 14)


class ProcessEndingError(Exception):
    """The process is ending: background work stops where it is."""


@dataclass(frozen=True)
class _BusyThread:
    """A daemon thread that may be inside Lance or obstore."""

    ident: int
    native_id: int
    stop: Callable[[], None] | None = None


_busy: dict[int, _BusyThread] = {}
_ending = threading.Event()


def start(work: Callable[[], None], *, name: str, stop: Callable[[], None] | None = None) -> threading.Thread | None:
    """Run `work` in a background thread and return the thread, or None if the process is ending.

    At the end of the process `stop` is called from another thread. Work without `stop` calls `raise_if_ending` between
    its steps.
    """

    def run() -> None:
        with _registered(stop), contextlib.suppress(ProcessEndingError):
            raise_if_ending()
            work()

    if _ending.is_set():
        return None
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # From Python 3.12 on no thread starts once the main thread has ended, although others may still work.
        return None
    return thread


def raise_if_ending() -> None:
    """Raise ProcessEndingError if the process is ending."""
    if _ending.is_set():
        raise ProcessEndingError


@contextlib.contextmanager
def awaited_at_exit() -> Iterator[None]:
    """Let the end of the process wait for the block if a daemon thread runs it; Python itself waits for all others.

    A daemon thread of the program that starts a block while the process is ending blocks here forever. Lance's own
    threads, which Python represents as dummy threads, continue: an exit handler of the program may wait for them.
    """
    thread = threading.current_thread()
    if not thread.daemon or threading.get_ident() in _busy:
        yield
        return
    with _registered():
        if isinstance(thread, threading._DummyThread) or not _ending.is_set():  # noqa: SLF001 - nothing public shows it
            yield
            return
    threading.Event().wait()


@contextlib.contextmanager
def _registered(stop: Callable[[], None] | None = None) -> Iterator[None]:
    ident = threading.get_ident()
    _busy[ident] = _BusyThread(ident, threading.get_native_id(), stop)
    try:
        yield
    finally:
        _busy.pop(ident, None)


def _stop_all() -> None:
    """Stop all background threads. No thread starts afterwards."""
    _ending.set()
    for thread in list(_busy.values()):
        if thread.stop is not None:
            thread.stop()
    _wait(lambda: not _busy, PATIENCE_SECONDS)
    if not _THREADS_OUTLIVE_INTERPRETER:
        for thread in list(_busy.values()):
            _suspend(thread)


# Registered early, it runs late: after the exit handlers of programs, which may still use the catalog.
atexit.register(_stop_all)
# A forked child has none of its parent's threads.
os.register_at_fork(after_in_child=_busy.clear)


def _suspend(thread: _BusyThread) -> None:
    """Stop a thread wherever it is, so that it never returns to the interpreter.

    The signal's handler is the C function `pause`, which returns only after another signal. The signal is sent while
    the thread waits in the kernel: it holds no lock of the memory allocator then, which the exit needs.
    """
    number = getattr(signal, "SIGRTMAX", signal.SIGUSR2)
    c = ctypes.CDLL(None)
    c.signal.argtypes, c.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    c.signal(number, ctypes.cast(c.pause, ctypes.c_void_p))
    _wait(lambda: _waits_in_kernel(thread), _SUSPENDING_SECONDS)
    # A thread that is busy still exists: it cannot leave its block without the interpreter's lock, held here.
    if thread.ident in _busy:
        signal.pthread_kill(thread.ident, number)


def _waits_in_kernel(thread: _BusyThread) -> bool:
    """Return True if a thread is not running, or if this system does not show it."""
    try:
        shown = Path(f"/proc/self/task/{thread.native_id}/stat").read_bytes()
    except OSError:
        return True
    return shown.rpartition(b")")[2].split()[0] in {b"S", b"D"}


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until the condition is true, at most for `seconds`."""
    deadline = time.monotonic() + seconds
    # Ctrl-C, or a signal handler that raises SystemExit, ends the wait early: the process is ending anyway.
    with contextlib.suppress(BaseException):
        while not condition() and time.monotonic() < deadline:
            time.sleep(_STEP_SECONDS)
