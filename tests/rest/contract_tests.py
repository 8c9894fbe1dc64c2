"""Tests of the contract, to run on a client of a server."""

from __future__ import annotations

from typing import Any

from tests.iceberg.borrowed import borrow_tests

_FIXTURES = ("place", "namespace", "nested", "open_namespace", "root", "mode")


def borrow_contract(*modules: str) -> dict[str, Any]:
    """Return the tests of modules of the contract, by names that end with the module, and what they use."""
    borrowed: dict[str, Any] = {}
    for module in modules:
        for name, one in borrow_tests("contract", module, *_FIXTURES).items():
            borrowed[f"{name}__{module.removeprefix('test_')}" if name.startswith("test_") else name] = one
    return borrowed
