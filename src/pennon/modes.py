"""Parse modes, behaviours and flags of requests: in any case, PascalCase or snake_case."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping


class CreateMode(Enum):
    """What to do if the object already exists."""

    CREATE = "create"
    EXIST_OK = "existok"
    OVERWRITE = "overwrite"


class RegisterMode(Enum):
    """What to do if a table with that name already exists."""

    CREATE = "create"
    OVERWRITE = "overwrite"


class DropMode(Enum):
    """What to do if the namespace does not exist."""

    FAIL = "fail"
    SKIP = "skip"


class DropBehavior(Enum):
    """What to do if the namespace is not empty."""

    RESTRICT = "restrict"
    CASCADE = "cascade"


Mode = TypeVar("Mode", bound=Enum)


def parse_mode(value: str | None, default: Mode) -> Mode:
    """Return a mode, or the default for None. Raises InvalidInputError if it is unknown."""
    if value is None:
        return default
    kind = type(default)
    try:
        return kind(str(value).strip().lower().replace("_", ""))
    except ValueError as error:
        known = ", ".join(mode.name.lower() for mode in kind)
        raise InvalidInputError(f"Unknown mode {value!r}; known: {known}") from error


def parse_flag(context: Mapping[str, str] | None, key: str, *, default: bool = False) -> bool:
    """Return a flag in a request's context. Raises InvalidInputError if it is neither true nor false."""
    if not context or key not in context:
        return default
    text = str(context[key]).strip().lower()
    if text not in {"true", "false"}:
        raise InvalidInputError(f"The context's {key!r} must be true or false, got {context[key]!r}")
    return text == "true"
