"""The two files that hide a deregistered or renamed root table.

`<name>.deregistered` stands beside the directory, where a listing of the root sees it. `.lance-deregistered` stands
inside it, where all Lance clients look, and decides. Each function can be repeated after a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout

if TYPE_CHECKING:
    from pennon.store import Store


def hide_root_table(store: Store, name: str, *, renamed: bool = False) -> None:
    """Hide a root table. `renamed` records that its directory now belongs to a table of another name."""
    store.put(layout.deregistered_marker(name), layout.RENAMED_BODY if renamed else layout.MARKER_BODY)
    store.put(layout.inside(layout.root_table(name), layout.DEREGISTERED_MARKER), layout.MARKER_BODY)


def show_root_table(store: Store, name: str) -> None:
    """Show a root table again. The file inside goes first, because it decides."""
    store.delete(layout.inside(layout.root_table(name), layout.DEREGISTERED_MARKER))
    store.delete(layout.deregistered_marker(name))


def is_renamed(store: Store, name: str) -> bool:
    """Return True if the directory of a root table belongs to a table of another name."""
    marker = store.get(layout.deregistered_marker(name))
    return marker is not None and marker.body == layout.RENAMED_BODY
