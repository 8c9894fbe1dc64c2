"""The versions of tables that a run reads: found once, written down, and the same whenever the run is taken up."""

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
from pennon.spark.pipeline.references import identifier_of
from pennon.spark.reading.pinned import PinnedTable, VersionSelector, pin
from pennon.spark.sql.references import TimeTravel

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
class Reads:
    """What every name in the pipeline's queries means."""

    sources: dict[str, PinnedTable] = field(default_factory=dict)
    """Sources that are tables of the catalog."""
    tables: dict[tuple[Identifier, TimeTravel | None], PinnedTable] = field(default_factory=dict)
    names: dict[Name, Identifier | None] = field(default_factory=dict)
    """Tables of the catalog by the names in queries; None for names that are left to Spark."""

    def note(self) -> dict[str, Any]:
        """Give all of it in terms of JSON."""
        return {
            "sources": {name: _noted(table) for name, table in self.sources.items()},
            "tables": [
                {**_noted(table), "travel": None if travel is None else [travel.kind, travel.text]}
                for (_, travel), table in self.tables.items()
            ],
            "names": [[list(name), None if found is None else list(found)] for name, found in self.names.items()],
        }


def restored(note: Any, address: Address) -> Reads:
    """Return the very same versions again; error 19 if the note cannot be used, or one of them is another by now.

    One that is gone may not be needed any more: whoever reads it gets the error.
    """
    try:
        tables = {}
        for one in note["tables"]:
            travel = None if one["travel"] is None else TimeTravel(*map(_text, one["travel"]))
            tables[_name(one["table"]), travel] = _pinned_again(one, address)
        return Reads(
            {_text(name): _pinned_again(one, address) for name, one in note["sources"].items()},
            tables,
            {_name(name): None if found is None else _name(found) for name, found in note["names"]},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidTableStateError(
            f"What is noted of the tables that the run reads cannot be used ({type(error).__name__}: {error}); start a "
            "new run"
        ) from error


def unstageable(note: Any) -> frozenset[str]:
    """Return the steps that cannot be staged, as they were noted."""
    return frozenset(map(str, note.get("unstageable") or ()))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _name(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise TypeError(f"{value!r} is no name")
    return tuple(map(_text, value))


def resolved(
    address: Address,
    lake_name: str,
    graph: Graph,
    moment_of: Callable[[Identifier, TimeTravel], VersionSelector | None],
    place: Callable[[Path], str],
) -> Reads:
    """Find the versions that are current now, of all tables at one moment where the catalog manages versions.

    `moment_of` says what `VERSION AS OF` and `TIMESTAMP AS OF` mean; None leaves the table out. A source that is not
    there raises 4, and `place` says where it is named.
    """
    used = graph.used()
    wanted = {
        name: source for name, source in graph.definition.sources.items() if name in used and source.table is not None
    }
    latest: dict[Identifier, None] = {}
    for name, source in wanted.items():
        identifier = identifier_of(str(source.table))
        if _existing(address, "", identifier) is None:
            raise TableNotFoundError(
                f"{place(('sources', name, 'table'))}: Table not found: {format_identifier(identifier)}"
            )
        if _moment(source) == VersionSelector():
            latest[identifier] = None
    reads = Reads()
    _resolve_names(reads, address, lake_name, graph, moment_of)
    named = [one for one in reads.names.values() if one is not None]
    pinned = _at_one_moment(address, list(dict.fromkeys([*latest, *named])))
    for name, source in wanted.items():
        identifier = identifier_of(str(source.table))
        moment = _moment(source)
        reads.sources[name] = pinned[identifier] if moment == VersionSelector() else pin(address, identifier, moment)[0]
    reads.tables.update({(one, None): pinned[one] for one in named})
    return reads


def _resolve_names(
    reads: Reads,
    address: Address,
    lake_name: str,
    graph: Graph,
    moment_of: Callable[[Identifier, TimeTravel], VersionSelector | None],
) -> None:
    """Find out what the names in queries mean, and pin those that ask for a version themselves."""
    for query in graph.queries():
        for reference in graph.tables(query):
            name, travel = reference.name, reference.travel
            if name not in reads.names:
                reads.names[name] = _existing(address, lake_name, name)
            found = reads.names[name]
            if found is None or travel is None or (found, travel) in reads.tables:
                continue
            moment = moment_of(found, travel)
            if moment is not None:
                reads.tables[found, travel] = pin(address, found, moment)[0]


def _at_one_moment(address: Address, identifiers: list[Identifier]) -> dict[Identifier, PinnedTable]:
    try:
        versions = address.connect().latest_table_versions(identifiers)
    except UnsupportedOperationError:
        return {one: pin(address, one)[0] for one in identifiers}
    return {
        one: pin(address, one, VersionSelector(version=version))[0]
        for one, version in zip(identifiers, versions, strict=True)
    }


def _existing(address: Address, lake_name: str, name: Name) -> Identifier | None:
    """Find the table of the catalog that a name means, which may begin with the lake's own."""
    from lance_namespace import TableExistsRequest

    candidates = [name[1:], name] if len(name) > 1 and name[0] == lake_name else [name]
    for identifier in candidates:
        try:
            address.connect().table_exists(TableExistsRequest(id=list(identifier)))
        except (TableNotFoundError, NamespaceNotFoundError, InvalidInputError):
            continue
        return identifier
    return None


def _moment(source: Source) -> VersionSelector:
    return VersionSelector(source.version, source.tag, source.branch, source.as_of)


def _noted(table: PinnedTable) -> dict[str, Any]:
    return {
        "table": list(table.identifier),
        "version": table.version,
        "branch": table.branch,
        "uri": table.uri,
        "made": _made(table.open()),
    }


def _pinned_again(noted: dict[str, Any], address: Address) -> PinnedTable:
    identifier, uri, version = _name(noted["table"]), _text(noted["uri"]), noted["version"]
    branch = None if noted["branch"] is None else _text(noted["branch"])
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise TypeError(f"{version!r} is no version")
    _require_place(address, identifier, uri)
    table = PinnedTable(identifier, uri, version, branch, tuple(sorted(address.storage_options.items())))
    try:
        dataset = table.open()
    except (OSError, ValueError):
        return table
    made = _made(dataset)
    if made != noted["made"]:
        raise InvalidTableStateError(
            f"Table {format_identifier(table.identifier)} is another one than when the run began: version "
            f"{table.version} was "
            f"made at {made}, not at {noted['made']}"
        )
    return table.identified_by(dataset)


def _require_place(address: Address, identifier: Identifier, uri: str) -> None:
    """Raise 19 unless a table is where it was: the catalog says where; of a dropped one, that it is in the root."""
    try:
        now = locate_table(address, identifier).uri
    except (TableNotFoundError, NamespaceNotFoundError):
        if _is_place(address, uri):
            return
        now = "no place of the catalog"
    if now != uri:
        raise InvalidTableStateError(
            f"Table {format_identifier(identifier)} is another one than when the run began: it is at {now!r}, "
            f"not at {uri!r}"
        )


def _is_place(address: Address, uri: str) -> bool:
    from pennon.directory.layout import checked_location
    from pennon.store import open_store

    root = dict(address.properties).get("root")
    inside = None if root is None else open_store(root, address.storage_options).relative(uri)
    try:
        return inside is not None and checked_location(inside) == inside
    except InvalidInputError:
        return False


def _made(dataset: LanceDataset) -> str:
    return str(dataset.get_version()["timestamp"])
