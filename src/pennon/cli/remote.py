"""Commands on a catalog behind a server: the same documents, from the operations of its client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance_namespace as sdk
from lance_namespace_urllib3_client.models.query_table_request_columns import QueryTableRequestColumns
from lance_namespace_urllib3_client.models.query_table_request_vector import QueryTableRequestVector

from pennon import addresses
from pennon.cli import secrets
from pennon.cli.descriptions import ObjectDescription
from pennon.cli.entries import NAMESPACE, TABLE, ListingEntry, TableDetails
from pennon.cli.values import format_size
from pennon.errors import (
    LanceNamespaceError,
    NamespaceNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from pennon.identifiers import Identifier, split_object_id
from pennon.results import PurgedTable, PurgeReport, TableStatus
from pennon.table.ipc import read_ipc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from pennon.cli.dropping import DropCommand, PurgeSelection
    from pennon.rest import RestNamespace
    from pennon.results import DroppedTable

_PAGE = 1000


def list_entries(
    client: RestNamespace, where: Identifier, token: str | None, limit: int | None, *, recursive: bool
) -> tuple[list[ListingEntry], str | None]:
    """Return a page of a namespace's children, namespaces first, or of all tables below it, and the next token."""
    kind, _, after = (token or "").partition("/")
    if recursive:
        page = client.list_all_tables(sdk.ListTablesRequest(id=list(where), limit=limit, page_token=token))
        return [ListingEntry(TABLE, split_object_id(key)) for key in page.tables], page.page_token
    found: list[ListingEntry] = []
    try:
        if kind != TABLE:
            request = sdk.ListNamespacesRequest(id=list(where), limit=limit, page_token=after or None)
            children = client.list_namespaces(request)
            found += [ListingEntry(NAMESPACE, (*where, name)) for name in children.namespaces]
            if children.page_token:
                return found, f"{NAMESPACE}/{children.page_token}"
            after = ""
        missing = None if limit is None else limit - len(found)
        if missing is not None and missing <= 0:
            return found, f"{TABLE}/"
        listed = client.list_tables(sdk.ListTablesRequest(id=list(where), limit=missing, page_token=after or None))
    except NamespaceNotFoundError:
        if not where:
            raise
        client.table_exists(sdk.TableExistsRequest(id=list(where)))
        return [ListingEntry(TABLE, where)], None
    found += [ListingEntry(TABLE, (*where, name)) for name in listed.tables]
    return found, f"{TABLE}/{listed.page_token}" if listed.page_token else None


def load_details(client: RestNamespace, found: Sequence[ListingEntry]) -> dict[Identifier, TableDetails]:
    """Return the details of tables. A table that cannot be opened has its error."""
    return {entry.id: _load_details(client, entry.id) for entry in found}


def describe_object(client: RestNamespace, identifier: Identifier) -> ObjectDescription:
    """Return the description of a table, a namespace or the catalog. Raises TableNotFoundError if there is none."""
    if identifier:
        try:
            return _describe_table(client, identifier)
        except (TableNotFoundError, NamespaceNotFoundError) as missing:
            try:
                return _describe_namespace(client, identifier)
            except NamespaceNotFoundError:
                raise TableNotFoundError(
                    f"Neither a table nor a namespace has the address '{addresses.format_address(identifier)}'"
                ) from missing
    return _describe_namespace(client, identifier)


def read_rows(
    client: RestNamespace,
    identifier: Identifier,
    *,
    columns: list[str] | None,
    where: str | None,
    limit: int,
    selected: tuple[int | None, str | None, str | None],
) -> tuple[pa.Table, int | None]:
    """Return the first rows of a table, and the version that they are from."""
    version, branch = _select(client, identifier, selected)
    query = sdk.QueryTableRequest(
        id=list(identifier),
        vector=QueryTableRequestVector(),
        k=limit or 1,
        columns=None if columns is None else QueryTableRequestColumns(column_names=columns),
        filter=where,
        version=version,
        branch=branch,
    )
    rows = read_ipc(client.query_table(query).data)
    return rows.slice(0, limit), version


def count_rows(
    client: RestNamespace,
    identifier: Identifier,
    *,
    where: str | None,
    selected: tuple[int | None, str | None, str | None],
) -> tuple[int, int | None]:
    """Return the number of rows of a table, and the version that was counted."""
    version, branch = _select(client, identifier, selected)
    request = sdk.CountTableRowsRequest(id=list(identifier), predicate=where, version=version, branch=branch)
    return int(client.count_table_rows(request).count or 0), version


