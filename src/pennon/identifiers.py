"""Object names and identifiers: validate, join, split, format.

An identifier is a tuple of names; the root namespace is the empty tuple. Joined by `$` it is the object id in the
manifest. Every name that becomes a path or a key is validated here before anything is read or written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, NamespaceNotFoundError, TableNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

DELIMITER = "$"
RESERVED_PREFIX = "__"
_FORBIDDEN = re.compile(r"[$/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_ORDINARY = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,199}")
_WRITTEN = re.compile(r"`((?:[^`]|``)*)`|([^`.]+)")
_PLAIN = re.compile(r"[0-9A-Za-z_-]+")
_FORBIDDEN_NAMES = {DELIMITER: "the delimiter '$'", "/": "a slash", "\\": "a backslash"}
# A name becomes part of a file name, whose limit is 255 bytes. The longest file names are `<name>.deregistered` and
# `<8 digits>_<object id>_.declared`.
_LONGEST_DECORATION = 19
MAX_BYTES = 255 - _LONGEST_DECORATION

Identifier = tuple[str, ...]
ROOT: Identifier = ()


def namespace_identifier(value: Sequence[str] | None) -> Identifier:
    """Return the validated identifier of a namespace; None and the empty list are the root.

    Raises InvalidInputError if a name is not valid.
    """
    return _validate_identifier(value or ())


def table_identifier(value: Sequence[str] | None) -> Identifier:
    """Return the validated identifier of a table. Raises InvalidInputError if it is empty or a name is not valid."""
    identifier = _validate_identifier(value or ())
    if not identifier:
        raise InvalidInputError("A table identifier needs at least one name, got an empty one")
    return identifier


def object_id(identifier: Identifier) -> str:
    """Return the object id of an identifier: its names joined by `$`."""
    return DELIMITER.join(identifier)


def split_object_id(joined: str) -> Identifier:
    """Return the identifier of an object id; the empty string is the root."""
    return tuple(joined.split(DELIMITER)) if joined else ROOT


def parent_and_name(joined: str) -> tuple[str, str]:
    """Split `a$b$c` into `a$b` and `c`; a root-level object has the parent ""."""
    parent, _, name = joined.rpartition(DELIMITER)
    return parent, name


def parse_identifier(text: str) -> Identifier:
    """Parse names joined by dots, with special names in backticks (`` `a.b`.t ``); "" is the root.

    Raises InvalidInputError if the text cannot be parsed or a name is not valid.
    """
    names: list[str] = []
    position = 0
    while position < len(text):
        found = _WRITTEN.match(text, position)
        if found is None:
            raise InvalidInputError(f"Bad identifier {text!r}: no name at position {position + 1}")
        quoted_name, plain = found.groups()
        names.append(plain if quoted_name is None else quoted_name.replace("``", "`"))
        position = found.end()
        if position < len(text):
            if text[position] != "." or position + 1 == len(text):
                raise InvalidInputError(f"Bad identifier {text!r}: unexpected {text[position]!r} at {position + 1}")
            position += 1
    return _validate_identifier(names)


def parse_table_name(name: str | Sequence[str]) -> Identifier:
    """Return the identifier of a table that is named by a text, such as `prod.events`, or by a list of names."""
    return table_identifier(parse_identifier(name) if isinstance(name, str) else name)


def parse_namespace_name(name: str | Sequence[str]) -> Identifier:
    """Return the identifier of a namespace that is named by a text or by a list; the empty name is the root."""
    return namespace_identifier(parse_identifier(name) if isinstance(name, str) else name)


def quote_identifier(identifier: Identifier) -> str:
    """Return the text that `parse_identifier` parses into this identifier."""
    return ".".join(name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`" for name in identifier)


def format_identifier(identifier: Identifier) -> str:
    """Return the identifier as it is written in messages: as people write it, not as an object id."""
    return f"'{quote_identifier(identifier)}'" if identifier else "the root namespace"


def format_object_id(joined: str) -> str:
    """Return the identifier of an object id as it is written in messages."""
    return format_identifier(split_object_id(joined))


def namespace_not_found(identifier: Identifier) -> NamespaceNotFoundError:
    """Return the error for a namespace that does not exist."""
    return NamespaceNotFoundError(f"Namespace not found: {format_identifier(identifier)}")


def parent_not_found(identifier: Identifier) -> NamespaceNotFoundError:
    """Return the error for an object whose parent namespace does not exist."""
    return NamespaceNotFoundError(
        f"Namespace not found: {format_identifier(identifier[:-1])}, parent of {format_identifier(identifier)}"
    )


def table_not_found(identifier: Identifier) -> TableNotFoundError:
    """Return the error for a table that does not exist."""
    return TableNotFoundError(f"Table not found: {format_identifier(identifier)}")


def find_name_fault(name: object, *, at_root: bool) -> str | None:
    """Return why `name` is not a valid name, or None if it is valid."""
    if not isinstance(name, str):
        return f"it is not text but {type(name).__name__}"
    if _ORDINARY.fullmatch(name):
        return None
    if not name:
        return "it is empty"
    if name in {".", ".."}:
        return "it is a relative path"
    found = _FORBIDDEN.search(name)
    if found is not None:
        return f"it holds {_FORBIDDEN_NAMES.get(found[0], 'a control character or a lone surrogate')}"
    if at_root and name.startswith(RESERVED_PREFIX):
        return f"names that begin with '{RESERVED_PREFIX}' are reserved at the root"
    if len(name.encode()) > MAX_BYTES:
        return f"it is longer than {MAX_BYTES} bytes"
    return None


def _validate_identifier(value: Sequence[str]) -> Identifier:
    if isinstance(value, (str, bytes)) or not all(isinstance(name, str) for name in value):
        raise InvalidInputError(f"An identifier is a list of names, got {value!r}")
    identifier = tuple(value)
    for level, name in enumerate(identifier):
        fault = find_name_fault(name, at_root=level == 0)
        if fault is not None:
            raise InvalidInputError(f"Bad name {name!r} in identifier {list(identifier)!r}: {fault}")
    if len(object_id(identifier).encode()) > MAX_BYTES:
        raise InvalidInputError(f"Identifier {list(identifier)!r} is longer than {MAX_BYTES} bytes when joined")
    return identifier
