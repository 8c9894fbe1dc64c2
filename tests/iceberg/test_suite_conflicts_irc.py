"""Operations inside tables, by the suite tests/table/test_conflicts.py, on Apache's fixture."""

from __future__ import annotations

from tests.iceberg.borrowed import borrow_tests

globals().update(borrow_tests("table", "test_conflicts", "namespace", "ours"))
