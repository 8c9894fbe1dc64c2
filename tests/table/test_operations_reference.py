"""The table of operations in the documentation matches the code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from lance_namespace import LanceNamespace

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import operations_reference
from operation_calls import operations
from operation_cases import CASES


@pytest.fixture(scope="module")
def page() -> str:
    """Generate the page once: every case with every client."""
    return operations_reference.written()


def test_the_page_covers_every_operation_of_the_interface():
    assert set(CASES) == set(operations())
    assert all(CASES.values())
    assert len(operations()) == 56
    assert all(callable(getattr(LanceNamespace, name)) for name in operations())


def test_the_page_matches_the_code(page):
    assert operations_reference.FILE.read_text() == page, "run scripts/operations_reference.py"


def test_no_operation_is_missing_without_a_reason(page):
    assert "there is no such operation yet" not in page
