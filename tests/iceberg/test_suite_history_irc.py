"""Operations inside tables, by the suite tests/table/test_history.py, on Iceberg REST catalogs."""

from __future__ import annotations

from tests.iceberg.borrowed import borrow_tests

# Put below a namespace, the identifier that lacks its table has as many names as one that does not.
WITHOUT = frozenset({"test_a_transaction_without_its_table_raises_invalid_input"})

globals().update(borrow_tests("table", "test_history", "namespace", without=WITHOUT))
