"""Requests and results of the operations beyond the specification."""

from __future__ import annotations

from datetime import datetime

from lance_namespace_urllib3_client.models.create_table_version_entry import CreateTableVersionEntry
from pydantic import BaseModel, ConfigDict, Field

from pennon.results import DroppedTable, Problem


class Model(BaseModel):
    """A document. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class OnObject(Model):
    """A request on one object."""

    id: list[str] = Field(default_factory=list)


class Nothing(Model):
    """An empty document."""


class UndropTable(OnObject):
    """Which drop to restore, and under which name."""

    as_id: list[str] | None = None
    deletion_id: str | None = None


class UndropNamespace(OnObject):
    """Which drop to restore."""

    deletion_id: str | None = None


class PurgeTable(OnObject):
    """Which drop to purge, and whether before the end of its retention."""

    deletion_id: str | None = None
    force: bool = False


class PurgeTables(Model):
    """Which dropped tables to purge: those that are named, or all whose retention is over."""

    ids: list[list[str]] | None = None
    deleted_before: datetime | None = None
    dry_run: bool = False
    force: bool = False


class ListDropped(OnObject):
    """A page of dropped tables."""

    page_token: str | None = None
    limit: int | None = None
    detailed: bool = False


class ListPurgeable(Model):
    """Which dropped tables may be purged."""

    deleted_before: datetime | None = None
    detailed: bool = False


class Protection(OnObject):
    """Whether an object is protected from drop and purge."""

    protected: bool


class NamespaceProperties(OnObject):
    """Properties to set, or to remove if they are null."""

    changes: dict[str, str | None]


class Adopt(OnObject):
    """The location of a table that was written before it is in the catalog."""

    location: str
    properties: dict[str, str] | None = None


class Located(OnObject):
    """A location."""

    location: str


class Tables(Model):
    """Several tables."""

    ids: list[list[str]]


class AdoptedTable(Model):
    """A table that was written at a new location."""

    id: list[str]
    location: str
    properties: dict[str, str] | None = None


class CommitTables(Model):
    """Versions that were staged, and tables that were written at new locations, for one commit."""

    versions: list[CreateTableVersionEntry] = Field(default_factory=list)
    new_tables: list[AdoptedTable] = Field(default_factory=list)


class Migrate(Model):
    """Which root tables to add to the manifest."""

    dry_run: bool = False
    names: list[str] | None = None


class MigrateMarkers(Model):
    """Whether markers are only reported."""

    dry_run: bool = False


class VersionManagement(Model):
    """Whether the catalog manages the versions of its tables."""

    enabled: bool


class ServerInfo(Model):
    """What the server is."""

    version: str
    idempotency_keys: bool
    instance: str
    """The process that keeps the answers to requests with a key. Another one does not recognize their repetitions."""
    creation_keys: bool
    """Whether every process of this catalog recognizes repeated creations."""


class Location(Model):
    """Where a table is."""

    location: str


class Restored(Model):
    """The tables of a restored namespace."""

    tables: list[list[str]]


class DroppedPage(Model):
    """Dropped tables, and the token of the next page."""

    tables: list[DroppedTable]
    page_token: str | None = None


class Properties(Model):
    """All properties of a namespace."""

    properties: dict[str, str]


class Version(Model):
    """The version of a table."""

    version: int


class Versions(Model):
    """The versions of tables, in the order of the request; those of new tables at the end."""

    versions: list[int]


class Problems(Model):
    """The entries of the root that cannot be used."""

    problems: list[Problem]