def require_droppable(
    client: RestNamespace, identifiers: Sequence[Identifier], *, namespace: bool, if_exists: bool
) -> list[Identifier]:
    """Return the objects to drop, after a check that all of them exist. The server checks what protects them."""
    found = []
    for identifier in dict.fromkeys(identifiers):
        try:
            if namespace:
                client.namespace_exists(sdk.NamespaceExistsRequest(id=list(identifier)))
            else:
                client.table_exists(sdk.TableExistsRequest(id=list(identifier)))
        except (TableNotFoundError, NamespaceNotFoundError):
            if not if_exists:
                raise
            continue
        found.append(identifier)
    return found


def drop_object(
    client: RestNamespace, identifier: Identifier, *, namespace: bool, options: DropCommand, ttl: str | None
) -> dict[str, Any]:
    """Drop one object and return a document about it."""
    flags = {"ttl": ttl, "purge": "true" if options.purge else None, "force": "true" if options.force else None}
    context = {key: value for key, value in flags.items() if value is not None} or None
    if namespace:
        behavior = "cascade" if options.cascade else "restrict"
        client.drop_namespace(sdk.DropNamespaceRequest(id=list(identifier), behavior=behavior, context=context))
        return {"id": list(identifier)}
    gone = client.drop_table(sdk.DropTableRequest(id=list(identifier), context=context))
    drop_id = None if options.purge else client.table_status(identifier).deletion_id
    return {"id": list(identifier), "location": gone.location, "drop_id": drop_id}


def undrop_object(
    client: RestNamespace,
    identifier: Identifier,
    target: Identifier | None,
    drop_id: str | None,
    *,
    namespace: bool,
    dry_run: bool,
) -> dict[str, Any]:
    """Restore a dropped object and return a document about it. A dry run checks whether a table is dropped."""
    if dry_run:
        if namespace:
            raise UnsupportedOperationError("A server cannot say what restoring a namespace would do: omit --dry-run")
        if client.table_status(identifier).status is not TableStatus.SOFT_DELETED:
            raise TableNotFoundError(f"Table '{addresses.format_address(identifier)}' is not dropped")
        return {}
    if namespace:
        return {"tables": client.undrop_namespace(identifier, drop_id)}
    return {"location": client.undrop_table(identifier, target, drop_id)}


def list_trash(client: RestNamespace, below: Identifier, *, due: bool, detailed: bool) -> list[dict[str, Any]]:
    """Return the tables that were dropped from a namespace and those below it that exist."""
    if due:
        found = client.list_purgable_tables(detailed=detailed)
        tables = [one for one in found if tuple(one.id[: len(below)]) == below]
    else:
        tables = [
            one
            for namespace in _walk_namespaces(client, below)
            for one in _list_dropped(client, namespace, detailed=detailed)
        ]
    return [
        {
            "type": "table",
            "id": one.id,
            "drop_id": one.deletion_id,
            "dropped_at": one.dropped_at,
            "purgeable_at": None if one.fault is not None else one.purgeable_at,
            "being_purged": one.being_purged,
            "kept_because": one.fault,
            "location": one.location,
            "rows": one.rows,
            "bytes": one.bytes,
        }
        for one in tables
    ]


def purge_selected(
    client: RestNamespace, selection: PurgeSelection, *, dry_run: bool, progress: Callable[..., None] | None = None
) -> PurgeReport:
    """Purge the selected tables and return the report. A dry run only reports what would be purged."""
    if not selection.identifiers:
        return client.purge_tables(deleted_before=selection.before, dry_run=dry_run, progress=progress)
    if selection.drop_id is None:
        return client.purge_tables(selection.identifiers, dry_run=dry_run, force=selection.force, progress=progress)
    (identifier,) = selection.identifiers
    if not dry_run:
        return client.purge_table(identifier, selection.drop_id, force=selection.force)
    chosen = [
        PurgedTable(one.id, one.deletion_id, one.location)
        for one in _list_dropped(client, identifier[:-1])
        if tuple(one.id) == identifier and one.deletion_id == selection.drop_id
    ]
    if not chosen:
        raise TableNotFoundError(f"Table '{addresses.format_address(identifier)}' was not dropped with this id")
    return PurgeReport(dry_run=True, tables=chosen)


