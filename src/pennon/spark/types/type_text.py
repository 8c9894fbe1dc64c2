"""Arrow types as text, for the metadata of Spark's fields: `uint32`, `fixed_size_list<halffloat>[32]`, `arrow.uuid`.

An element of a list is written as `name: type not null {metadata}`; parts with default values are left out. A struct is
just `struct`: its fields are fields in Spark too, with texts of their own.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa

from pennon.spark.types.extension import STORAGE, extension_metadata, known_extension
from pennon.spark.types.lazy_errors import invalid_input

_LEAVES = {
    str(kind): kind
    for kind in (
        pa.null(),
        pa.bool_(),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
        *(pa.string(), pa.large_string(), pa.string_view()),
        *(pa.binary(), pa.large_binary(), pa.binary_view()),
        *(pa.date32(), pa.date64()),
        *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
        *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    )
} | {"float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64()}

_STRUCT = "struct"
_ITEM = "item"
_WORD = re.compile(r"[A-Za-z_][\w.]*")
_ZONED = re.compile(r"\[(s|ms|us|ns), tz=([^\]]+)\]")
_UNIT = re.compile(r"\[(day|s|ms|us|ns)\]")
_SIZE = re.compile(r"\[(\d+)\]")
_DIGITS = re.compile(r"\((\d+), ?(-?\d+)\)")
_NAME = re.compile(r"([^\s:<>,\[\](){}\"]+):")
_NOT_NULL = re.compile(r"not null\b")
_ORDERED = re.compile(r",\s*ordered\b")
_BLANK = re.compile(r"\s*")


def format_type(field: pa.Field) -> str:
    """Return the type of a field in plain form as text, without name, nullability and metadata."""
    known = known_extension(field)
    return known or _format_data_type(field.type)


def _format_data_type(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return _STRUCT
    if pa.types.is_map(kind):
        keys = ", ".join([_format_element(kind.key_field, "key"), _format_element(kind.item_field, "value")])
        return f"map<{keys}>"
    if pa.types.is_fixed_size_list(kind):
        return f"fixed_size_list<{_format_element(kind.value_field)}>[{kind.list_size}]"
    if pa.types.is_large_list(kind):
        return f"large_list<{_format_element(kind.value_field)}>"
    if pa.types.is_list(kind):
        return f"list<{_format_element(kind.value_field)}>"
    if pa.types.is_dictionary(kind):
        ordered = ", ordered" if kind.ordered else ""
        return f"dictionary<{_format_data_type(kind.index_type)}, {_format_data_type(kind.value_type)}{ordered}>"
    return str(kind)


def _format_element(field: pa.Field, usual: str = _ITEM) -> str:
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    if known := known_extension(field):
        metadata = {key: value for key, value in metadata.items() if key.encode() not in extension_metadata(known)}
    name = "" if field.name == usual else f"{field.name}: "
    null = "" if field.nullable or usual == "key" else " not null"
    return name + format_type(field) + null + (f" {json.dumps(metadata, sort_keys=True)}" if metadata else "")


def parse_type(text: str, *, column: str) -> pa.Field:
    """Return a nullable field without a name, of the type that `format_type` wrote; structs have no fields yet.

    Raises InvalidInputError if the text is not an Arrow type.
    """
    reader = _TypeParser(text, column)
    field = reader.field(usual="")
    reader.finish()
    return field


class _TypeParser:
    def __init__(self, text: str, column: str) -> None:
        self._text = text
        self._column = column
        self._at = 0

    def field(self, *, usual: str, nullable: bool = True) -> pa.Field:
        name = self._match(_NAME)
        kind, metadata = self._type()
        if self._match(_NOT_NULL):
            nullable = False
        if self._peek("{"):
            try:
                given, self._at = json.JSONDecoder().raw_decode(self._text, self._at)
                metadata |= {key.encode(): value.encode() for key, value in given.items()}
            except (ValueError, AttributeError) as error:
                raise self._bad() from error
        return pa.field(name[1] if name else usual, kind, nullable=nullable, metadata=metadata or None)

    def finish(self) -> None:
        if self._text[self._at :].strip():
            raise self._bad()

    def _type(self) -> tuple[pa.DataType, dict[bytes, bytes]]:
        word = self._match(_WORD)
        if word is None:
            raise self._bad()
        if word[0] in STORAGE:
            return STORAGE[word[0]], extension_metadata(word[0])
        try:
            return self._plain(word[0]), {}
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise self._bad() from error

    def _plain(self, word: str) -> pa.DataType:
        if word in {"list", "large_list", "fixed_size_list"}:
            self._expect("<")
            item = self.field(usual=_ITEM)
            self._expect(">")
            if word == "fixed_size_list":
                return pa.list_(item, int(self._need(_SIZE)[1]))
            return pa.list_(item) if word == "list" else pa.large_list(item)
        if word == "map":
            self._expect("<")
            key = self.field(usual="key", nullable=False)
            self._expect(",")
            value = self.field(usual="value")
            self._expect(">")
            return pa.map_(key, value)
        if word == "dictionary":
            self._expect("<")
            index, _ = self._type()
            self._expect(",")
            value, _ = self._type()
            ordered = self._match(_ORDERED) is not None
            self._expect(">")
            return pa.dictionary(index, value, ordered=ordered)
        if word == "timestamp" and (zoned := self._match(_ZONED)):
            return pa.timestamp(zoned[1], tz=zoned[2])
        if word == "fixed_size_binary":
            return pa.binary(int(self._need(_SIZE)[1]))
        if word in {"decimal128", "decimal256"}:
            digits = self._need(_DIGITS)
            return (pa.decimal128 if word == "decimal128" else pa.decimal256)(int(digits[1]), int(digits[2]))
        if word == _STRUCT:
            return pa.struct([])
        unit = self._match(_UNIT)
        leaf = _LEAVES.get(word + unit[0].strip() if unit else word)
        if leaf is None:
            raise self._bad()
        return leaf

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, _skip_blank(self._text, self._at))
        if found:
            self._at = found.end()
        return found

    def _need(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = self._match(pattern)
        if found is None:
            raise self._bad()
        return found

    def _peek(self, text: str) -> bool:
        self._at = _skip_blank(self._text, self._at)
        return self._text.startswith(text, self._at)

    def _expect(self, text: str) -> None:
        if not self._peek(text):
            raise self._bad()
        self._at += len(text)

    def _bad(self) -> Exception:
        return invalid_input(
            f"Column {self._column}: {self._text!r} is not an Arrow type (at {self._text[self._at :]!r})"
        )


def _skip_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at
