"""The tree of namespaces and tables that `pennon tree` shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon import addresses
from pennon.catalog_pages import iterate_all_tables, iterate_namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.api import LakeCatalog
    from pennon.identifiers import Identifier


@dataclass
class TreeNode:
    """A namespace with its children; `cut` if it has children below the requested depth."""

    name: str
    children: list[TreeNode] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    cut: bool = False


def build_tree(lake: LakeCatalog, where: Identifier, *, depth: int | None, with_tables: bool) -> TreeNode:
    """Return the tree below a namespace."""
    top = TreeNode(addresses.format_address(where))
    known = {where: top}
    for identifier in iterate_namespaces(lake.namespace, where, recursive=True):
        known[identifier] = TreeNode(identifier[-1])
        known[identifier[:-1]].children.append(known[identifier])
    if with_tables:
        for identifier in iterate_all_tables(lake.namespace, where):
            # A namespace that was created after the first read is not in the tree.
            if identifier[:-1] in known:
                known[identifier[:-1]].tables.append(identifier[-1])
    if depth is not None:
        _cut(top, depth)
    return top


def tree_document(node: TreeNode) -> dict[str, Any]:
    """Return a node as JSON."""
    content: dict[str, Any] = {
        "namespaces": [{"name": one.name, **tree_document(one)} for one in node.children],
        "tables": node.tables,
    }
    return {**content, "cut": True} if node.cut else content


def draw_lines(node: TreeNode, most: int | None) -> Iterator[tuple[str, str]]:
    """Return the lines of a tree, each with a style; at most `most` tables of each namespace."""
    yield node.name, "bold"
    yield from _draw_children(node, most, "")


def summarize_tree(node: TreeNode) -> str:
    """Return the number of namespaces and tables in a tree, as text."""
    namespaces_, tables_ = _count(node)
    return f"{namespaces_:,} namespaces, {tables_:,} tables"


def _draw_children(node: TreeNode, most: int | None, indent: str) -> Iterator[tuple[str, str]]:
    shown = node.tables[:most]
    hidden = len(node.tables) - len(shown)
    rest = len(node.children) + len(shown) + (hidden > 0) + node.cut
    for one in node.children:
        rest -= 1
        yield f"{indent}{'├── ' if rest else '└── '}{one.name}", "bold cyan"
        yield from _draw_children(one, most, indent + ("│   " if rest else "    "))
    for name in shown:
        rest -= 1
        yield f"{indent}{'├── ' if rest else '└── '}{name}", ""
    if hidden:
        yield f"{indent}{'├── ' if node.cut else '└── '}… {hidden:,} more tables", "dim"
    if node.cut:
        yield f"{indent}└── …", "dim"


def _cut(node: TreeNode, depth: int) -> None:
    if depth == 0:
        node.cut = bool(node.children or node.tables)
        node.children, node.tables = [], []
    for one in node.children:
        _cut(one, depth - 1)


def _count(node: TreeNode) -> tuple[int, int]:
    inner = [_count(one) for one in node.children]
    return len(inner) + sum(one for one, _ in inner), len(node.tables) + sum(one for _, one in inner)
