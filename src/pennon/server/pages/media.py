"""Pictures and sounds in a table: what they are is found by their first bytes, never by what a table says.

Only kinds that cannot run scripts are sent, each with its own type and a policy that allows nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from pennon.errors import InvalidInputError, InvalidTableStateError, TableColumnNotFoundError
from pennon.identifiers import format_identifier
from pennon.server.pages.part_reading import read_part
from pennon.server.pages.rendering import SECURITY_HEADERS, format_bytes
from pennon.table.blobs import is_blob_column

if TYPE_CHECKING:
    from lance import LanceDataset

    from pennon.server.pages.page_request import PageRequest

LARGEST_MEDIA = 16 << 20
_HEADERS = {
    **SECURITY_HEADERS,
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "Content-Disposition": "inline",
    # A version never changes, but a right may.
    "Cache-Control": "private, max-age=60",
}
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", 0, b"", "image/png"),
    (b"\xff\xd8\xff", 0, b"", "image/jpeg"),
    (b"GIF87a", 0, b"", "image/gif"),
    (b"GIF89a", 0, b"", "image/gif"),
    (b"RIFF", 8, b"WEBP", "image/webp"),
    (b"RIFF", 8, b"WAVE", "audio/wav"),
    (b"OggS", 0, b"", "audio/ogg"),
    (b"fLaC", 0, b"", "audio/flac"),
    (b"ID3", 0, b"", "audio/mpeg"),
    (b"\xff\xfb", 0, b"", "audio/mpeg"),
    (b"\xff\xf3", 0, b"", "audio/mpeg"),
)


def find_media_type(start: bytes) -> str | None:
    """Return the type of a picture or sound that begins with these bytes, or None."""
    for beginning, offset, rest, kind in _BEGINNINGS:
        if start.startswith(beginning) and start[offset : offset + len(rest)] == rest:
            return kind
    return None


def show_media(request: PageRequest) -> Response:
    """Return a picture or a sound of a table.

    Raises InvalidInputError if the value is something else, or larger than 16 MiB.
    """
    column, row = request.text("column"), request.number("row", 0) or 0
    dataset = request.namespace.open_dataset(request.table, version=request.number("version"))
    if column not in dataset.schema.names:
        raise TableColumnNotFoundError(f"Table {format_identifier(request.table)} has no column {column!r}")
    part = read_part("The value", lambda: _read_value(dataset, column, row))
    if part.fault:
        raise InvalidTableStateError(f"Table {format_identifier(request.table)}: {part.fault}")
    content = part.value or b""
    kind = find_media_type(content)
    if kind is None:
        raise InvalidInputError("The value is neither a picture nor a sound of a known kind")
    return Response(content, media_type=kind, headers=dict(_HEADERS))


def _read_value(dataset: LanceDataset, column: str, row: int) -> bytes:
    if row >= dataset.count_rows():
        raise InvalidInputError(f"The table has no row {row}")
    if is_blob_column(dataset.schema.field(column)):
        blob = dataset.take_blobs(column, indices=[row])[0]
        if blob is None:
            return b""
        with blob:
            _require_size(blob.size())
            return bytes(blob.read())
    value = dataset.take([row], columns=[column]).column(0)[0].as_py()
    if not isinstance(value, bytes):
        raise InvalidInputError("The value is neither a picture nor a sound")
    _require_size(len(value))
    return value


def _require_size(size: int) -> None:
    if size > LARGEST_MEDIA:
        raise InvalidInputError(f"The value has {format_bytes(size)}; pages show at most {format_bytes(LARGEST_MEDIA)}")
