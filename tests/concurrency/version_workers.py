"""Functions on table versions that tests run in other processes, as in `workers`."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments
from lance_namespace import LanceNamespace
from lance_namespace.errors import ConcurrentModificationError, LanceNamespaceError, TableNotFoundError
from lance_namespace_urllib3_client.models.create_table_version_response import CreateTableVersionResponse
from lance_namespace_urllib3_client.models.table_version import TableVersion

from pennon.directory import version_management
from pennon.directory.multi_table.transactions import TableCommit
from tests.concurrency.crew import PATIENCE
from tests.concurrency.hooks import Point, strike_at
from tests.concurrency.workers import Outcome, attempt, open_client, read_catalog
from tests.support import Root, create_namespace, describe_table, drop_table, ipc, rename_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.concurrency.crew import Member

CONFLICT = 14
BATCH = ["a", "b", "c"]
"""The tables of a batch whose writer is killed."""


def rows(*names: str) -> pa.Table:
    return pa.table({"who": list(names)})


def append(ns: Any, root: Root, name: str, *names: str) -> int:
    """Append rows like plain pylance code, and return the version."""
    return lance.write_dataset(
        rows(*names),
        namespace_client=ns,
        table_id=name.split("$"),
        mode="append",
        storage_options=root.options or None,
    ).version


def append_many(member: Member, root: Root, mode: str, name: str, rounds: int) -> list[tuple[str, int]]:
    """Append a row of this member in each round, and return each row with its version."""
    with open_client(root, mode) as ns:
        read_catalog(ns)
        member.together()
        told = []
        for number in range(rounds):
            row = f"{member.index}-{number}"
            told.append((row, append(ns, root, name, row)))
        return told


# Batches over several tables


def prepared(ns: Any, root: Root, names: Iterable[str], batch: str) -> list[TableCommit]:
    """Write a row with the batch's id for each table, and prepare the appends of all of them."""
    commits = []
    for name in names:
        location = describe_table(ns, name).location
        fragments = write_fragments(rows(batch), location, mode="append", storage_options=root.options or None)
        version = ns.list_table_versions({"id": [name], "limit": 1, "descending": True}).versions[0].version
        commits.append(TableCommit([name], LanceOperation.Append(fragments), version))
    return commits


def commit_by_transactions(ns: Any, root: Root, names: Iterable[str], batch: str) -> None:
    """Commit one batch by `commit_tables`, which rebases by itself."""
    ns.commit_tables(prepared(ns, root, names, batch))


def commit_by_entries(ns: Any, root: Root, names: Iterable[str], batch: str) -> None:
    """Commit one batch by `batch_create_table_versions`, staging again after each conflict."""
    commits = prepared(ns, root, names, batch)
    deadline = time.monotonic() + PATIENCE
    while True:
        staged = [staged_entry(ns, root, one) for one in commits]
        try:
            ns.batch_create_table_versions({"entries": staged})
        except ConcurrentModificationError:
            store = ns._catalog.store
            store.delete(*(store.from_absolute(one["manifest_path"]) for one in staged))
            if time.monotonic() > deadline:
                raise
        else:
            return


def staged_entry(ns: Any, root: Root, commit: TableCommit) -> dict[str, Any]:
    """Let Lance stage the manifest of a change, and return its request."""
    holding = Holding(ns)
    LanceDataset.commit(
        describe_table(ns, *commit.id).location,
        commit.operation,
        read_version=commit.read_version,
        storage_options=root.options or None,
        namespace_client=holding,
        table_id=list(commit.id),
        namespace_client_managed_versioning=True,
    )
    return holding.held


class Holding(LanceNamespace):
    """Tells Lance that its version is created, but only records the request."""

    def __init__(self, ns: Any) -> None:
        self._ns = ns
        self.held: dict[str, Any] = {}

    def namespace_id(self) -> str:
        return self._ns.namespace_id()

    def describe_table(self, request: Any) -> Any:
        return self._ns.describe_table(request)

    def list_table_versions(self, request: Any) -> Any:
        return self._ns.list_table_versions(request)

    def describe_table_version(self, request: Any) -> Any:
        return self._ns.describe_table_version(request)

    def create_table_version(self, request: Any) -> Any:
        self.held = {key: value for key, value in dict(request).items() if value is not None}
        return CreateTableVersionResponse(version=TableVersion(version=request["version"], **_file(request)))


