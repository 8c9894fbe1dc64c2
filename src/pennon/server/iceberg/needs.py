"""The rights that requests of the Iceberg protocol need. Each function has the parameters of a route."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

from fastapi import Query

from pennon.errors import NamespaceNotFoundError
from pennon.iceberg.server_promises import PURGE, TTL
from pennon.identifiers import ROOT, Identifier, namespace_identifier, table_identifier, table_not_found
from pennon.server.iceberg import bodies, models, path_names
from pennon.server.permissions.rights import Guard, Kind, Need, Principal, Right

Rule = Callable[..., Iterable[Need]]
_CHOOSE_LOCATION = Need(Right.ADMINISTER, "namespace", ROOT)
"""Who names a location may name one with the data of others."""
_MANAGING = (
    models.RemoveSnapshotsUpdate,
    models.SetPropertiesUpdate,
    models.RemovePropertiesUpdate,
    models.MeaninglessUpdate,
)


class IcebergGuard:
    """A guard that raises TableNotFoundError where the namespace of a table cannot be seen, as the protocol does."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def require(self, principal: Principal, right: Right, identifier: Identifier, *, kind: Kind) -> None:
        """Raise the error of the guard, or the protocol's."""
        try:
            self._guard.require(principal, right, identifier, kind=kind)
        except NamespaceNotFoundError as error:
            if kind == "table" and right is not Right.CREATE:
                raise table_not_found(identifier) from error
            raise

    def visible(self, principal: Principal, identifiers: Sequence[Identifier], *, kind: Kind) -> list[Identifier]:
        """Return the objects of a listing that the principal may see."""
        return self._guard.visible(principal, identifiers, kind=kind)


def nothing() -> list[Need]:
    """Need nothing but to be authenticated."""
    return []


def to_list_namespaces(parent: str | None = None) -> list[Need]:
    """Need to see the namespace whose children are listed."""
    return [Need(Right.SEE, "namespace", path_names.namespace_of(parent) if parent else ROOT)]


def to_create_namespace(body: bodies.CreateNamespace) -> list[Need]:
    """Need to create the namespace."""
    return [Need(Right.CREATE, "namespace", namespace_identifier(body.namespace))]


def on_namespace(right: Right) -> Rule:
    """Need a right on the namespace in the path."""

    def rule(namespace: str) -> list[Need]:
        return [Need(right, "namespace", path_names.namespace_of(namespace))]

    return rule


def on_table(right: Right) -> Rule:
    """Need a right on the table in the path."""

    def rule(namespace: str, table: str) -> list[Need]:
        return [Need(right, "table", path_names.table_of(namespace, table))]

    return rule


def to_create_table(namespace: str, body: bodies.CreateTable) -> list[Need]:
    """Need to create the table, and to administer the catalog to choose where it is."""
    identifier = table_identifier([*path_names.namespace_of(namespace), body.name])
    return [Need(Right.CREATE, "table", identifier), *([] if body.location is None else [_CHOOSE_LOCATION])]


def to_drop_table(shortest_ttl_ms: int) -> Rule:
    """Need to manage the table, and to administer it if it is kept for a shorter time than tables are."""

    def rule(
        namespace: str,
        table: str,
        ttl: Annotated[int | None, Query(alias=TTL, ge=0)] = None,
        *,
        purge: Annotated[bool, Query(alias=PURGE)] = False,
    ) -> list[Need]:
        is_shortened = purge or (ttl is not None and ttl < shortest_ttl_ms)
        right = Right.ADMINISTER if is_shortened else Right.MANAGE
        return [Need(right, "table", path_names.table_of(namespace, table))]

    return rule


def to_rename(body: bodies.RenameTable) -> list[Need]:
    """Need to manage the table, and to create the one of the new name."""
    return [
        Need(Right.MANAGE, "table", body.source.identifier),
        Need(Right.CREATE, "table", body.destination.identifier),
    ]


def to_update_table(namespace: str, table: str, body: bodies.UpdateTable) -> list[Need]:
    """Need what the changes need."""
    return list(_to_change(path_names.table_of(namespace, table), body.updates))


def to_commit_transaction(body: bodies.CommitTransaction) -> list[Need]:
    """Need what the changes of all tables need."""
    return [need for one in body.table_changes for need in _to_change(one.identifier.identifier, one.updates)]


def _to_change(identifier: Identifier, updates: Sequence[Any]) -> Iterable[Need]:
    yield Need(Right.WRITE, "table", identifier)
    if any(isinstance(update, _MANAGING) for update in updates):
        yield Need(Right.MANAGE, "table", identifier)
    if any(isinstance(update, models.SetLocationUpdate) for update in updates):
        yield _CHOOSE_LOCATION
