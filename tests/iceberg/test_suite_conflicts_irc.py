"""The suite of operations inside of tables, tests/table/test_conflicts.py, on Apache's fixture."""

from __future__ import annotations

from tests.iceberg.borrowed import taken

globals().update(taken("table", "test_conflicts", "namespace", "ours"))
