"""Queries of the manifest table."""

from __future__ import annotations

from concurrent.futures import Future
from threading import current_thread
from typing import TYPE_CHECKING, Any

from pennon import background
from pennon.errors import ConcurrentModificationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import lance
    import pyarrow as pa


ADDRESS = "_rowaddr"


def scan(
    dataset: lance.LanceDataset,
    columns: list[str],
    *,
    fragments: Sequence[Any] | None = None,
    where: str | None = None,
    first: tuple[str, int] | None = None,
) -> pa.Table:
    """Return columns of rows; `_rowaddr` is their address. With `first` only so many, sorted by a column.

    The scan runs in a thread of its own.

    Lance calls the catalog when it opens a managed table or commits to it, in the thread that called Lance or in one of
    its own. A scan that reaches its end on such a thread aborts the process: "the function must be called with the GIL
    held".
    """
    scanner = dataset.scanner(
        columns=[name for name in columns if name != ADDRESS],
        fragments=None if fragments is None else list(fragments),
        filter=where,
        order_by=None if first is None else [first[0]],
        limit=None if first is None else first[1],
        with_row_address=ADDRESS in columns,
    )
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
