"""Limits for the memory that Arrow IPC data needs, compared with its own size. They apply before decompression.

A buffer of a few bytes may decompress to a gigabyte. A column of nulls has any number of rows in no bytes. All views in
a column of texts may refer to the same megabyte. So the messages are examined first: their metadata contains the
lengths of columns and buffers, and the first bytes of a compressed buffer contain its real size.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Generator

ALWAYS_ALLOWED = 64 << 20
"""Bytes in memory that any data may need, even if it is very small."""
MOST_EXPANSION = 100
"""Further bytes in memory for each byte of the data."""
_VALUE_BYTES = 4
"""Bytes that a value counts in addition to its buffers: it may have none."""
_DICTIONARY, _BATCH = 2, 3
_CONTINUATION = 0xFFFFFFFF
_PREFIX = struct.Struct("<q")
_NOT_COMPRESSED = -1
_VIEW_INTS = 4
_LARGEST_METADATA = 256 << 20


class Allowance:
    """Adds up the memory that batches need. Raises InvalidInputError if it is too much."""

    def __init__(self, received: int = 0) -> None:
        self.received = received
        self._taken = 0

    def take(self, size: int) -> None:
        """Add bytes in memory."""
        if size < 0:
            raise ValueError("a length is negative")
        self._taken += size
        most = ALWAYS_ALLOWED + MOST_EXPANSION * self.received
        if self._taken > most:
            raise InvalidInputError(
                f"The table's data has {self.received:,} bytes and needs more than {most:,} in memory: more than "
                f"{MOST_EXPANSION} for each. Send it in several parts, or without compression"
            )

    def take_views(self, batch: pa.RecordBatch) -> None:
        """Add the texts of views: Lance copies each of them."""
        for column in batch.columns:
            self._take_views(column)

    def _take_views(self, array: pa.Array) -> None:
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            self._take_views(array.storage)
        elif pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
            views = array.buffers()[1]
            if views is not None:
                first = array.offset * _VIEW_INTS
                lengths = memoryview(views).cast("i")[first : first + len(array) * _VIEW_INTS : _VIEW_INTS]
                self.take(sum(lengths))
        elif pa.types.is_dictionary(kind):
            self._take_views(array.dictionary)
        elif pa.types.is_struct(kind):
            for number in range(kind.num_fields):
                self._take_views(array.field(number))
        elif pa.types.is_nested(kind) and hasattr(array, "values"):
            self._take_views(array.values)


def check_stream(buffer: pa.Buffer) -> Allowance:
    """Check all messages of a stream in memory. Returns the allowance, to which views must be added."""
    allowance = Allowance(len(buffer))
    content = memoryview(buffer)
    at = 0
    while (message := _read_message(content, at)) is not None:
        metadata, body = message
        info = _parse_message(metadata)
        _check_message(info, content[body : body + info.body_bytes], allowance)
        at = body + info.body_bytes
    return allowance


def check_file(buffer: pa.Buffer) -> Allowance:
    """Check all messages of a file. Its footer lists their positions, and may list one several times."""
    allowance = Allowance(len(buffer))
    content = memoryview(buffer)
    (footer_bytes,) = struct.unpack_from("<i", content, len(content) - 10)
    begin = len(content) - 10 - footer_bytes
    if footer_bytes < 0 or begin < 0:
        raise ValueError("the footer is outside the file")
    footer = _FlatTable.root(content[begin : begin + footer_bytes])
    for number in (2, 3):
        for block in footer.structs(number, "<qixxxxq"):
            offset, _, body_bytes = block
            message = _read_message(content, offset) if 0 <= offset < len(content) else None
            if message is None or body_bytes < 0:
                raise ValueError("a block is outside the file")
            metadata, body = message
            _check_message(_parse_message(metadata), content[body : body + body_bytes], allowance)
    return allowance


class CheckedSource:
    """A source of a stream that checks each message while it is read."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._steps = self._check_messages()
        self._wanted = next(self._steps)
        self._pending = bytearray()
        self.allowance = Allowance()
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Read from the source."""
        content = bytes(self._source.read(size))
        self.allowance.received += len(content)
        view = memoryview(content)
        while view and self._wanted:
            if self._wanted < 0:
                skipped = min(len(view), -self._wanted)
                view = view[skipped:]
                self._wanted += skipped
                if not self._wanted:
                    self._wanted = self._steps.send(b"")
                continue
            part = view[: self._wanted - len(self._pending)]
            self._pending += part
            view = view[len(part) :]
            if len(self._pending) == self._wanted:
                taken, self._pending = bytes(self._pending), bytearray()
                self._wanted = self._steps.send(taken)
        return content

    def close(self) -> None:
        """Leave the source open: the caller owns it."""
        self.closed = True

    def readable(self) -> bool:
        """Return True."""
        return True

    def _check_messages(self) -> Generator[int, bytes, None]:
        """Yield how many bytes to send next, or a negative number of bytes to skip. 0 ends the checks."""
        while True:
            (length,) = struct.unpack("<I", (yield 4))
            if length == _CONTINUATION:
                (length,) = struct.unpack("<I", (yield 4))
            if length == 0 or length > _LARGEST_METADATA:
                yield 0
            info = _parse_message(memoryview((yield length)))
            at = 0
            for offset in info.list_prefix_offsets():
                if not at <= offset <= info.body_bytes - _PREFIX.size:
                    raise ValueError("a buffer is outside its message, or overlaps another one")
                if offset > at:
                    yield at - offset
                info.prefixes[offset] = yield _PREFIX.size
                at = offset + _PREFIX.size
            _count(info, self.allowance)
            if at < info.body_bytes:
                yield at - info.body_bytes


@dataclass
class _MessageInfo:
    """The sizes in the metadata of a message."""

    body_bytes: int
    lengths: list[int] = field(default_factory=list)
    buffers: list[tuple[int, int]] = field(default_factory=list)
    compressed: bool = False
    prefixes: dict[int, bytes] = field(default_factory=dict)
    """The first bytes of compressed buffers by their offset."""

    def list_prefix_offsets(self) -> list[int]:
        """Return the offsets of the buffers that begin with their uncompressed size."""
        if not self.compressed:
            return []
        return sorted({offset for offset, size in self.buffers if size >= _PREFIX.size})


class _FlatTable:
    """A table of a flatbuffer, with fields by number. Invalid data raises ValueError or struct.error."""

    def __init__(self, content: memoryview, at: int) -> None:
        self._content = content
        self._at = at
        self._fields = at - self._read_number("<i", at)
        self._size = self._read_number("<H", self._fields)

    @classmethod
    def root(cls, content: memoryview) -> _FlatTable:
        return cls(content, int(struct.unpack_from("<I", content, 0)[0]))

    def value(self, number: int, kind: str, default: int = 0) -> int:
        at = self._find_field(number)
        return default if at is None else self._read_number(kind, at)

    def table(self, number: int) -> _FlatTable | None:
        at = self._find_field(number)
        return None if at is None else _FlatTable(self._content, at + self._read_number("<I", at))

    def structs(self, number: int, kind: str) -> list[tuple[int, ...]]:
        at = self._find_field(number)
        if at is None:
            return []
        begin = at + self._read_number("<I", at)
        layout = struct.Struct(kind)
        count = self._read_number("<I", begin)
        return list(layout.iter_unpack(self._slice(begin + 4, count * layout.size)))

    def _find_field(self, number: int) -> int | None:
        slot = 4 + 2 * number
        offset = self._read_number("<H", self._fields + slot) if slot + 2 <= self._size else 0
        return self._at + offset if offset else None

    def _read_number(self, kind: str, at: int) -> int:
        return int(struct.unpack_from(kind, self._slice(at, struct.calcsize(kind)))[0])

    def _slice(self, at: int, size: int) -> memoryview:
        if at < 0 or at + size > len(self._content):
            raise ValueError("the metadata of a message is damaged")
        return self._content[at : at + size]


def _read_message(content: memoryview, at: int) -> tuple[memoryview, int] | None:
    """Return the metadata of a message and the offset of its body, or None at the end of the stream."""
    if at + 4 > len(content):
        return None
    (length,) = struct.unpack_from("<I", content, at)
    at += 4
    if length == _CONTINUATION:
        if at + 4 > len(content):
            return None
        (length,) = struct.unpack_from("<I", content, at)
        at += 4
    if length == 0:
        return None
    if at + length > len(content):
        raise ValueError("the stream ends within a message")
    return content[at : at + length], at + length


def _parse_message(metadata: memoryview) -> _MessageInfo:
    message = _FlatTable.root(metadata)
    kind = message.value(1, "<B")
    info = _MessageInfo(message.value(3, "<q"))
    if info.body_bytes < 0:
        raise ValueError("the length of a body is negative")
    header = message.table(2)
    batch = header.table(1) if header is not None and kind == _DICTIONARY else header
    if batch is not None and kind in {_DICTIONARY, _BATCH}:
        info.lengths = [batch.value(0, "<q"), *(length for length, _ in batch.structs(1, "<qq"))]
        info.buffers = [(offset, size) for offset, size in batch.structs(2, "<qq")]
        info.compressed = batch.table(3) is not None
    return info


def _check_message(info: _MessageInfo, body: memoryview, allowance: Allowance) -> None:
    for offset in info.list_prefix_offsets():
        if not 0 <= offset <= len(body) - _PREFIX.size:
            raise ValueError("a buffer is outside its message")
        info.prefixes[offset] = bytes(body[offset : offset + _PREFIX.size])
    _count(info, allowance)


def _count(info: _MessageInfo, allowance: Allowance) -> None:
    for length in info.lengths:
        allowance.take(length * _VALUE_BYTES)
    for offset, size in info.buffers:
        uncompressed = _NOT_COMPRESSED
        if info.compressed and size >= _PREFIX.size:
            (uncompressed,) = _PREFIX.unpack(info.prefixes[offset])
        allowance.take(size if uncompressed == _NOT_COMPRESSED else uncompressed)
