"""The contract of the directory namespace, through a server and its client."""

from __future__ import annotations

from tests.rest.contract_tests import borrow_contract

MODULES = (
    "test_create",
    "test_declare",
    "test_describe",
    "test_drop",
    "test_list_tables",
    "test_namespaces",
    "test_odd_names",
    "test_paging",
    "test_properties",
    "test_register",
    "test_rename",
)
globals().update(borrow_contract(*MODULES))
