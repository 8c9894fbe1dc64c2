"""The contract of the directory namespace, through a server and its client."""

from __future__ import annotations

import importlib.util

import pytest

from tests.iceberg.borrowed import borrow_tests

MODULES = (
    "test_create",
    "test_declare",
    "test_describe",
    "test_describe_schema",
    "test_drop",
    "test_lifetime",
    "test_list_tables",
    "test_locations",
    "test_missing",
    "test_names",
    "test_namespaces",
    "test_odd_names",
    "test_paging",
    "test_properties",
    "test_register",
    "test_rename",
    "test_request_forms",
    "test_table_data",
    "test_threads",
)
EXTENDED = {
    "test_an_odd_name_survives_every_operation_on_namespaces_and_renames",
    "test_properties_can_be_set_replaced_and_removed",
    "test_properties_of_a_missing_namespace_or_a_table_cannot_be_altered",
    "test_a_property_that_is_no_text_is_refused",
    "test_missing_namespace_raises_namespace_not_found",
    "test_the_longest_names_work_in_every_operation",
    "test_overwrite_creates_a_new_empty_namespace",
    "test_cascade_drops_everything_below_and_nothing_else",
    "test_v1_has_no_child_namespaces",
}
"""Tests that use operations beyond the specification."""
HAS_EXTENSIONS = importlib.util.find_spec("pennon.server.lance.extensions") is not None

for _module in MODULES:
    for _name, _one in borrow_tests(
        "contract", _module, "place", "namespace", "nested", "open_namespace", "root", "mode"
    ).items():
        _is_test = _name.startswith("test_")
        globals()[f"{_name}__{_module.removeprefix('test_')}" if _is_test else _name] = _one


@pytest.fixture(autouse=True)
def skip_operations_that_the_server_lacks(request) -> None:
    """Skip tests of operations beyond the specification as long as the server has none."""
    name = request.node.name.partition("[")[0].partition("__")[0]
    if name in EXTENDED and not HAS_EXTENSIONS:
        pytest.skip("the server has no operations beyond the specification")
