"""Tables to create and their rows: check that a name is free, and commit the row that takes it.

Names are unique among tables and namespaces. The rows of a managed table's versions are committed together with the
table's own row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from pennon.directory import layout
from pennon.directory.lookup.resolve import namespace_exists
from pennon.directory.manifest import REQUEST, TABLE, Draft, Row, Snapshot, properties_json
from pennon.directory.versions import managed, version_rows
from pennon.errors import TableAlreadyExistsError
from pennon.identifiers import (
    Identifier,
    format_identifier,
    format_object_id,
    namespace_not_found,
    object_id,
    parent_not_found,
    split_object_id,
    table_not_found,
)
from pennon.store import LARGEST_MANIFEST, call_together
from pennon.table.naming import VERSIONS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pennon.directory.catalog import Catalog
    from pennon.store import Store
    from pennon.table.writing import TableData

Record_co = TypeVar("Record_co", covariant=True)


@dataclass(frozen=True)
class TableSpec:
    """A table to create."""

    identifier: Identifier
    data: TableData
    properties: Mapping[str, str] | None
    storage_options: dict[str, str] = field(repr=False)

    @property
    def request_properties(self) -> dict[str, str]:
        """What a transaction records of the request that creates the table."""
        return {key: value for key, value in (self.properties or {}).items() if key == REQUEST}

    def row(self, location: str) -> Row:
        """Return the row of the table at a location."""
        return Row(object_id(self.identifier), TABLE, location, properties_json(self.properties))


@dataclass(frozen=True)
class TableUpload:
    """Writes files into the directory of a new table in an object store."""

    store: Store
    location: str
    is_new: bool
    """Whether no other client can know the directory."""

    @classmethod
    def of(cls, catalog: Catalog, spec: TableSpec, location: str, *, is_new: bool = False) -> TableUpload | None:
        """Return the upload for a table, or None if Lance must write it: to a disk, or with options of its own."""
        store = catalog.store
        if store.is_local or spec.storage_options != dict(store.storage_options):
            return None
        return cls(store, location, is_new)

    def put(self, files: Mapping[str, bytes]) -> bool:
        """Write files, all at the same time; False if the table has a version already."""
        store = self.store
        # A client that names its versions otherwise does not collide with the manifest that follows.
        has_versions, *_ = call_together(
            store,
            lambda: not self.is_new and store.has_files(layout.inside(self.location, VERSIONS_FOLDER)),
            *(partial(store.put, layout.inside(self.location, path), body) for path, body in files.items()),
        )
        return not has_versions

    def create(self, path: str, body: bytes) -> bool:
        """Write a file unless there is one; False if there is another one."""
        return self.store.create(layout.inside(self.location, path), body) is not None

    def contains(self, path: str, body: bytes) -> bool | None:
        """Return whether a file has this body, or None if there is no such file."""
        found = self.store.get(layout.inside(self.location, path), max_bytes=LARGEST_MANIFEST)
        return None if found is None else found.body == body


@dataclass(frozen=True)
class CreatedTable:
    """A table that exists now. The version is None if it was declared, or existed before."""

    location: str
    properties: dict[str, str] | None
    version: int | None = None

    @classmethod
    def of(cls, catalog: Catalog, row: Row, version: int | None = None) -> CreatedTable:
        """Return a table by its row. V1 catalogs, without a manifest, have no properties."""
        return cls(str(row.location), None if catalog.manifest is None else row.properties(), version)


@dataclass(frozen=True)
class DropResult(Generic[Record_co]):
    """A table that was just dropped."""

    location: str
    properties: dict[str, str] | None
    record: Record_co
    """The entry of the trash, or the marker, by which the table can be restored and purged."""


def require_free(catalog: Catalog, identifier: Identifier, *, root_table: bool = False) -> None:
    """Check a name before anything is written. A root table may have its own row already.

    Raises TableAlreadyExistsError if the name is taken, NamespaceNotFoundError if the namespace does not exist.
    """
    if catalog.manifest is None:
        if len(identifier) > 1:
            raise namespace_not_found(identifier[:-1])
        return
    key = object_id(identifier)

    def is_free(snapshot: Snapshot) -> bool:
        row = snapshot.get(key)
        return row is None or (root_table and row.location == layout.root_table(identifier[0]))

    def has_parent(snapshot: Snapshot) -> bool:
        return namespace_exists(snapshot, identifier[:-1])

    if catalog.manifest.peek(lambda snapshot: has_parent(snapshot) and is_free(snapshot)):
        return
    if not catalog.manifest.read(has_parent):
        raise parent_not_found(identifier)
    if not catalog.manifest.peek(is_free):
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")


def require_no_root_table(catalog: Catalog, identifier: Identifier) -> None:
    """Raise TableAlreadyExistsError if a visible root table without a row has the name."""
    if len(identifier) != 1 or not catalog.lists_directories:
        return
    table = catalog.resolver.find(identifier)
    if table is not None and table.row is None and not table.is_hidden:
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")


def insert_row(catalog: Catalog, row: Row, *, on_plan: Callable[[Row], None] = lambda _: None) -> None:
    """Commit the row of a new table. Raises TableAlreadyExistsError if its name or location is taken.

    `on_plan` is called before a commit is tried: until then the row cannot have been committed.
    """
    if catalog.manifest is None:
        return
    versions = managed.list_versions_to_import(catalog, str(row.location))

    def plan(draft: Draft) -> None:
        on_plan(row)
        insert_into(draft, row)
        version_rows.import_rows(draft, row.object_id, versions)

    catalog.manifest.mutate(plan)


def update_root_row(catalog: Catalog, row: Row, *, was_declared: bool) -> Row:
    """Commit the row of a root table that has got its data, and return it.

    A declared table keeps its properties unless new ones are given. Any other row with this name is dead.
    """
    if catalog.manifest is None:
        return row
    versions = managed.list_versions_to_import(catalog, str(row.location))

    def plan(draft: Draft) -> Row:
        existing = draft.get(row.object_id)
        if existing is None or existing.location != row.location:
            updated = insert_into(draft, row)
        else:
            updated = existing.filled_by(row) if was_declared else existing.with_properties(row.metadata)
            draft.put(updated)
        version_rows.replace_rows(draft, row.object_id, versions)
        return updated

    return catalog.manifest.mutate(plan)


def insert_into(draft: Draft, row: Row) -> Row:
    """Add the row of a new table to a draft. Raises TableAlreadyExistsError if its name or location is taken."""
    existing = draft.get(row.object_id)
    if existing is not None:
        what = "Table" if existing.object_type == TABLE else "A namespace of that name"
        raise TableAlreadyExistsError(f"{what} already exists: {format_object_id(row.object_id)}")
    if not draft.parent_exists(row.object_id):
        raise parent_not_found(split_object_id(row.object_id))
    if row.location is not None and draft.overlapping(row.location):
        raise TableAlreadyExistsError(
            f"The location {row.location!r} of {format_object_id(row.object_id)} belongs to another table"
        )
    draft.put(row)
    return row


def remove_row(draft: Draft, identifier: Identifier, location: str) -> None:
    """Remove the row of a table. Raises TableNotFoundError if it has none, or one with another location."""
    row = draft.get(object_id(identifier))
    if row is None or row.object_type != TABLE or row.location != location:
        raise table_not_found(identifier)
    draft.remove(row.object_id)


def remove_root_row(draft: Draft, name: str) -> None:
    """Remove the row of a root table, if it has one."""
    row = draft.get(name)
    if row is not None and row.object_type == TABLE and row.location == layout.root_table(name):
        draft.remove(name)


def require_restorable(draft: Draft, target: Identifier) -> None:
    """Raise NamespaceNotFoundError or TableAlreadyExistsError unless a dropped table can get this name."""
    if not draft.parent_exists(object_id(target)):
        raise parent_not_found(target)
    if draft.get(object_id(target)) is not None:
        raise TableAlreadyExistsError(
            f"Cannot restore {format_identifier(target)}: the name is taken again; restore it under another "
            "one with as_id"
        )
