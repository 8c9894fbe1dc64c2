"""The tests that docs/security.md names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
NAMED = re.findall(r"`((?:tests/[\w/]*)?\w*\.py)?(?:::(\w+))?`", (PROJECT / "docs/security.md").read_text())


def named_tests() -> list[tuple[str, str]]:
    """Return file and function of each test; a function without a file is of the file named before it."""
    found: list[tuple[str, str]] = []
    for file, function in NAMED:
        if file:
            found.append((file if "/" in file else f"tests/hostile/{file}", function))
        elif function:
            found.append((found[-1][0], function))
    return found


@pytest.mark.parametrize(("file", "function"), named_tests())
def test_a_test_that_the_security_page_names_exists(file, function):
    text = (PROJECT / file).read_text()
    assert f"def {function}(" in text if function else "def test_" in text


def test_the_security_page_names_tests():
    assert len(named_tests()) > 30
