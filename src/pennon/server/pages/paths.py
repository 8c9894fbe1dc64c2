"""The paths of pages. An identifier is one part of a path: its names joined by `$`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from pennon.identifiers import object_id

if TYPE_CHECKING:
    from pennon.identifiers import Identifier

HOME = "/"
PREFIX = "/pages/"
SIGN_IN = f"{PREFIX}sign-in"
SIGN_OUT = f"{PREFIX}sign-out"
STATIC = f"{PREFIX}static/"
SEARCH = f"{PREFIX}search"
TRASH = f"{PREFIX}trash"
RUNS = f"{PREFIX}runs"
HEALTH = f"{PREFIX}health"
HEALTH_ENTRIES = f"{HEALTH}/entries"


def is_page(path: str) -> bool:
    """Return True if the path is that of a page, and not one of a protocol."""
    return path == HOME or path.startswith(PREFIX)


def namespace_path(identifier: Identifier) -> str:
    """Return the path of a namespace's page."""
    return f"{PREFIX}namespace/{_encode(identifier)}" if identifier else HOME


def tree_path(identifier: Identifier) -> str:
    """Return the path of the part of the tree below a namespace."""
    return f"{PREFIX}tree/{_encode(identifier)}"


def table_path(identifier: Identifier, view: str = "", **query: object) -> str:
    """Return the path of a table's page, or of one of its views."""
    path = f"{PREFIX}table/{_encode(identifier)}"
    return with_query(f"{path}/{view}" if view else path, **query)


def run_path(pipeline: str, run_id: str = "") -> str:
    """Return the path of a pipeline's page, or of one of its runs."""
    return "/".join([RUNS, *(quote(one, safe="") for one in (pipeline, run_id) if one)])


def with_query(path: str, **query: object) -> str:
    """Return a path with those parameters that have a value."""
    given = {name: str(value) for name, value in query.items() if value not in {None, ""}}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def _encode(identifier: Identifier) -> str:
    return quote(object_id(identifier), safe="$")