def _file(request: Any) -> dict[str, Any]:
    return {key: request.get(key) for key in ("manifest_path", "manifest_size", "e_tag")}


@dataclass
class BatchOutcomes:
    """The outcomes of a writer of batches, or what a reader saw."""

    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    """The tables of each batch that succeeded."""
    refused: list[Outcome] = field(default_factory=list)
    at_once: list[dict[str, int]] = field(default_factory=list)
    """The latest versions of all tables in one state of the catalog."""
    in_turn: list[list[tuple[str, list[str]]]] = field(default_factory=list)
    """The batches in each table, for a reader that opens one table after the other."""


@dataclass(frozen=True)
class Batches:
    """How batches are committed, to which sets of tables in turn, how many by each member, and who is done."""

    commit: Callable[..., None]
    sets: list[list[str]]
    rounds: int
    done: str
    """A directory in which each member that is done creates a file."""


def all_done(done: str, members: int) -> bool:
    return all(Path(done, str(index)).exists() for index in range(members))


def commit_batches_or_read(member: Member, root: Root, mode: str, work: Batches) -> BatchOutcomes:
    """Commit batches to overlapping sets of tables, or, as the last member, read them repeatedly."""
    told = BatchOutcomes()
    with open_client(root, mode) as ns:
        read_catalog(ns)
        member.together()
        if member.index == member.size - 1:
            names = sorted({name for one in work.sets for name in one})
            while not all_done(work.done, member.size - 1):
                _read(ns, root, names, told)
            _read(ns, root, names, told)
            return told
        try:
            for number in range(work.rounds):
                batch = f"{member.index}-{number}"
                names = work.sets[(member.index + number) % len(work.sets)]
                outcome = attempt(work.commit, ns, root, names, batch)
                if outcome.acknowledged:
                    told.acknowledged[batch] = names
                else:
                    told.refused.append(outcome)
        finally:
            Path(work.done, str(member.index)).touch()
    return told


def _read(ns: Any, root: Root, names: list[str], told: BatchOutcomes) -> None:
    told.at_once.append(
        ns._catalog.manifest.read(lambda snapshot: {name: snapshot.versions_of(name)[-1] for name in names})
    )
    order = names if len(told.in_turn) % 2 else names[::-1]
    told.in_turn.append([(name, batches(ns, root, name)) for name in order])


def batches(ns: Any, root: Root, name: str, version: int | None = None) -> list[str]:
    """Return the rows of a table, read through the catalog."""
    dataset = lance.dataset(
        namespace_client=ns, table_id=name.split("$"), version=version, storage_options=root.options or None
    )
    return dataset.to_table()["who"].to_pylist()


# One version that all members create


def create_same_version(member: Member, root: Root, mode: str, names: list[str]) -> list[tuple[Outcome, int, bytes]]:
    """Stage the next version of each table and create it at the same moment as all other members.

    Returns the outcome, the requested version, and the manifest that `describe_table_version` returns afterwards.
    """
    with open_client(root, mode) as ns:
        told = []
        for name in names:
            (commit,) = prepared(ns, root, [name], str(member.index))
            entry = staged_entry(ns, root, commit)
            member.together()
            outcome = attempt(ns.create_table_version, entry)
            described = ns.describe_table_version({"id": [name], "version": entry["version"]}).version
            store = ns._catalog.store
            blob = store.get(store.from_absolute(described.manifest_path))
            told.append((outcome, entry["version"], blob.body))
            member.together()
        return told


# Appends during drop, undrop and rename


@dataclass
class Attempts:
    """The rows that a member tried to append, those that were acknowledged, and the errors of the others."""

    tried: list[str] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Moves:
    """How the table is moved, each way by its own member, how often, and who is done."""

    kinds: list[str]
    rounds: int
    done: str


