"""Queries of the manifest table."""

from __future__ import annotations

from concurrent.futures import Future
from inspect import currentframe
from threading import current_thread
from typing import TYPE_CHECKING, Any

from pennon import background
from pennon.errors import ConcurrentModificationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import lance
    import pyarrow as pa


ADDRESS = "_rowaddr"
_LANCE = "lance"
"""How the names of Lance's packages start, and those of packages that embed it."""


def scan(
    dataset: lance.LanceDataset,
    columns: list[str],
    *,
    fragments: Sequence[Any] | None = None,
    where: str | None = None,
    first: tuple[str, int] | None = None,
) -> pa.Table:
    """Return columns of rows; `_rowaddr` is their address. With `first` only so many, sorted by a column.

    The scan runs in the calling thread if that is safe, else in a thread of its own: see `_is_safe_here`.
    """
    scanner = dataset.scanner(
        columns=[name for name in columns if name != ADDRESS],
        fragments=None if fragments is None else list(fragments),
        filter=where,
        order_by=None if first is None else [first[0]],
        limit=None if first is None else first[1],
        with_row_address=ADDRESS in columns,
    )
    if _is_safe_here():
        return scanner.to_table()
    result: Future[pa.Table] = Future()

    def run() -> None:
        try:
            result.set_result(scanner.to_table())
        except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
            result.set_exception(error)

    if background.start(run, name="pennon-scan") is not None:
        return result.result()
    if current_thread().daemon:
        raise ConcurrentModificationError("The process is ending: the catalog can no longer be read from this thread")
    return scanner.to_table()


def _is_safe_here() -> bool:
    """Return True if this thread is not inside a call of Lance, and Python waits for it at the end of the process.

    While Lance calls Python code, it assumes that this thread holds the interpreter's lock, the GIL. Arrow releases the
    lock during a scan, and the process aborts: "the function must be called with the GIL held". Lance calls back from
    its own threads, which are daemon threads for Python, and from the thread that called it, which then has a frame of
    Lance's package on its stack. Other daemon threads must not be in Lance when the process ends: see `background`.
    """
    if current_thread().daemon:
        return False
    frame = currentframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_LANCE):
            return False
        frame = frame.f_back
    return True
