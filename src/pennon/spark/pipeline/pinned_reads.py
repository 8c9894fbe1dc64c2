"""The table versions that a run reads. They are resolved once and recorded, so a resumed run reads the same ones."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter

from pennon.catalog_pages import has_table, suggest_similar
from pennon.errors import (
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    NamespaceNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from pennon.identifiers import format_identifier, parse_table_name
from pennon.pipeline_runs.run_state import describe_fault
from pennon.spark.pipeline.run_location import root_store
from pennon.spark.query.references import TimeTravel
from pennon.spark.reading.pinned import LATEST, PinnedTable, VersionOptions, pin
from pennon.spark.tables.destination import locate_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lance import LanceDataset

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.pipeline.graph import Graph
    from pennon.spark.pipeline.statements import Name
    from pennon.yaml_documents.problems import Path


@dataclass(frozen=True)
class PinnedReads:
    """The tables that the names in the pipeline's queries refer to."""

    sources: dict[str, PinnedTable] = field(default_factory=dict)
    """Sources that are tables of the catalog."""
    tables: dict[tuple[Identifier, TimeTravel | None], PinnedTable] = field(default_factory=dict)
    names: dict[Name, Identifier | None] = field(default_factory=dict)
    """The table of each name in a query; None if Spark resolves the name."""

    def note(self, unstageable: Iterable[str]) -> dict[str, Any]:
        """Return everything as JSON values, which `restore_reads` parses."""
        sources = {name: _to_note(table) for name, table in self.sources.items()}
        tables = tuple(_to_note(table, travel) for (_, travel), table in self.tables.items())
        return asdict(ReadsNote(sources, tables, tuple(self.names.items()), tuple(sorted(unstageable))))


@dataclass(frozen=True)
class TableNote:
    """A recorded version. `made` is its creation time."""

    table: Annotated[tuple[str, ...], Field(min_length=1)]
    version: Annotated[int, Field(ge=1)]
    branch: str | None
    uri: str
    made: str
    travel: tuple[str, str] | None = None


@dataclass(frozen=True)
class ReadsNote:
    """The record of everything that a run reads, and of the steps whose results cannot be staged."""

    sources: dict[str, TableNote]
    tables: tuple[TableNote, ...]
    names: tuple[tuple[tuple[str, ...], tuple[str, ...] | None], ...]
    unstageable: tuple[str, ...] = ()


def restore_reads(note: object, address: Address) -> tuple[PinnedReads, frozenset[str]]:
    """Return the recorded versions and unstageable steps. A version that no longer exists fails when it is read.

    Raises InvalidTableStateError if the record is malformed, or if a table has been replaced.
    """
    try:
        noted = TypeAdapter(ReadsNote).validate_json(json.dumps(note), strict=True)
    except ValueError as error:
        raise InvalidTableStateError(
            f"The record of the tables that the run reads is malformed ({describe_fault(error)}); start a new run"
        ) from error
    sources = {name: _restore_pin(one, address) for name, one in noted.sources.items()}
    tables = {
        (one.table, None if one.travel is None else TimeTravel(*one.travel)): _restore_pin(one, address)
        for one in noted.tables
    }
    return PinnedReads(sources, tables, dict(noted.names)), frozenset(noted.unstageable)


def resolve_reads(
    address: Address,
    lake_name: str,
    graph: Graph,
    moment_of: Callable[[Identifier, TimeTravel], VersionOptions | None],
    report: Callable[[Path, LanceNamespaceError], None],
    *,
    also: Sequence[Identifier] = (),
) -> PinnedReads:
    """Return the latest versions of all tables, at one point in time if the catalog manages versions.

    `moment_of` evaluates `VERSION AS OF` and `TIMESTAMP AS OF`; None excludes the table. `also` are further tables.
    Reports TableNotFoundError if a source does not exist, and the errors of its version.
    """
    used = graph.used_names()
    moments: dict[str, tuple[Identifier, VersionOptions]] = {}
    for name, source in graph.definition.sources.items():
        if name in used and source.table is not None:
            identifier = parse_table_name(source.table)
            if _find_table(address, "", identifier) is None:
                similar = suggest_similar(address.connect(), identifier)
                missing = TableNotFoundError(f"Table not found: {format_identifier(identifier)}{similar}")
                report(("sources", name, "table"), missing)
                continue
            moments[name] = (identifier, VersionOptions(source.version, source.tag, source.branch, source.as_of))
    reads = PinnedReads()
    _resolve_names(reads, address, lake_name, graph, moment_of)
    named = [one for one in reads.names.values() if one is not None]
    latest = [identifier for identifier, moment in moments.values() if moment == LATEST]
    pinned = _pin_together(address, list(dict.fromkeys([*latest, *named, *also])))
    for name, (identifier, moment) in moments.items():
        try:
            reads.sources[name] = pinned[identifier] if moment == LATEST else pin(address, identifier, moment)[0]
        except LanceNamespaceError as error:
            report(("sources", name), error)
    reads.tables.update({(one, None): pinned[one] for one in (*named, *also)})
    return reads


