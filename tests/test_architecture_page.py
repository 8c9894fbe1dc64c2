"""docs/architecture.md names every module, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/architecture.md").read_text()
TESTS = {path.name for path in (ROOT / "tests").rglob("*.py")}
MODULES = {path.name for path in (ROOT / "src/pennon").rglob("*.py")} - {"__init__.py", "__main__.py"}


def test_every_module_is_named():
    assert sorted(name for name in MODULES if name not in PAGE) == []


def test_every_named_module_exists():
    named = set(re.findall(r"\b[a-z_0-9]+\.py\b", PAGE))
    assert sorted(named - MODULES - {"__init__.py"} - TESTS) == []
