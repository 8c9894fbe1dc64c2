"""The whole contract, for implementations outside this project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from lance_namespace import LanceNamespace
from lance_namespace.errors import UnsupportedOperationError

from pennon.testing.calls import create_namespace
from pennon.testing.missing_objects import MissingObjects
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

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pennon.testing.contract import Place

_LEVELS = {"root": (), "nested": ("a", "b")}


class NamespaceContract(
    TableCreation,
    TableDeclaration,
    TableDescription,
    TableSchemas,
    TableDrop,
    TableListing,
    TableRegistration,
    TableRename,
    TableData,
    Namespaces,
    MissingObjects,
    Paging,
    Threads,
):
    """All tests of the contract. A subclass defines the fixture `namespace`, and declares what it does differently."""

    differs: ClassVar[Mapping[str, str]] = {}
    """Names of tests that the implementation does not pass, each with the reason. They must fail."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise ValueError if the class declares tests or operations that do not exist."""
        super().__init_subclass__(**options)
        unknown = sorted(name for name in cls.differs if not hasattr(cls, name.partition("[")[0]))
        if unknown:
            raise ValueError(f"{cls.__name__}.differs names tests that do not exist: {unknown}")
        unknown = sorted(name for name in cls.unsupported if not hasattr(LanceNamespace, name))
        if unknown:
            raise ValueError(f"{cls.__name__}.unsupported names operations that do not exist: {unknown}")

    @pytest.fixture
    def namespace(self) -> Any:
        """Return an empty catalog, which no other test uses."""
        raise NotImplementedError(f"{type(self).__name__} defines no fixture `namespace` that returns an empty catalog")

    @pytest.fixture(params=list(_LEVELS))
    def place(self, request: pytest.FixtureRequest, namespace: Any) -> Place:
        """Return an empty catalog, and a namespace for tables in it: the root, and a nested one."""
        parent: tuple[str, ...] = _LEVELS[request.param]
        for depth in range(1, len(parent) + 1):
            create_namespace(namespace, *parent[:depth])
        return namespace, parent

    @pytest.fixture
    def nested(self, namespace: Any) -> Any:
        """Return an empty catalog that has child namespaces."""
        return namespace

    @pytest.fixture(autouse=True)
    def _expect_differences(self, request: pytest.FixtureRequest) -> None:
        """Mark a test that the implementation does not pass."""
        name = request.node.name
        reason = self.differs.get(name, self.differs.get(name.partition("[")[0]))
        if reason is not None:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.fixture(autouse=True)
    def _skip_unsupported(self, namespace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """End a test at the first call of an unsupported operation: as skipped if the call raises the right error."""
        for operation in self.unsupported:
            monkeypatch.setattr(namespace, operation, _expect_unsupported(operation, getattr(namespace, operation)))


def _expect_unsupported(operation: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls an unsupported operation, and ends the test."""

    def checked(*arguments: Any) -> None:
        try:
            call(*arguments)
        except UnsupportedOperationError:
            pytest.skip(f"unsupported: {operation}")
        except Exception as error:  # noqa: BLE001 - reported as a failure of the test
            pytest.fail(f"{operation} is declared as unsupported, but raised {error!r}")
        pytest.fail(f"{operation} is declared as unsupported, but did not raise UnsupportedOperationError")

    return checked
