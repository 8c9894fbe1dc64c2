"""The tree of a catalog."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon.cli import addresses
from pennon.directory import namespaces
from pennon.directory.lookup import describe
from pennon.identifiers import Identifier, object_id, parent_and_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.directory.catalog import Catalog


@dataclass
class Branch:
    """A namespace with what is in it; `cut` if there is more than the depth that was asked for."""

    name: str
    branches: list[Branch] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    cut: bool = False


def grown(catalog: Catalog, where: Identifier, *, depth: int | None, with_tables: bool) -> Branch:
    """Build the tree below a namespace: all namespaces in one read, all tables in another."""
    top = Branch(addresses.shown(where))
    known = {object_id(where): top}
    for key in namespaces.list_all(catalog, where):
        parent, name = parent_and_name(key)
        known[key] = Branch(name)
        known[parent].branches.append(known[key])
    if with_tables:
        for key in describe.list_all_tables(catalog, where, None, None, include_declared=True)[0]:
            parent, name = parent_and_name(key)
            # One that was created after the namespaces were read has no place in this picture.
            if parent in known:
                known[parent].tables.append(name)
    if depth is not None:
        _cut(top, depth)
    return top


def document(branch: Branch) -> dict[str, Any]:
    """Give a branch as JSON."""
    content: dict[str, Any] = {
        "namespaces": [{"name": one.name, **document(one)} for one in branch.branches],
        "tables": branch.tables,
    }
    return {**content, "cut": True} if branch.cut else content


def lines(branch: Branch, most: int | None) -> Iterator[tuple[str, str]]:
    """Draw a branch, line by line; of each namespace at most so many tables."""
    yield branch.name, "bold"
    yield from _inner(branch, most, "")


def summary(branch: Branch) -> str:
    """Count what is in a branch."""
    namespaces_, tables_ = _counted(branch)
    return f"{namespaces_:,} namespaces, {tables_:,} tables"


def _inner(branch: Branch, most: int | None, indent: str) -> Iterator[tuple[str, str]]:
    shown = branch.tables[:most]
    hidden = len(branch.tables) - len(shown)
    rest = len(branch.branches) + len(shown) + (hidden > 0) + branch.cut
    for one in branch.branches:
        rest -= 1
        yield f"{indent}{'├── ' if rest else '└── '}{one.name}", "bold cyan"
        yield from _inner(one, most, indent + ("│   " if rest else "    "))
    for name in shown:
        rest -= 1
        yield f"{indent}{'├── ' if rest else '└── '}{name}", ""
    if hidden:
        yield f"{indent}{'├── ' if branch.cut else '└── '}… {hidden:,} more tables", "dim"
    if branch.cut:
        yield f"{indent}└── …", "dim"


def _cut(branch: Branch, depth: int) -> None:
    if depth == 0:
        branch.cut = bool(branch.branches or branch.tables)
        branch.branches, branch.tables = [], []
    for one in branch.branches:
        _cut(one, depth - 1)


def _counted(branch: Branch) -> tuple[int, int]:
    inner = [_counted(one) for one in branch.branches]
    return len(inner) + sum(one for one, _ in inner), len(branch.tables) + sum(one for _, one in inner)
