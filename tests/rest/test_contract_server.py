"""The part of the contract that depends on the server much more than on its client."""

from __future__ import annotations

import pytest

from tests.iceberg.borrowed import borrow_tests

pytestmark = pytest.mark.soak
MODULES = ("test_describe_schema", "test_locations", "test_table_data")

for _module in MODULES:
    for _name, _one in borrow_tests(
        "contract", _module, "place", "namespace", "nested", "open_namespace", "root", "mode"
    ).items():
        _is_test = _name.startswith("test_")
        globals()[f"{_name}__{_module.removeprefix('test_')}" if _is_test else _name] = _one
