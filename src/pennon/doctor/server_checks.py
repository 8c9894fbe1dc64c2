"""Checks of catalogs behind servers: what they answer, what they offer, and which of it this client may use."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from pennon import addresses
from pennon.catalog_pages import iterate_all_tables
from pennon.doctor import store_checks, table_checks
from pennon.doctor.checking import ERROR, NOTE, WARNING, Check, SkippedCheckError
from pennon.doctor.store_checks import Measurements
from pennon.errors import LanceNamespaceError, PermissionDeniedError, UnsupportedOperationError, translate_errors
from pennon.iceberg import rest
from pennon.iceberg.server_promises import KEEPS_DROPPED
from pennon.results import Finding
from pennon.store.probing import MOST_SECONDS, TOLERATED_SECONDS
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pennon.iceberg import IcebergNamespace
    from pennon.rest import RestNamespace

_ON_THE_SERVER = "the server does that; run pennon doctor on the catalog that it serves"
_CLOCKS = "synchronize the clocks, as by NTP"
_NEEDED = {
    rest.LIST_NAMESPACES: "listings",
    rest.CREATE_NAMESPACE: "namespaces",
    rest.LOAD_NAMESPACE: "namespaces",
    rest.LIST_TABLES: "listings",
    rest.LOAD_TABLE: "every read",
    rest.CREATE_TABLE: "new tables",
    rest.UPDATE_TABLE: "commits to managed tables",
    rest.DROP_TABLE: "drops",
}
_USEFUL = {
    rest.RENAME_TABLE: "rename, undrop and trash",
    rest.COMMIT_TRANSACTION: "several tables in one commit, and pipelines with several targets",
    rest.UPDATE_NAMESPACE: "properties of namespaces",
}


@dataclass
class ServerExamination:
    """A server of Lance REST namespaces while it is examined."""

    namespace: RestNamespace
    measured: Measurements = field(default_factory=Measurements)


@dataclass
class IcebergExamination:
    """An Iceberg REST catalog while it is examined."""

    namespace: IcebergNamespace
    probes: bool = True
    deep: bool = False
    measured: Measurements = field(default_factory=Measurements)


# Servers of Lance REST namespaces


def find_server_faults(server: ServerExamination) -> Iterator[Finding]:
    """Ask the server for its namespaces and what it is, and compare the clocks."""
    import lance_namespace as sdk  # noqa: PLC0415 - slow

    started = time.monotonic()
    server.namespace.list_namespaces(sdk.ListNamespacesRequest(id=[], limit=1))
    described = server.namespace.describe_server()
    server.measured.figures["first_answer_ms"] = round((time.monotonic() - started) * 1000, 2)
    server.measured.figures["round_trip_ms"] = round(described.seconds * 1000, 2)
    if described.version is None:
        problem = "it is not a server of Pennon: what is dropped cannot be restored, and it shows no problems"
        yield Finding(NOTE, "server", problem, "nothing has to be done")
    else:
        server.measured.figures["server_version"] = described.version
        if not described.recognizes_repetitions:
            problem = "it does not recognize requests that are sent again: a change may end with an unknown outcome"
            yield Finding(NOTE, "server", problem, "nothing has to be done")
    ahead = described.clock_ahead_seconds
    if ahead is not None:
        server.measured.figures["clock_ahead_seconds"] = round(ahead, 1)
        if abs(ahead) > TOLERATED_SECONDS:
            where = "ahead of" if ahead > 0 else "behind"
            problem = f"the clock of the server is {abs(ahead):,.0f} s {where} this machine's: tokens may be refused"
            yield Finding(ERROR if abs(ahead) > MOST_SECONDS else WARNING, "clock", problem, _CLOCKS)


def find_served_problems(server: ServerExamination) -> Iterator[Finding]:
    """Ask the server for the entries of its root that cannot be used."""
    try:
        problems = server.namespace.list_problems()
    except PermissionDeniedError as error:
        raise SkippedCheckError("it needs the right to administer the catalog") from error
    except UnsupportedOperationError as error:
        raise SkippedCheckError("the server does not have this operation") from error
    for problem in problems:
        yield Finding(WARNING, problem.entry, problem.reason, problem.fix)


def find_served_trash(server: ServerExamination) -> Iterator[Finding]:
    """Ask the server what is due to be purged."""
    try:
        due = server.namespace.list_purgable_tables()
    except PermissionDeniedError as error:
        raise SkippedCheckError("it needs the right to administer the catalog") from error
    except UnsupportedOperationError as error:
        raise SkippedCheckError("the server does not have this operation") from error
    begun = [table for table in due if table.being_purged]
    if begun:
        problem = f"the purge of {len(begun):,} tables has begun; unless it is running, it was interrupted"
        yield Finding(WARNING, "trash", problem, "finish it", "pennon purge")
    if len(due) > len(begun):
        problem = f"{len(due) - len(begun):,} dropped tables are due to be purged"
        yield Finding(NOTE, "trash", problem, "purge them to free their space", "pennon purge")


def skip_root(_: ServerExamination) -> Iterable[Finding]:
    """Say that the files are not looked at."""
    raise SkippedCheckError(_ON_THE_SERVER)


SERVER_CHECKS: tuple[Check[ServerExamination], ...] = (
    Check("server", "Server", find_server_faults, vital=True),
    Check("rows", "Entries that the server cannot use", find_served_problems),
    Check("trash", "Trash", find_served_trash),
    Check("store", "Store, directories, repairs", skip_root),
)


# Iceberg REST catalogs


def find_catalog_faults(iceberg: IcebergExamination) -> Iterator[Finding]:
    """Ask the server for its configuration and its namespaces, and find what it does not offer."""
    server = iceberg.namespace.catalog.server
    started = time.monotonic()
    _ = server.defaults
    iceberg.measured.figures["first_answer_ms"] = round((time.monotonic() - started) * 1000, 2)
    started = time.monotonic()
    iceberg.namespace.catalog.children(())
    iceberg.measured.figures["round_trip_ms"] = round((time.monotonic() - started) * 1000, 2)
    if not server.lists_endpoints:
        problem = "it does not say which endpoints it has: an operation that it lacks fails when it is used"
        yield Finding(NOTE, "endpoints", problem, "nothing has to be done")
    for route, needed in {**_NEEDED, **_USEFUL}.items():
        if not server.offers(route):
            severity = ERROR if route in _NEEDED else NOTE
            yield Finding(severity, route.endpoint, f"it is not offered; needed for: {needed}", "use another server")
    if server.defaults.get(KEEPS_DROPPED) == "true":
        problem = "the server itself keeps dropped tables: trash, undrop and purge are there"
        yield Finding(NOTE, "trash", problem, "use the server's own commands")


def find_access_faults(iceberg: IcebergExamination) -> Iterator[Finding]:
    """List the files of one table, by the credentials that the client has or gets."""
    catalog = iceberg.namespace.catalog
    for identifier in islice(iterate_all_tables(iceberg.namespace, ()), 1):
        name = addresses.format_address(identifier)
        try:
            with translate_errors(f"the files of {name}"):
                entry = catalog.table(identifier)
                files = catalog.store(entry).list_names(naming.VERSIONS_FOLDER)
        except LanceNamespaceError as error:
            advice = "set storage options, or let the server hand out credentials"
            yield Finding(ERROR, name, f"its files cannot be listed: {error}", advice)
        else:
            iceberg.measured.figures["listed_table"] = name
            if not files:
                yield Finding(NOTE, name, "no version of it is stored", "it is only declared, or its files are gone")
        return
    raise SkippedCheckError("there is no table")


def find_root_store_faults(iceberg: IcebergExamination) -> Iterable[Finding]:
    """Probe the store of the property `root`."""
    store = iceberg.namespace.catalog.places.root
    if store is None:
        raise SkippedCheckError("there is no property 'root': the server chooses where tables are")
    if not iceberg.probes:
        raise SkippedCheckError("not asked for")
    return store_checks.probe(store, iceberg.measured, pages=iceberg.deep)


def find_table_faults(iceberg: IcebergExamination) -> Iterable[Finding]:
    """Open every table."""
    if not iceberg.deep:
        raise SkippedCheckError("only with --deep, which opens every table")
    catalog = iceberg.namespace.catalog
    return table_checks.find_table_faults(iceberg.namespace, catalog.map, iceberg.measured.figures)


def skip_entries(_: IcebergExamination) -> Iterable[Finding]:
    """Say that the server's own records are not looked at."""
    raise SkippedCheckError("the server keeps these records itself")


ICEBERG_CHECKS: tuple[Check[IcebergExamination], ...] = (
    Check("server", "Server and its endpoints", find_catalog_faults, vital=True),
    Check("access", "Access to the files of a table", find_access_faults),
    Check("store", "Promises of the store", find_root_store_faults),
    Check("tables", "Tables", find_table_faults),
    Check("rows", "Entries, trash, repairs", skip_entries),
)
