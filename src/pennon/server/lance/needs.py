"""The rights that a request needs, and on which objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pennon.identifiers import ROOT, namespace_identifier, table_identifier
from pennon.server.permissions.rights import Kind, Need, Right

if TYPE_CHECKING:
    from lance_namespace import (
        BatchCommitTablesRequest,
        BatchCreateTableVersionsRequest,
        CreateMaterializedViewRequest,
        CreateNamespaceRequest,
        CreateTableRequest,
        DeclareTableRequest,
        DropNamespaceRequest,
        DropTableRequest,
        RegisterTableRequest,
        RenameTableRequest,
    )
    from pydantic import BaseModel

    from pennon.identifiers import Identifier

_OVERWRITE = "overwrite"
_TRUSTED = ("location", "storage_options")
_FOR_GOOD = frozenset({"purge", "force", "ttl"})
"""Entries of the context of a drop that shorten its retention or override a protection."""


Needs = Callable[[Any], Iterable[Need]]
"""Returns what a request needs."""


def on_namespace(right: Right) -> Needs:
    """Need a right on the namespace of the request."""
    return lambda request: [Need(right, "namespace", namespace_identifier(request.id))]


def on_table(right: Right) -> Needs:
    """Need a right on the table of the request."""
    return lambda request: [Need(right, "table", table_identifier(request.id))]


def on_root(right: Right) -> Needs:
    """Need a right on the root namespace."""
    return lambda _: [Need(right, "namespace", ())]


def on_table_of_transaction(right: Right) -> Needs:
    """Need a right on the table: the last name of the identifier is the transaction's."""
    return lambda request: [Need(right, "table", table_identifier((request.id or [])[:-1]))]


def to_create_namespace(request: CreateNamespaceRequest) -> Iterable[Need]:
    """Need to create the object, and to manage the namespace that is overwritten."""
    return _to_create(request, "namespace", namespace_identifier(request.id))


def to_create_table(
    request: CreateTableRequest | CreateMaterializedViewRequest | DeclareTableRequest | RegisterTableRequest,
) -> Iterable[Need]:
    """Need to create the object, and to manage the table that is overwritten."""
    return _to_create(request, "table", table_identifier(request.id))


def to_drop_namespace(request: DropNamespaceRequest) -> Iterable[Need]:
    """Need to manage the namespace, and to administer it if it cannot be restored."""
    return _to_drop(request, "namespace", namespace_identifier(request.id))


def to_drop_table(request: DropTableRequest) -> Iterable[Need]:
    """Need to manage the table, and to administer it if it cannot be restored."""
    return _to_drop(request, "table", table_identifier(request.id))


def to_rename(request: RenameTableRequest) -> Iterable[Need]:
    """Need to manage the table, and to create the table of the new name."""
    identifier = table_identifier(request.id)
    yield Need(Right.MANAGE, "table", identifier)
    parent = identifier[:-1] if request.new_namespace_id is None else namespace_identifier(request.new_namespace_id)
    yield Need(Right.CREATE, "table", table_identifier([*parent, request.new_table_name]))


def to_create_versions(request: BatchCreateTableVersionsRequest) -> Iterable[Need]:
    """Need to write to each of several tables."""
    return [Need(Right.WRITE, "table", table_identifier(entry.id)) for entry in request.entries]


def to_commit_batch(request: BatchCommitTablesRequest) -> Iterable[Need]:
    """Need what each of several operations needs."""
    for one in request.operations:
        if one.declare_table is not None:
            yield from to_create_table(one.declare_table)
        if one.create_table_version is not None:
            yield from on_table(Right.WRITE)(one.create_table_version)
        if one.delete_table_versions is not None:
            yield from on_table(Right.MANAGE)(one.delete_table_versions)
        if one.deregister_table is not None:
            yield from on_table(Right.MANAGE)(one.deregister_table)


def _to_create(request: BaseModel, kind: Kind, identifier: Identifier) -> Iterable[Need]:
    yield Need(Right.CREATE, kind, identifier)
    if any(getattr(request, name, None) is not None for name in _TRUSTED):
        # A location may have the data of others, and an option may name a server that gets our credentials.
        yield Need(Right.ADMINISTER, "namespace", ROOT)
    if str(getattr(request, "mode", None) or "").strip().lower() == _OVERWRITE:
        yield Need(Right.MANAGE, kind, identifier)


def _to_drop(request: DropNamespaceRequest | DropTableRequest, kind: Kind, identifier: Identifier) -> Iterable[Need]:
    yield Need(Right.ADMINISTER if _FOR_GOOD & set(request.context or ()) else Right.MANAGE, kind, identifier)
