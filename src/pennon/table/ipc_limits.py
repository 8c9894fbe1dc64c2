"""How much memory Arrow IPC data may take compared with its own size, found before anything is decompressed.

A buffer of a few bytes may say that it is a gigabyte when it is decompressed; a column of nulls has any number of rows
in no bytes; the views of a column of texts may all show the same megabyte. So the messages are looked at first: the
lengths of columns and buffers stand in their metadata, and the true size of a compressed buffer in its first bytes.
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
"""Bytes in memory that any data may take, however small it is."""
MOST_EXPANSION = 100
"""Bytes in memory that each byte of the data may take beyond that."""
_VALUE_BYTES = 4
"""What a value counts beside its buffers, as it may have none."""
_DICTIONARY, _BATCH = 2, 3
_CONTINUATION = 0xFFFFFFFF
_PREFIX = struct.Struct("<q")
_AS_IT_IS = -1
_VIEW_INTS = 4
_LARGEST_METADATA = 256 << 20


class Allowance:
    """Adds up what batches take in memory; raises InvalidInputError (13) if it is too much."""

    def __init__(self, received: int = 0) -> None:
        self.received = received
        self._taken = 0

    def take(self, size: int) -> None:
        """Count bytes in memory."""
        if size < 0:
            raise ValueError("a length is negative")
        self._taken += size
        most = ALWAYS_ALLOWED + MOST_EXPANSION * self.received
        if self._taken > most:
            raise InvalidInputError(
                f"The table's data has {self.received:,} bytes and takes more than {most:,} in memory: more than "
                f"{MOST_EXPANSION} for each. Send it in several parts, or without compression"
            )

    def take_views(self, batch: pa.RecordBatch) -> None:
        """Count the texts that views show: Lance copies each of them."""
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
    """Look at all messages of a stream that is in memory; return what is left for views."""
    allowance = Allowance(len(buffer))
    content = memoryview(buffer)
    at = 0
    while (message := _message_at(content, at)) is not None:
        metadata, body = message
        described = _described(metadata)
        _check_message(described, content[body : body + described.body_bytes], allowance)
        at = body + described.body_bytes
    return allowance


def check_file(buffer: pa.Buffer) -> Allowance:
    """Do the same for a file, whose footer says where its messages are: one may be named any number of times."""
    allowance = Allowance(len(buffer))
    content = memoryview(buffer)
    (footer_bytes,) = struct.unpack_from("<i", content, len(content) - 10)
    begin = len(content) - 10 - footer_bytes
    if footer_bytes < 0 or begin < 0:
        raise ValueError("the footer is not inside of the file")
    footer = _Table.root(content[begin : begin + footer_bytes])
    for number in (2, 3):
        for block in footer.structs(number, "<qixxxxq"):
            offset, _, body_bytes = block
            message = _message_at(content, offset) if 0 <= offset < len(content) else None
            if message is None or body_bytes < 0:
                raise ValueError("a block is not inside of the file")
            metadata, body = message
            _check_message(_described(metadata), content[body : body + body_bytes], allowance)
    return allowance


class CheckedSource:
    """Something to read a stream from, which looks at each message while it is read."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._steps = self._look()
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
        """Leave the source open: it is its owner's."""
        self.closed = True

    def readable(self) -> bool:
        """Return True."""
        return True

    def _look(self) -> Generator[int, bytes, None]:
        """Yield how many bytes to send next, or how many to skip as a negative number; 0 ends it."""
        while True:
            (length,) = struct.unpack("<I", (yield 4))
            if length == _CONTINUATION:
                (length,) = struct.unpack("<I", (yield 4))
            if length == 0 or length > _LARGEST_METADATA:
                yield 0
            described = _described(memoryview((yield length)))
            at = 0
            for offset in described.with_prefix():
                if not at <= offset <= described.body_bytes - _PREFIX.size:
                    raise ValueError("a buffer is not inside of its message, or lies over another one")
                if offset > at:
                    yield at - offset
                described.prefixes[offset] = yield _PREFIX.size
                at = offset + _PREFIX.size
            _count(described, self.allowance)
            if at < described.body_bytes:
                yield at - described.body_bytes


