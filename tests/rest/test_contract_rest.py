"""The contract of the directory namespace, through a server and its client."""

from __future__ import annotations

from tests.iceberg.borrowed import borrow_tests

MODULES = (
    "test_create",
    "test_declare",
    "test_describe",
    "test_drop",
    "test_lifetime",
    "test_list_tables",
    "test_missing",
    "test_names",
    "test_namespaces",
    "test_odd_names",
    "test_paging",
    "test_properties",
    "test_register",
    "test_rename",
    "test_request_forms",
    "test_threads",
)
for _module in MODULES:
    for _name, _one in borrow_tests(
        "contract", _module, "place", "namespace", "nested", "open_namespace", "root", "mode"
    ).items():
        _is_test = _name.startswith("test_")
        globals()[f"{_name}__{_module.removeprefix('test_')}" if _is_test else _name] = _one
