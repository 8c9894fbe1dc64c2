"""The contract of the directory namespace, through a server, with pylance's own client."""

from __future__ import annotations

from typing import Any

import lance_namespace
import pytest
from lance_namespace import DropTableRequest

from pennon import DirectoryNamespace
from pennon.server.lance.operations import OPERATIONS
from tests.iceberg.borrowed import borrow_tests
from tests.server.served import served
from tests.support import MODES, create_namespace

MODULES = (
    "test_create",
    "test_declare",
    "test_describe",
    "test_describe_schema",
    "test_drop",
    "test_list_tables",
    "test_missing",
    "test_names",
    "test_namespaces",
    "test_paging",
    "test_register",
    "test_rename",
    "test_table_data",
    "test_threads",
)
MODELS = {operation.call: operation.request for operation in OPERATIONS}
PLACES = {"compatibility": ("compatibility", ()), "nested": ("v2", ("a", "b"))}
DIFFERS = {
    "test_huge_version_raises_version_not_found": "the client has numbers of 64 bits",
    "test_missing_version_raises_version_not_found": "the same",
    "test_a_negative_version_is_refused": "the client refuses it with an error of its own",
}
"""Tests of the contract that do not hold here, each with the reason."""


class Served:
    """pylance's client of a server. What it does not have, such as dropped tables, is asked of the catalog."""

    def __init__(self, client: Any, catalog: DirectoryNamespace) -> None:
        self._client = client
        self._catalog = catalog

    def __repr__(self) -> str:
        return repr(self._catalog)

    def drop_table(self, request: Any) -> Any:
        """Drop a table. The client sends no body, but entries of the context that are headers."""
        request = DropTableRequest(**request) if isinstance(request, dict) else request
        context = {f"header.x-pennon-context-{name}": value for name, value in (request.context or {}).items()}
        return self._client.drop_table(request.model_copy(update={"context": context}))

    def __getattr__(self, name: str) -> Any:
        if name not in MODELS:
            return getattr(self._catalog, name)
        method, model = getattr(self._client, name), MODELS[name]
        return lambda request, *rest: method(model(**request) if isinstance(request, dict) else request, *rest)


for _module in MODULES:
    for _name, _one in borrow_tests("contract", _module, "place").items():
        _is_test = _name.startswith("test_")
        globals()[f"{_name}__{_module.removeprefix('test_')}" if _is_test else _name] = _one


@pytest.fixture(params=list(PLACES))
def place(request, tmp_path):
    """Return pylance's client of a server, and a namespace for tables, in each mode."""
    reason = DIFFERS.get(request.node.name.partition("[")[0].partition("__")[0])
    if reason is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    mode, parent = PLACES[request.param]
    with DirectoryNamespace(root=str(tmp_path / "root"), **MODES[mode]) as catalog, served(catalog) as url:
        for depth in range(1, len(parent) + 1):
            create_namespace(catalog, *parent[:depth])
        yield Served(lance_namespace.connect("rest", {"uri": url}), catalog), parent
