"""Arrow IPC data as requests carry it."""

from __future__ import annotations

import pyarrow as pa

from pennon.errors import InvalidInputError

_FILE_MAGIC = b"ARROW1"
_ALIGNMENT = 64


def read_ipc(data: object) -> pa.Table:
    """Read an Arrow IPC stream or file; anything else is InvalidInputError (13)."""
    if data is None:
        raise InvalidInputError("Creating a table needs its data as an Arrow IPC stream; use declare_table for none")
    try:
        buffer = pa.py_buffer(data)
        magic = buffer.slice(0, min(len(buffer), len(_FILE_MAGIC))).to_pybytes()
        reader = pa.ipc.open_file(buffer) if magic == _FILE_MAGIC else pa.ipc.open_stream(buffer)
        table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        raise InvalidInputError(f"The table's data is not a valid Arrow IPC stream: {error}") from error
    if table.num_columns == 0:
        raise InvalidInputError("The table's data has no columns")
    return _aligned(table)


def _aligned(table: pa.Table) -> pa.Table:
    """Copy data whose buffers lie where wide values cannot be read in place; Lance requires it."""
    chunks = (chunk for column in table.columns for chunk in column.chunks)
    buffers = (buffer for chunk in chunks for buffer in chunk.buffers() if buffer is not None)
    if all(buffer.address % _ALIGNMENT == 0 for buffer in buffers):
        return table
    memory = pa.default_cpu_memory_manager()
    return pa.Table.from_batches([batch.copy_to(memory) for batch in table.to_batches()], schema=table.schema)
