"""The suite of operations inside of tables, tests/table/test_tags.py, on Iceberg REST catalogs."""

from __future__ import annotations

from tests.iceberg.borrowed import borrow_tests

globals().update(borrow_tests("table", "test_tags", "namespace"))
