"""The tables in Markdown pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_table(page: Path, head: str) -> list[list[str]]:
    """Return the cells of the table whose head begins with these words."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"^\| {re.escape(head)}.*\n\|[-|]+\n((?:\|.*\n?)+)", text, re.MULTILINE)
    assert found is not None, head
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()]
