"""The suite of operations inside of tables, tests/table/test_branches.py, on Apache's fixture."""

from __future__ import annotations

from tests.iceberg.borrowed import borrow_tests

globals().update(borrow_tests("table", "test_branches", "namespace", "ours"))