@dataclass
class _Described:
    """What the metadata of a message says."""

    body_bytes: int
    lengths: list[int] = field(default_factory=list)
    buffers: list[tuple[int, int]] = field(default_factory=list)
    compressed: bool = False
    prefixes: dict[int, bytes] = field(default_factory=dict)
    """The first bytes of compressed buffers, by where these begin."""

    def with_prefix(self) -> list[int]:
        """Return where the buffers begin whose first bytes tell their true size."""
        if not self.compressed:
            return []
        return sorted({offset for offset, size in self.buffers if size >= _PREFIX.size})


class _Table:
    """A table of a flatbuffer: fields by number. What is no flatbuffer raises ValueError or struct.error."""

    def __init__(self, content: memoryview, at: int) -> None:
        self._content = content
        self._at = at
        self._fields = at - self._number("<i", at)
        self._size = self._number("<H", self._fields)

    @classmethod
    def root(cls, content: memoryview) -> _Table:
        return cls(content, int(struct.unpack_from("<I", content, 0)[0]))

    def value(self, number: int, kind: str, default: int = 0) -> int:
        at = self._place(number)
        return default if at is None else self._number(kind, at)

    def table(self, number: int) -> _Table | None:
        at = self._place(number)
        return None if at is None else _Table(self._content, at + self._number("<I", at))

    def structs(self, number: int, kind: str) -> list[tuple[int, ...]]:
        at = self._place(number)
        if at is None:
            return []
        begin = at + self._number("<I", at)
        layout = struct.Struct(kind)
        count = self._number("<I", begin)
        return list(layout.iter_unpack(self._inside(begin + 4, count * layout.size)))

    def _place(self, number: int) -> int | None:
        slot = 4 + 2 * number
        offset = self._number("<H", self._fields + slot) if slot + 2 <= self._size else 0
        return self._at + offset if offset else None

    def _number(self, kind: str, at: int) -> int:
        return int(struct.unpack_from(kind, self._inside(at, struct.calcsize(kind)))[0])

    def _inside(self, at: int, size: int) -> memoryview:
        if at < 0 or at + size > len(self._content):
            raise ValueError("the metadata of a message is damaged")
        return self._content[at : at + size]


def _message_at(content: memoryview, at: int) -> tuple[memoryview, int] | None:
    """Return the metadata of a message and where its body begins; None at the end of the stream."""
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
        raise ValueError("the stream ends inside of a message")
    return content[at : at + length], at + length


def _described(metadata: memoryview) -> _Described:
    message = _Table.root(metadata)
    kind = message.value(1, "<B")
    described = _Described(message.value(3, "<q"))
    if described.body_bytes < 0:
        raise ValueError("the length of a body is negative")
    header = message.table(2)
    batch = header.table(1) if header is not None and kind == _DICTIONARY else header
    if batch is not None and kind in {_DICTIONARY, _BATCH}:
        described.lengths = [batch.value(0, "<q"), *(length for length, _ in batch.structs(1, "<qq"))]
        described.buffers = [(offset, size) for offset, size in batch.structs(2, "<qq")]
        described.compressed = batch.table(3) is not None
    return described


def _check_message(described: _Described, body: memoryview, allowance: Allowance) -> None:
    for offset in described.with_prefix():
        if not 0 <= offset <= len(body) - _PREFIX.size:
            raise ValueError("a buffer is not inside of its message")
        described.prefixes[offset] = bytes(body[offset : offset + _PREFIX.size])
    _count(described, allowance)


def _count(described: _Described, allowance: Allowance) -> None:
    for length in described.lengths:
        allowance.take(length * _VALUE_BYTES)
    for offset, size in described.buffers:
        told = _AS_IT_IS
        if described.compressed and size >= _PREFIX.size:
            (told,) = _PREFIX.unpack(described.prefixes[offset])
        allowance.take(size if told == _AS_IT_IS else told)
