"""The contract of the directory namespace, as far as it is about tables in a namespace, on REST catalogs."""

from __future__ import annotations

import uuid

import pytest
from borrowed import taken
from support import create_namespace

MODULES = (
    "test_create",
    "test_declare",
    "test_describe",
    "test_drop",
    "test_list_tables",
    "test_missing",
    "test_names",
    "test_paging",
    "test_register",
    "test_rename",
    "test_request_forms",
    "test_table_data",
    "test_threads",
)
DIFFERS = {
    "test_declared_table_has_a_name_and_a_reserved_location": "the server's entry is the reservation; no file is",
    "test_listing_leaves_declared_tables_out_if_asked_to": "the server is shared by all tests, so it lists more tables",
    "test_a_declared_table_can_be_deregistered_and_registered": "nothing is left of it that could be registered",
    "test_what_is_gone_from_disk_is_not_described": "the server knows of the table; describing it looks at no file",
}
"""Tests of the contract that do not hold on Apache's fixture, each with the reason."""
DIFFERS_ON_OURS = {
    "test_listing_leaves_declared_tables_out_if_asked_to": "the server is shared by all tests, so it lists more tables",
    "test_a_declared_table_can_be_deregistered_and_registered": "nothing is left of it that could be registered",
    "test_the_longest_names_work_in_every_operation": "the server keeps and restores dropped tables itself",
}
"""The same for our own server."""


for _module in MODULES:
    for _name, _one in taken("contract", _module, "place").items():
        _is_test = _name.startswith("test_")
        globals()[f"{_name}__{_module.removeprefix('test_')}" if _is_test else _name] = _one


@pytest.fixture
def managed_by() -> str:
    return "storage"


@pytest.fixture
def place(request, irc, connect):
    """Give a namespace on a server that tables can be in."""
    name = request.node.name.partition("[")[0].partition("__")[0]
    differs = DIFFERS if irc.root is None else DIFFERS_ON_OURS
    if name in differs:
        request.applymarker(pytest.mark.xfail(reason=differs[name], strict=True))
    catalog = connect(irc.uri)
    catalog._store = catalog._places.root  # the contract looks at the files below it
    parent = f"s{uuid.uuid4().hex[:12]}"
    create_namespace(catalog, parent)
    return catalog, (parent,)
