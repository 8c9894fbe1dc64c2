"""Describe a table, a namespace or the whole catalog for `pennon info`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import lance_namespace as sdk

from pennon import addresses
from pennon.catalog_pages import iterate_all_tables, iterate_namespaces, iterate_tables
from pennon.cli import secrets
from pennon.cli.session import find_directory
from pennon.cli.values import format_size, format_time
from pennon.directory.lookup.directories import look_at
from pennon.directory.problem_search import find_problems
from pennon.directory.versions import managed
from pennon.errors import NamespaceNotFoundError, TableNotFoundError, UnsupportedOperationError
from pennon.identifiers import Identifier, object_id
from pennon.results import TableStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.api import LakeCatalog
    from pennon.directory.catalog import Catalog
    from pennon.results import Problem


@dataclass(frozen=True)
class ObjectDescription:
    """The description of an object: `document` for JSON, `fields` for a terminal."""

    document: dict[str, Any]
    fields: dict[str, str]
    problems: tuple[Problem, ...] = ()
    """Entries of the root that are skipped. Empty for tables and namespaces."""


def describe_object(lake: LakeCatalog, identifier: Identifier, *, with_size: bool) -> ObjectDescription:
    """Return the description of a table, a namespace or the catalog. Raises TableNotFoundError if there is none."""
    if not identifier:
        return _describe_catalog(lake)
    if identifier in lake:
        return _describe_table(lake, identifier, with_size=with_size)
    if lake.has_namespace(identifier):
        return _describe_namespace(lake, identifier)
    raise _not_found_error(lake, identifier)


def _describe_catalog(lake: LakeCatalog) -> ObjectDescription:
    found = [*iterate_namespaces(lake.namespace, (), recursive=True)]
    tables = sum(1 for _ in iterate_all_tables(lake.namespace, ()))
    counts = {"namespaces": len(found), "tables": tables}
    properties = secrets.mask_secrets(lake.namespace_properties("/"))
    shown = {"namespaces": f"{len(found):,}", "tables": f"{tables:,}", **_property_fields(properties)}
    catalog = find_directory(lake)
    if catalog is None:
        server = secrets.mask_user_info(lake.namespace.namespace_id())
        document = {"type": "catalog", "id": [], "server": server, **counts, "properties": properties}
        return ObjectDescription(document, {"catalog": addresses.ROOT, "server": server, **shown})
    settings = catalog.settings
    mode = "V1" if not settings.manifest_enabled else "compatibility" if settings.dir_listing_enabled else "V2"
    problems = find_problems(catalog)
    storage = secrets.mask_secrets({f"storage.{key}": value for key, value in settings.storage_options.items()})
    root = secrets.mask_user_info(catalog.store.identity())
    manages = managed.manages_versions(catalog)
    document = {
        "type": "catalog",
        "root": root,
        "mode": mode,
        "manages_versions": manages,
        **counts,
        "properties": properties,
        "storage": storage,
        "problems": [asdict(problem) for problem in problems],
    }
    fields = {
        "catalog": root,
        "mode": mode,
        "versions": _format_versions(managed=manages),
        "problems": f"{len(problems):,}",
    }
    return ObjectDescription(document, {**fields, **shown, **storage}, tuple(problems))


def _describe_namespace(lake: LakeCatalog, identifier: Identifier) -> ObjectDescription:
    properties = secrets.mask_secrets(lake.namespace_properties(identifier))
    children = sum(1 for _ in iterate_namespaces(lake.namespace, identifier, recursive=False))
    tables = sum(1 for _ in iterate_tables(lake.namespace, identifier))
    document = {"type": "namespace", "id": list(identifier), "namespaces": children, "tables": tables}
    fields = {
        "namespace": addresses.format_address(identifier),
        "namespaces": f"{children:,}",
        "tables": f"{tables:,}",
    }
    catalog = find_directory(lake)
    if catalog is not None:
        row = None if catalog.manifest is None else catalog.manifest.peek(lambda one: one.get(object_id(identifier)))
        protected = row is not None and row.protected
        document["protected"] = protected
        fields["protected"] = _format_flag(on=protected)
    document["properties"] = properties
    return ObjectDescription(document, {**fields, **_property_fields(properties)})


def _describe_table(lake: LakeCatalog, identifier: Identifier, *, with_size: bool) -> ObjectDescription:
    request = sdk.DescribeTableRequest(id=list(identifier), check_declared=True)
    described = lake.namespace.describe_table(request)
    properties = secrets.mask_secrets(described.properties or {})
    manages = bool(described.managed_versioning)
    document: dict[str, Any] = {
        "type": "table",
        "id": list(identifier),
        "location": secrets.mask_user_info(str(described.location)),
        "declared_only": bool(described.is_only_declared),
        "manages_versions": manages,
        "properties": properties,
    }
    fields = {
        "table": addresses.format_address(identifier),
        "location": document["location"],
        "versions": _format_versions(managed=manages),
    }
    catalog = find_directory(lake)
    if catalog is not None:
        document["protected"] = _is_protected(catalog, identifier)
        fields["protected"] = _format_flag(on=document["protected"])
    if described.is_only_declared:
        fields["data"] = "none: the table is only declared"
    else:
        content, shown = _describe_data(lake, identifier)
        document |= content
        fields |= shown
    if with_size:
        if catalog is None:
            raise UnsupportedOperationError("--size needs a directory: this catalog does not add up files")
        amount = catalog.store.measure(catalog.resolver.table(identifier).location)
        document |= {"files": amount.files, "bytes": amount.size}
        fields["on the store"] = f"{format_size(amount.size)} in {amount.files:,} files, all versions together"
    return ObjectDescription(document, {**fields, **_property_fields(properties)})


def _describe_data(lake: LakeCatalog, identifier: Identifier) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what a table contains, for JSON and for a terminal."""
    table = lake.table(identifier)
    state = table.summary()
    tags = {one.name: one.version for one in table.tags()}
    indexes = sorted(one.name for one in table.indexes())
    document = {
        "version": state.version,
        "changed_at": state.committed_at,
        "rows": state.rows,
        "deleted_rows": state.deleted_rows,
        "fragments": state.fragments,
        "data_bytes": state.bytes,
        "columns": state.columns,
        "tags": tags,
        "indexes": indexes,
    }
    deleted = "" if state.deleted_rows is None else f", {state.deleted_rows:,} rows deleted in them"
    when = "" if state.committed_at is None else f", committed at {format_time(state.committed_at)} UTC"
    fields = {
        "version": f"{state.version}{when}",
        "rows": f"{state.rows:,}",
        "fragments": f"{state.fragments:,}{deleted}",
        "data": format_size(state.bytes or 0),
        "columns": str(state.columns),
    }
    if tags:
        fields["tags"] = ", ".join(f"{name} = {number}" for name, number in sorted(tags.items()))
    if indexes:
        fields["indexes"] = ", ".join(indexes)
    return document, fields


def _is_protected(catalog: Catalog, identifier: Identifier) -> bool:
    found = catalog.resolver.table(identifier)
    directory = found.directory or look_at(catalog.store, found.location)
    return directory.protected or (found.row is not None and found.row.protected)


def _format_versions(*, managed: bool) -> str:
    return "managed by the catalog" if managed else "by the tables' files"


def _format_flag(*, on: bool) -> str:
    return "yes" if on else "no"


def _property_fields(properties: Mapping[str, str]) -> dict[str, str]:
    return {f"property {key}": value for key, value in sorted(properties.items())}


def _not_found_error(lake: LakeCatalog, identifier: Identifier) -> TableNotFoundError:
    address = addresses.format_address(identifier)
    try:
        status = lake.namespace.table_status(identifier)
    except (TableNotFoundError, NamespaceNotFoundError, UnsupportedOperationError):
        status = None
    if status is not None and status.status is TableStatus.SOFT_DELETED:
        when = format_time(status.dropped_at)
        return TableNotFoundError(
            f"Table '{address}' was dropped at {when} UTC; restore it with: pennon undrop {address}"
        )
    similar = lake.suggest_similar(identifier)
    return TableNotFoundError(f"Neither a table nor a namespace has the address '{address}'{similar}")
