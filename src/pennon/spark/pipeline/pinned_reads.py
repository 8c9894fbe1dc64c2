"""The table versions that a run reads. They are resolved once and recorded, so a resumed run reads the same ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon.errors import (
    InvalidInputError,
    InvalidTableStateError,
    NamespaceNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from pennon.identifiers import format_identifier
from pennon.spark.commits.destination import locate_table
from pennon.spark.pipeline.staged_files import root_store
from pennon.spark.pipeline.statements import parse_table_name
from pennon.spark.query.references import TimeTravel
from pennon.spark.reading.pinned import PinnedTable, VersionOptions, pin

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance import LanceDataset

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.pipeline.graph import Graph
    from pennon.spark.pipeline.model import Source
    from pennon.spark.pipeline.problems import Path
    from pennon.spark.pipeline.statements import Name


@dataclass(frozen=True)
class PinnedReads:
    """The tables that the names in the pipeline's queries refer to."""

    sources: dict[str, PinnedTable] = field(default_factory=dict)
    """Sources that are tables of the catalog."""
    tables: dict[tuple[Identifier, TimeTravel | None], PinnedTable] = field(default_factory=dict)
    names: dict[Name, Identifier | None] = field(default_factory=dict)
    """The table of each name in a query; None if Spark resolves the name."""

    def note(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "sources": {name: _to_note(table) for name, table in self.sources.items()},
            "tables": [
                {**_to_note(table), "travel": None if travel is None else [travel.kind, travel.text]}
                for (_, travel), table in self.tables.items()
            ],
            "names": [[list(name), None if found is None else list(found)] for name, found in self.names.items()],
        }


def restore_reads(note: Any, address: Address) -> PinnedReads:
    """Return the recorded versions. A version that no longer exists fails when it is read.

    Raises InvalidTableStateError if the record is malformed, or if a table has been replaced.
    """
    try:
        tables = {}
        for one in note["tables"]:
            travel = None if one["travel"] is None else TimeTravel(*map(_require_text, one["travel"]))
            tables[_require_name(one["table"]), travel] = _restore_pin(one, address)
        return PinnedReads(
            {_require_text(name): _restore_pin(one, address) for name, one in note["sources"].items()},
            tables,
            {_require_name(name): None if found is None else _require_name(found) for name, found in note["names"]},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidTableStateError(
            f"The record of the tables that the run reads is malformed ({type(error).__name__}: {error}); "
            "start a new run"
        ) from error


def noted_unstageable(note: Any) -> frozenset[str]:
    """Return the steps that were recorded as unstageable."""
    return frozenset(map(str, note.get("unstageable") or ()))


def _require_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _require_name(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise TypeError(f"{value!r} is not a name")
    return tuple(map(_require_text, value))


def resolve_reads(
    address: Address,
    lake_name: str,
    graph: Graph,
    moment_of: Callable[[Identifier, TimeTravel], VersionOptions | None],
    locate: Callable[[Path], str],
) -> PinnedReads:
    """Return the latest versions of all tables, at one point in time if the catalog manages versions.

    `moment_of` evaluates `VERSION AS OF` and `TIMESTAMP AS OF`; None excludes the table. `locate` returns the position
    of a source for messages. Raises TableNotFoundError if a source does not exist.
    """
    used = graph.used_names()
    wanted = {
        name: source for name, source in graph.definition.sources.items() if name in used and source.table is not None
    }
    latest: dict[Identifier, None] = {}
    for name, source in wanted.items():
        identifier = parse_table_name(str(source.table))
        if _find_table(address, "", identifier) is None:
            raise TableNotFoundError(
                f"{locate(('sources', name, 'table'))}: Table not found: {format_identifier(identifier)}"
            )
        if _moment_of(source) == VersionOptions():
            latest[identifier] = None
    reads = PinnedReads()
    _resolve_names(reads, address, lake_name, graph, moment_of)
    named = [one for one in reads.names.values() if one is not None]
    pinned = _pin_together(address, list(dict.fromkeys([*latest, *named])))
    for name, source in wanted.items():
        identifier = parse_table_name(str(source.table))
        moment = _moment_of(source)
        reads.sources[name] = pinned[identifier] if moment == VersionOptions() else pin(address, identifier, moment)[0]
    reads.tables.update({(one, None): pinned[one] for one in named})
    return reads


def _resolve_names(
    reads: PinnedReads,
    address: Address,
    lake_name: str,
    graph: Graph,
    moment_of: Callable[[Identifier, TimeTravel], VersionOptions | None],
) -> None:
    """Resolve the names in queries, and pin the tables whose version the query specifies."""
    for query in graph.all_queries():
        for reference in graph.external_reads(query):
            name, travel = reference.name, reference.travel
            if name not in reads.names:
                reads.names[name] = _find_table(address, lake_name, name)
            found = reads.names[name]
            if found is None or travel is None or (found, travel) in reads.tables:
                continue
            moment = moment_of(found, travel)
            if moment is not None:
                reads.tables[found, travel] = pin(address, found, moment)[0]


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
    from lance_namespace import TableExistsRequest

    candidates = [name[1:], name] if len(name) > 1 and name[0] == lake_name else [name]
    for identifier in candidates:
        try:
            address.connect().table_exists(TableExistsRequest(id=list(identifier)))
        except (TableNotFoundError, NamespaceNotFoundError, InvalidInputError):
            continue
        return identifier
    return None


def _moment_of(source: Source) -> VersionOptions:
    return VersionOptions(source.version, source.tag, source.branch, source.as_of)


def _to_note(table: PinnedTable) -> dict[str, Any]:
    return {
        "table": list(table.identifier),
        "version": table.version,
        "branch": table.branch,
        "uri": table.uri,
        "made": _creation_time(table.open()),
    }


def _restore_pin(noted: dict[str, Any], address: Address) -> PinnedTable:
    identifier, uri, version = _require_name(noted["table"]), _require_text(noted["uri"]), noted["version"]
    branch = None if noted["branch"] is None else _require_text(noted["branch"])
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise TypeError(f"{version!r} is not a version")
    _require_same_location(address, identifier, uri)
    table = PinnedTable(identifier, uri, version, branch, tuple(sorted(address.storage_options.items())))
    try:
        dataset = table.open()
    except (OSError, ValueError):
        return table
    made = _creation_time(dataset)
    if made != noted["made"]:
        raise InvalidTableStateError(
            f"Table {format_identifier(table.identifier)} was replaced after the run began: version "
            f"{table.version} was created at {made}, not at {noted['made']}"
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