def append_or_move(member: Member, root: Root, mode: str, work: Moves) -> Attempts:
    """Append to the table `t`, or, as one of the last members, move it away and back as often as the others append.

    The movers wait until a version was added, so that appends and moves alternate.
    """
    told = Attempts()
    appenders = member.size - len(work.kinds)
    with open_client(root, mode) as ns:
        read_catalog(ns)
        member.together()
        if member.index >= appenders:
            move = _MOVES[work.kinds[member.index - appenders]]
            for _ in range(work.rounds):
                _there_and_back(ns, move, told)
                before = latest(ns)
                while latest(ns) == before and not all_done(work.done, appenders):
                    pass
            return told
        try:
            deadline = time.monotonic() + PATIENCE
            while len(told.acknowledged) < work.rounds and time.monotonic() < deadline:
                _try_to_append(ns, root, f"{member.index}-{len(told.tried)}", told)
        finally:
            Path(work.done, str(member.index)).touch()
    return told


_MOVES = {
    "drop": (lambda ns: drop_table(ns, "t"), lambda ns: ns.undrop_table(["t"])),
    "rename": (lambda ns: rename_table(ns, "t", to="aside"), lambda ns: rename_table(ns, "aside", to="t")),
}


def latest(ns: Any) -> int | None:
    """Return the latest version of the table `t`, or None while it is moved away."""
    try:
        return ns.list_table_versions({"id": ["t"], "limit": 1, "descending": True}).versions[0].version
    except TableNotFoundError:
        return None


def _there_and_back(ns: Any, move: tuple[Callable[[Any], Any], Callable[[Any], Any]], told: Attempts) -> None:
    """Move the table away, unless another member did, and move it back."""
    take, bring = move
    taken = attempt(take, ns)
    if not taken.acknowledged:
        told.errors.append(taken.text)
        return
    deadline = time.monotonic() + PATIENCE
    while not (brought := attempt(bring, ns)).acknowledged:
        if time.monotonic() > deadline:
            raise AssertionError(f"what was taken away cannot be brought back: {brought.text}")


def _try_to_append(ns: Any, root: Root, row: str, told: Attempts) -> None:
    told.tried.append(row)
    try:
        append(ns, root, "t", row)
    except (LanceNamespaceError, OSError) as error:
        told.errors.append(f"{type(error).__name__}: {error}")
    else:
        told.acknowledged.append(row)


# Children that are killed


def append_row(ns: Any, _: int, name: str) -> None:
    """Append the row `killed`, with the storage options of the client."""
    append(ns, _root(ns), name, "killed")


def insert_row(ns: Any, _: int, name: str) -> None:
    """Insert the row `killed` through the catalog."""
    ns.insert_into_table({"id": [name]}, ipc({"who": ["killed"]}))


def commit_batch(ns: Any, _: int, __: str) -> None:
    """Commit a row `killed` to each table of a batch."""
    commit_by_transactions(ns, _root(ns), BATCH, "killed")


def _root(ns: Any) -> Root:
    return Root("", dict(ns._catalog.store.storage_options or {}))


def die_managing(root: Root, mode: str, point: Point, what: str) -> Outcome:
    """Turn version management on or off, in small commits, and be killed at the point."""
    version_management._TABLES_PER_COMMIT = 2
    version_management._ROWS_PER_COMMIT = 2
    with open_client(root, mode) as ns:
        read_catalog(ns)
        strike_at(point, signal.SIGKILL)
        return attempt(getattr(ns, f"{what}_table_version_management"))


def append_while_another_commits(root: Root, mode: str, name: str) -> int:
    """Append with a client that finds a change by another client at each call from Lance."""
    with open_client(root, mode) as ns, open_client(root, mode) as other:
        read_catalog(ns)
        client = _Overtaken(ns, other)
        version = append(client, root, name, "overtaken")
        if not client.calls:
            raise AssertionError("Lance asked for no version")
        return version


class _Overtaken(Holding):
    """A namespace in which another client commits before each call about versions."""

    def __init__(self, ns: Any, other: Any) -> None:
        super().__init__(ns)
        self._other = other
        self.calls = 0

    def list_table_versions(self, request: Any) -> Any:
        return self._overtaken(self._ns.list_table_versions, request)

    def describe_table_version(self, request: Any) -> Any:
        return self._overtaken(self._ns.describe_table_version, request)

    def create_table_version(self, request: Any) -> Any:
        return self._overtaken(self._ns.create_table_version, request)

    def _overtaken(self, call: Callable[[Any], Any], request: Any) -> Any:
        self.calls += 1
        with ThreadPoolExecutor(1) as pool:  # like another process: not in the thread from which Lance calls
            pool.submit(create_namespace, self._other, f"overtaking_{self.calls}").result()
        return call(request)
