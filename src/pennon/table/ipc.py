"""Arrow IPC data as requests carry it."""

from __future__ import annotations

import pyarrow as pa

from pennon.errors import InvalidInputError

_FILE_MAGIC = b"ARROW1"


def read_ipc(data: object) -> pa.Table:
    """Read an Arrow IPC stream or file; anything else is InvalidInputError (13)."""
    if data is None:
        raise InvalidInputError("Creating a table needs its data as an Arrow IPC stream; use declare_table for none")
    try:
        buffer = pa.py_buffer(data)
        magic = buffer.slice(0, min(len(buffer), len(_FILE_MAGIC))).to_pybytes()
        reader = pa.ipc.open_file(buffer) if magic == _FILE_MAGIC else pa.ipc.open_stream(buffer)
        table = reader.read_all()
        table.validate()
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        raise InvalidInputError(f"The table's data is not a valid Arrow IPC stream: {error}") from error
    if table.num_columns == 0:
        raise InvalidInputError("The table's data has no columns")
    return table
