"""Rows in a file, for tables of any size: they are read a batch at a time, and can be read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from pennon.table.ipc import open_ipc, read_ipc

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Self


@dataclass(frozen=True)
class IpcFile:
    """The rows of an Arrow IPC stream in a file that nobody changes."""

    schema: pa.Schema
    num_rows: int
    nbytes: int
    """The size of the file."""
    _file: IO[bytes]

    @classmethod
    def check(cls, file: IO[bytes]) -> Self:
        """Read all rows once. Raises InvalidInputError if they are not a valid Arrow IPC stream."""
        file.seek(0)
        reader = open_ipc(file)
        rows = sum(batch.num_rows for batch in reader)
        return cls(reader.schema, rows, file.tell(), file)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows from the first one on. Only one reader may be in use."""
        self._file.seek(0)
        reader: pa.RecordBatchReader = open_ipc(self._file)
        return reader


def load_rows(data: object) -> pa.Table | IpcFile:
    """Return the rows of bytes, or of a file. Raises InvalidInputError for anything but Arrow IPC."""
    return IpcFile.check(data) if is_file(data) else read_ipc(data)  # type: ignore[arg-type]


def is_file(data: object) -> bool:
    """Return True if the data is an open file."""
    return hasattr(data, "read") and hasattr(data, "seek")
