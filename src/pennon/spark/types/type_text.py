"""Arrow types as text, for the metadata of Spark's fields: `uint32`, `fixed_size_list<halffloat>[32]`, `arrow.uuid`.

An element of a list is written as `name: type not null {metadata}`; parts with default values are left out. A struct is
just `struct`: its fields are fields in Spark too, with texts of their own.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa

from pennon.spark.types.extension import STORAGE, extension_metadata, known_extension, without_extension
from pennon.spark.types.lazy_errors import invalid_input

# Names of types that PyArrow parses, but formats differently.
_FLOATS = ("float16", "float32", "float64")
_STRUCT = "struct"
_ITEM = "item"
_WORD = r"[A-Za-z_][\w.]*"
_ZONED = r"\[(s|ms|us|ns), tz=([^\]]+)\]"
_UNIT = r"\[(?:day|s|ms|us|ns)\]"
_SIZE = r"\[(\d+)\]"
_DIGITS = r"\((\d+), ?(-?\d+)\)"
_NAME = r"([^\s:<>,\[\](){}\"]+):"


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
    metadata = without_extension(field)
    name = "" if field.name == usual else f"{field.name}: "
    null = "" if field.nullable or usual == "key" else " not null"
    return name + format_type(field) + null + (f" {json.dumps(metadata, sort_keys=True)}" if metadata else "")


def parse_type(text: str, *, column: str) -> pa.Field:
    """Return a nullable field without a name, of the type that `format_type` wrote; structs have no fields yet.

    Raises InvalidInputError if the text is not an Arrow type.
    """
    reader = _TypeParser(text, column)
    field = reader.field(usual="")
    reader.need(r"$")
    return field


class _TypeParser:
    def __init__(self, text: str, column: str) -> None:
        self._text = text
        self._column = column
        self._at = 0

    def field(self, *, usual: str, nullable: bool = True) -> pa.Field:
        name = self._match(_NAME)
        kind, metadata = self._type()
        if self._match(r"not null\b"):
            nullable = False
        if self._match(r"(?=\{)"):
            try:
                given, self._at = json.JSONDecoder().raw_decode(self._text, self._at)
                metadata |= {key.encode(): value.encode() for key, value in given.items()}
            except (ValueError, AttributeError) as error:
                raise self._bad() from error
        return pa.field(name[1] if name else usual, kind, nullable=nullable, metadata=metadata or None)

    def _type(self) -> tuple[pa.DataType, dict[bytes, bytes]]:
        word = self.need(_WORD)[0].strip()
        if word in STORAGE:
            return STORAGE[word], extension_metadata(word)
        try:
            return self._plain(word), {}
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise self._bad() from error

    def _plain(self, word: str) -> pa.DataType:
        if word in {"list", "large_list", "fixed_size_list"}:
            self.need("<")
            item = self.field(usual=_ITEM)
            self.need(">")
            if word == "fixed_size_list":
                return pa.list_(item, int(self.need(_SIZE)[1]))
            return pa.list_(item) if word == "list" else pa.large_list(item)
        if word == "map":
            self.need("<")
            key = self.field(usual="key", nullable=False)
            self.need(",")
            value = self.field(usual="value")
            self.need(">")
            return pa.map_(key, value)
        if word == "dictionary":
            self.need("<")
            index, _ = self._type()
            self.need(",")
            value, _ = self._type()
            ordered = self._match(r",\s*ordered\b") is not None
            self.need(">")
            return pa.dictionary(index, value, ordered=ordered)
        if word == "timestamp" and (zoned := self._match(_ZONED)):
            return pa.timestamp(zoned[1], tz=zoned[2])
        if word == "fixed_size_binary":
            return pa.binary(int(self.need(_SIZE)[1]))
        if word in {"decimal128", "decimal256"}:
            digits = self.need(_DIGITS)
            return (pa.decimal128 if word == "decimal128" else pa.decimal256)(int(digits[1]), int(digits[2]))
        if word == _STRUCT:
            return pa.struct([])
        unit = self._match(_UNIT)
        name = word + unit[0].strip() if unit else word
        leaf = pa.type_for_alias(name)
        if str(leaf) != name and name not in _FLOATS:
            raise self._bad()
        return leaf

    def _match(self, pattern: str) -> re.Match[str] | None:
        """Match a pattern after blanks, and go on behind it; return None if it does not match."""
        found = re.compile(rf"\s*(?:{pattern})").match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found

    def need(self, pattern: str) -> re.Match[str]:
        """Match a pattern; raises InvalidInputError if it does not match."""
        found = self._match(pattern)
        if found is None:
            raise self._bad()
        return found

    def _bad(self) -> Exception:
        return invalid_input(
            f"Column {self._column}: {self._text!r} is not an Arrow type (at {self._text[self._at :]!r})"
        )
