"""The contract of `lance_namespace.LanceNamespace`, as tests that any implementation can run.

Derive a class from `NamespaceContract` in a test module, and define the fixture `namespace`. It needs pytest, which
`pip install 'pennon[testing]'` installs.
"""

from __future__ import annotations

import pytest

for _module in (
    "calls",
    "contract",
    "missing_objects",
    "namespaces",
    "paging",
    "table_creation",
    "table_data",
    "table_declaration",
    "table_description",
    "table_drop",
    "table_listing",
    "table_registration",
    "table_rename",
    "table_schemas",
    "threads",
):
    pytest.register_assert_rewrite(f"{__name__}.{_module}")

from pennon.testing.missing_objects import MissingObjects
from pennon.testing.namespace_contract import NamespaceContract
from pennon.testing.namespaces import Namespaces
from pennon.testing.paging import Paging
from pennon.testing.table_creation import TableCreation
from pennon.testing.table_data import TableData
from pennon.testing.table_declaration import TableDeclaration
from pennon.testing.table_description import TableDescription
from pennon.testing.table_drop import TableDrop
from pennon.testing.table_listing import TableListing
from pennon.testing.table_registration import TableRegistration
from pennon.testing.table_rename import TableRename
from pennon.testing.table_schemas import TableSchemas
from pennon.testing.threads import Threads

__all__ = [
    "MissingObjects",
    "NamespaceContract",
    "Namespaces",
    "Paging",
    "TableCreation",
    "TableData",
    "TableDeclaration",
    "TableDescription",
    "TableDrop",
    "TableListing",
    "TableRegistration",
    "TableRename",
    "TableSchemas",
    "Threads",
]