def _resolve_names(
    reads: PinnedReads,
    address: Address,
    lake_name: str,
    graph: Graph,
    moment_of: Callable[[Identifier, TimeTravel], VersionOptions | None],
) -> None:
    """Resolve the names in queries, and pin the tables whose version the query specifies."""
    used = graph.used_names()
    queries = [sql for path, sql in graph.definition.queries() if path[0] != "steps" or path[1] in used]
    for one in [one for sql in queries for one in graph.external_reads(sql)]:
        if one.name not in reads.names:
            reads.names[one.name] = _find_table(address, lake_name, one.name)
        found = reads.names[one.name]
        if found is not None and one.travel is not None and (found, one.travel) not in reads.tables:
            moment = moment_of(found, one.travel)
            if moment is not None:
                reads.tables[found, one.travel] = pin(address, found, moment)[0]


def _pin_together(address: Address, identifiers: list[Identifier]) -> dict[Identifier, PinnedTable]:
    try:
        versions = address.connect().latest_table_versions(identifiers)
    except UnsupportedOperationError:
        return {one: pin(address, one)[0] for one in identifiers}
    return {
        one: pin(address, one, VersionOptions(version=version))[0]
        for one, version in zip(identifiers, versions, strict=True)
    }


def _find_table(address: Address, lake_name: str, name: Name) -> Identifier | None:
    """Return the table that a name refers to, or None. The name may begin with that of the lake."""
    candidates = [name[1:], name] if len(name) > 1 and name[0] == lake_name else [name]
    return next((one for one in candidates if has_table(address.connect(), one)), None)


def _to_note(table: PinnedTable, travel: TimeTravel | None = None) -> TableNote:
    moment = None if travel is None else (travel.kind, travel.text)
    return TableNote(table.identifier, table.version, table.branch, table.uri, _creation_time(table.open()), moment)


def _restore_pin(noted: TableNote, address: Address) -> PinnedTable:
    _require_same_location(address, noted.table, noted.uri)
    options = tuple(sorted(address.storage_options.items()))
    table = PinnedTable(noted.table, noted.uri, noted.version, noted.branch, options)
    try:
        dataset = table.open()
    except (OSError, ValueError):
        return table
    made = _creation_time(dataset)
    if made != noted.made:
        raise InvalidTableStateError(
            f"Table {format_identifier(table.identifier)} was replaced after the run began: version "
            f"{table.version} was created at {made}, not at {noted.made}"
        )
    return table.identified_by(dataset)


def _require_same_location(address: Address, identifier: Identifier, uri: str) -> None:
    """Raise InvalidTableStateError unless a table is at its recorded location.

    The catalog provides the location; that of a dropped table must be in the root.
    """
    try:
        now = locate_table(address, identifier).uri
    except (TableNotFoundError, NamespaceNotFoundError):
        if _is_in_root(address, uri):
            return
        now = "no location of the catalog"
    if now != uri:
        raise InvalidTableStateError(
            f"Table {format_identifier(identifier)} was replaced after the run began: it is at {now!r}, not at {uri!r}"
        )


def _is_in_root(address: Address, uri: str) -> bool:
    from pennon.directory.layout import check_location

    store = root_store(address)
    inside = None if store is None else store.relative(uri)
    try:
        return inside is not None and check_location(inside) == inside
    except InvalidInputError:
        return False


def _creation_time(dataset: LanceDataset) -> str:
    return str(dataset.get_version()["timestamp"])
