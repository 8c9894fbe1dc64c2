"""Modes and behaviours of requests: any case, PascalCase or snake_case."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from pennon.errors import InvalidInputError


class CreateMode(Enum):
    """What to do if the object is there."""

    CREATE = "create"
    EXIST_OK = "existok"
    OVERWRITE = "overwrite"


class RegisterMode(Enum):
    """What to do if a table of that name is there."""

    CREATE = "create"
    OVERWRITE = "overwrite"


class DropMode(Enum):
    """What to do if the namespace is not there."""

    FAIL = "fail"
    SKIP = "skip"


class DropBehavior(Enum):
    """What to do if the namespace is not empty."""

    RESTRICT = "restrict"
    CASCADE = "cascade"


Mode = TypeVar("Mode", bound=Enum)


def parsed(value: str | None, default: Mode) -> Mode:
    """Read a mode; an unknown one is InvalidInputError (13)."""
    if value is None:
        return default
    kind = type(default)
    try:
        return kind(str(value).strip().lower().replace("_", ""))
    except ValueError as error:
        known = ", ".join(mode.name.lower() for mode in kind)
        raise InvalidInputError(f"Unknown mode {value!r}; known: {known}") from error