def _list_dropped(client: RestNamespace, namespace: Identifier, *, detailed: bool = False) -> Iterator[DroppedTable]:
    token: str | None = None
    while True:
        page, token = client.list_dropped_tables(namespace, token, _PAGE, detailed=detailed)
        yield from page
        if not token:
            return


def _walk_namespaces(client: RestNamespace, below: Identifier) -> Iterator[Identifier]:
    yield below
    token: str | None = None
    while True:
        page = client.list_namespaces(sdk.ListNamespacesRequest(id=list(below), page_token=token, limit=_PAGE))
        for name in page.namespaces:
            yield from _walk_namespaces(client, (*below, name))
        token = page.page_token
        if not token:
            return


def _load_details(client: RestNamespace, identifier: Identifier) -> TableDetails:
    try:
        found = _describe(client, identifier)
        if found.is_only_declared:
            return TableDetails()
        rows = client.get_table_stats(sdk.GetTableStatsRequest(id=list(identifier))).num_rows
    except LanceNamespaceError as error:
        return TableDetails(error=str(error))
    return TableDetails(found.version, rows, len(found.var_schema.fields) if found.var_schema else None)


def _describe_table(client: RestNamespace, identifier: Identifier) -> ObjectDescription:
    found = _describe(client, identifier)
    properties = secrets.mask_secrets(found.properties or {})
    document: dict[str, Any] = {
        "type": "table",
        "id": list(identifier),
        "location": secrets.mask_user_info(str(found.location)),
        "declared_only": bool(found.is_only_declared),
        "manages_versions": bool(found.managed_versioning),
        "properties": properties,
    }
    fields = {
        "table": addresses.format_address(identifier),
        "location": document["location"],
        "versions": "managed by the catalog" if found.managed_versioning else "by the table's files",
    }
    if found.is_only_declared:
        fields["data"] = "none: the table is only declared"
    else:
        stats = client.get_table_stats(sdk.GetTableStatsRequest(id=list(identifier)))
        columns = len(found.var_schema.fields) if found.var_schema else None
        document |= {
            "version": found.version,
            "rows": stats.num_rows,
            "fragments": stats.fragment_stats.num_fragments,
            "data_bytes": stats.total_bytes,
            "columns": columns,
        }
        fields |= {
            "version": str(found.version),
            "rows": f"{stats.num_rows:,}",
            "fragments": f"{stats.fragment_stats.num_fragments:,}",
            "data": format_size(stats.total_bytes),
            "columns": str(columns),
        }
    return ObjectDescription(document, {**fields, **_property_fields(properties)})


def _describe_namespace(client: RestNamespace, identifier: Identifier) -> ObjectDescription:
    described = client.describe_namespace(sdk.DescribeNamespaceRequest(id=list(identifier)))
    properties = secrets.mask_secrets(described.properties or {})
    children = client.list_namespaces(sdk.ListNamespacesRequest(id=list(identifier))).namespaces
    tables = client.list_tables(sdk.ListTablesRequest(id=list(identifier))).tables
    document = {
        "type": "namespace" if identifier else "catalog",
        "id": list(identifier),
        "server": client.namespace_id(),
        "namespaces": len(children),
        "tables": len(tables),
        "properties": properties,
    }
    fields = {
        "namespace" if identifier else "catalog": addresses.format_address(identifier),
        "server": client.namespace_id(),
        "namespaces": f"{len(children):,}",
        "tables": f"{len(tables):,}",
    }
    return ObjectDescription(document, {**fields, **_property_fields(properties)})


def _describe(client: RestNamespace, identifier: Identifier) -> sdk.DescribeTableResponse:
    request = sdk.DescribeTableRequest(id=list(identifier), load_detailed_metadata=True, check_declared=True)
    return client.describe_table(request)


def _property_fields(properties: dict[str, str]) -> dict[str, str]:
    return {f"property {key}": value for key, value in sorted(properties.items())}


def _select(
    client: RestNamespace, identifier: Identifier, selected: tuple[int | None, str | None, str | None]
) -> tuple[int | None, str | None]:
    """Return the version and the branch to read. Without a version, the latest one is named."""
    version, tag, branch = selected
    if version is None:
        described = client.describe_table(
            sdk.DescribeTableRequest(id=list(identifier), load_detailed_metadata=True, tag=tag, branch=branch)
        )
        version = described.version
    if tag is not None:
        branch = client.get_table_tag_version(sdk.GetTableTagVersionRequest(id=list(identifier), tag=tag)).branch
    return version, branch
