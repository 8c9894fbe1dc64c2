"""Describe a table, a namespace or the whole catalog for `pennon info`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pennon import addresses
from pennon.cli import secrets
from pennon.cli.values import format_size, format_time
from pennon.directory import namespaces
from pennon.directory.lifecycle import dropped
from pennon.directory.lookup import describe, listing
from pennon.directory.lookup.directories import look_at
from pennon.directory.problem_search import find_problems
from pennon.directory.versions import managed, service
from pennon.errors import NamespaceNotFoundError, TableNotFoundError
from pennon.identifiers import ROOT, Identifier, object_id
from pennon.results import TableStatus
from pennon.table.version_summary import summarize_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.directory.catalog import Catalog
    from pennon.directory.problems import Problem


@dataclass(frozen=True)
class ObjectDescription:
    """The description of an object: `document` for JSON, `fields` for a terminal."""

    document: dict[str, Any]
    fields: dict[str, str]
    problems: tuple[Problem, ...] = ()
    """Entries of the root that are skipped. Empty for tables and namespaces."""


def describe_object(catalog: Catalog, identifier: Identifier, *, with_size: bool) -> ObjectDescription:
    """Return the description of a table, a namespace or the catalog. Raises TableNotFoundError if there is none."""
    if identifier == ROOT:
        return _describe_catalog(catalog)
    try:
        return _describe_table(catalog, identifier, with_size=with_size)
    except (TableNotFoundError, NamespaceNotFoundError) as missing:
        try:
            return _describe_namespace(catalog, identifier)
        except NamespaceNotFoundError:
            raise _not_found_error(catalog, identifier) from missing


def _describe_catalog(catalog: Catalog) -> ObjectDescription:
    settings = catalog.settings
    children, _ = namespaces.list_children(catalog, ROOT, None, None)
    names, _ = listing.list_all_tables(catalog, ROOT, None, None, include_declared=True)
    mode = "V1" if not settings.manifest_enabled else "compatibility" if settings.dir_listing_enabled else "V2"
    properties = secrets.mask_secrets(namespaces.describe(catalog, ROOT) or {})
    problems = find_problems(catalog)
    storage = secrets.mask_secrets({f"storage.{key}": value for key, value in settings.storage_options.items()})
    document = {
        "type": "catalog",
        "root": secrets.mask_user_info(catalog.store.identity()),
        "mode": mode,
        "manages_versions": managed.manages_versions(catalog),
        "namespaces": len(children) if mode == "V1" else len(namespaces.list_all(catalog, ROOT)),
        "tables": len(names),
        "properties": properties,
        "storage": storage,
        "problems": [asdict(problem) for problem in problems],
    }
    fields = {
        "catalog": str(document["root"]),
        "mode": mode,
        "versions": "managed by the catalog" if document["manages_versions"] else "by the tables' files",
        "namespaces": f"{document['namespaces']:,}",
        "tables": f"{len(names):,}",
        "problems": f"{len(problems):,}",
    }
    return ObjectDescription(document, {**fields, **_property_fields(properties), **storage}, tuple(problems))


def _describe_namespace(catalog: Catalog, identifier: Identifier) -> ObjectDescription:
    properties = secrets.mask_secrets(namespaces.describe(catalog, identifier) or {})
    children, _ = namespaces.list_children(catalog, identifier, None, None)
    names, _ = listing.list_tables(catalog, identifier, None, None, include_declared=True)
    row = None if catalog.manifest is None else catalog.manifest.peek(lambda one: one.get(object_id(identifier)))
    protected = row is not None and row.protected
    document = {
        "type": "namespace",
        "id": list(identifier),
        "namespaces": len(children),
        "tables": len(names),
        "protected": protected,
        "properties": properties,
    }
    fields = {
        "namespace": addresses.format_address(identifier),
        "namespaces": f"{len(children):,}",
        "tables": f"{len(names):,}",
        "protected": "yes" if protected else "no",
    }
    return ObjectDescription(document, {**fields, **_property_fields(properties)})


def _describe_table(catalog: Catalog, identifier: Identifier, *, with_size: bool) -> ObjectDescription:
    found, dataset = describe.open_table(catalog, identifier)
    directory = found.directory or look_at(catalog.store, found.location)
    protected = directory.protected or (found.row is not None and found.row.protected)
    properties = secrets.mask_secrets({} if found.row is None else found.row.properties())
    document: dict[str, Any] = {
        "type": "table",
        "id": list(identifier),
        "location": secrets.mask_user_info(catalog.store.location(found.location)),
        "declared_only": dataset is None,
        "manages_versions": service.is_managed(catalog, found),
        "protected": protected,
        "properties": properties,
    }
    fields = {
        "table": addresses.format_address(identifier),
        "location": document["location"],
        "protected": "yes" if protected else "no",
        "versions": "managed by the catalog" if document["manages_versions"] else "by the table's files",
    }
    if dataset is None:
        fields["data"] = "none: the table is only declared"
    else:
        state = summarize_version(dataset)
        tags = {str(name): int(tag["version"]) for name, tag in dataset.tags.list().items()}
        indexes = sorted(str(index.name) for index in dataset.describe_indices())
        document |= {
            "version": state.version,
            "changed_at": state.changed,
            "rows": state.rows,
            "deleted_rows": state.deleted_rows,
            "fragments": state.fragments,
            "data_bytes": state.data_bytes,
            "columns": len(dataset.schema),
            "tags": tags,
            "indexes": indexes,
        }
        fields |= {
            "version": f"{state.version}, committed at {format_time(state.changed)} UTC",
            "rows": f"{state.rows:,}",
            "fragments": f"{state.fragments:,}, {state.deleted_rows:,} rows deleted in them",
            "data": format_size(state.data_bytes),
            "columns": str(len(dataset.schema)),
        }
        if tags:
            fields["tags"] = ", ".join(f"{name} = {number}" for name, number in sorted(tags.items()))
        if indexes:
            fields["indexes"] = ", ".join(indexes)
    if with_size:
        amount = catalog.store.measure(found.location)
        document |= {"files": amount.files, "bytes": amount.size}
        fields["on the store"] = f"{format_size(amount.size)} in {amount.files:,} files, all versions together"
    return ObjectDescription(document, {**fields, **_property_fields(properties)})


def _property_fields(properties: Mapping[str, str]) -> dict[str, str]:
    return {f"property {key}": value for key, value in sorted(properties.items())}


def _not_found_error(catalog: Catalog, identifier: Identifier) -> TableNotFoundError:
    address = addresses.format_address(identifier)
    status = dropped.status(catalog, identifier)
    if status.status == TableStatus.SOFT_DELETED:
        when = format_time(status.dropped_at)
        return TableNotFoundError(
            f"Table '{address}' was dropped at {when} UTC; restore it with: pennon undrop {address}"
        )
    return TableNotFoundError(f"Neither a table nor a namespace has the address '{address}'")
