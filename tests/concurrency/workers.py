"""Functions that tests run in other processes: in a crew or in a child."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance.namespace import DirectoryNamespace as ReferenceNamespace
from lance_namespace.errors import LanceNamespaceError

from pennon import DirectoryNamespace
from pennon.directory import layout
from pennon.directory.manifest.upkeep import Upkeep
from pennon.directory.markers.claim import Claim
from pennon.directory.markers.marker import Marker
from pennon.store import open_store
from pennon.store.objects import ObjectStore
from pennon.table import writing
from tests.concurrency.hooks import Point, count_calls, strike_after_calls, strike_at
from tests.support import (
    MODES,
    Root,
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    drop_namespace,
    drop_table,
    ipc,
    list_all_tables,
    list_namespaces,
    list_tables,
    register_table,
    remove_table,
    rename_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.concurrency.crew import Member

ROWS = 3
UNEXPECTED = -1


@dataclass(frozen=True)
class Outcome:
    """The outcome of one call: success, or an error with its code."""

    code: int | None
    text: str = ""

    @property
    def acknowledged(self) -> bool:
        return self.code is None


@contextmanager
def open_client(root: Root, mode: str, kind: str = "pennon") -> Iterator[Any]:
    """Open a client of either kind and close it at the end."""
    properties = {**root.properties, **MODES[mode]}
    if kind == "reference":
        yield ReferenceNamespace(**properties)
        return
    with DirectoryNamespace(**properties) as namespace:
        yield namespace


def attempt(call: Callable[..., Any], *arguments: Any, **options: Any) -> Outcome:
    """Make a call and return its outcome. Errors of the SDK become their code; other errors are unexpected."""
    try:
        call(*arguments, **options)
    except LanceNamespaceError as error:
        return Outcome(int(error.code), str(error))
    except Exception as error:  # noqa: BLE001 - the test checks it
        return Outcome(UNEXPECTED, f"{type(error).__name__}: {error}")
    return Outcome(None)


def read_catalog(ns: Any) -> None:
    """Read the catalog, so that the client has its state before the race in memory."""
    list_tables(ns)
    list_namespaces(ns)
    list_all_tables(ns)


def race(member: Member, root: Root, mode: str, operation: Callable[..., Any], names: list[str]) -> list[Outcome]:
    """Perform `operation` on each name at the same moment as all other members."""
    with open_client(root, mode) as ns:
        read_catalog(ns)
        outcomes = []
        for name in names:
            member.together()
            outcomes.append(attempt(operation, ns, member.index, name))
        return outcomes


def race_on_new_roots(
    member: Member, roots: list[Root], mode: str, operation: Callable[..., Any], name: str
) -> list[Outcome]:
    """Perform `operation` on one name in each root, each time with a new client."""
    outcomes = []
    for root in roots:
        with open_client(root, mode) as ns:
            member.together()
            outcomes.append(attempt(operation, ns, member.index, name))
    return outcomes


# Operations. Arguments: a client, the member's number, and a name whose levels are joined by "$".


def create_own_rows(ns: Any, index: int, name: str, **options: Any) -> None:
    create_table(ns, *name.split("$"), data=ipc({"who": [index] * ROWS}), **options)


def create_own_rows_if_absent(ns: Any, index: int, name: str) -> None:
    create_own_rows(ns, index, name, mode="exist_ok")


def create_or_overwrite(ns: Any, index: int, name: str) -> None:
    create_own_rows(ns, index, name, mode="overwrite")


def create_name_of_own(ns: Any, index: int, name: str) -> None:
    create_own_rows(ns, index, f"{name}_{index}")


def declare(ns: Any, _: int, name: str) -> None:
    declare_table(ns, *name.split("$"))


def declare_at_one_location(ns: Any, index: int, name: str) -> None:
    declare_table(ns, f"{name}_{index}", location=f"shared/{name}")


def drop(ns: Any, _: int, name: str) -> None:
    remove_table(ns, *name.split("$"))


def soft_drop(ns: Any, _: int, name: str) -> None:
    drop_table(ns, *name.split("$"))


def purge(ns: Any, _: int, name: str) -> None:
    ns.purge_table(name.split("$"), force=True)


def undrop(ns: Any, _: int, name: str) -> None:
    ns.undrop_table(name.split("$"))


def make_namespace(ns: Any, index: int, name: str) -> None:
    create_namespace(ns, *name.split("$"), properties={"who": str(index)})


def make_namespace_if_absent(ns: Any, index: int, name: str) -> None:
    create_namespace(ns, *name.split("$"), properties={"who": str(index)}, mode="exist_ok")


def make_same_namespace(ns: Any, _: int, name: str) -> None:
    create_namespace(ns, *name.split("$"))


def unmake_namespace(ns: Any, _: int, name: str) -> None:
    drop_namespace(ns, *name.split("$"))


def create_child_or_drop_parent(ns: Any, index: int, name: str) -> None:
    if index % 4 == 0:
        create_table(ns, name, f"table_{index}")
    elif index % 4 == 1:
        declare_table(ns, name, f"declared_{index}")
    elif index % 4 == 2:
        create_namespace(ns, name, f"child_{index}")
    else:
        drop_namespace(ns, name)


def create_table_or_namespace(ns: Any, index: int, name: str) -> None:
    if index % 2:
        create_namespace(ns, name)
    else:
        create_own_rows(ns, index, name)


def rename_own_to_one_target(ns: Any, index: int, name: str) -> None:
    rename_table(ns, f"{name}_from_{index}", to=name)


def rename_one_to_own_target(ns: Any, index: int, name: str) -> None:
    rename_table(ns, name, to=f"{name}_to_{index}")


def register_one_location(ns: Any, index: int, name: str) -> None:
    register_table(ns, f"{name}_as_{index}", location=f"found/{name}")


def rename_or_create(ns: Any, index: int, name: str) -> None:
    if index % 2:
        rename_table(ns, f"{name}_from_{index}", to=name)
    else:
        create_own_rows(ns, index, name)


def drop_or_create(ns: Any, index: int, name: str) -> None:
    if index % 2:
        drop_table(ns, *name.split("$"), ttl="0")
    else:
        create_own_rows(ns, index, name)


def deregister(ns: Any, _: int, name: str) -> None:
    deregister_table(ns, *name.split("$"))


def register_again(ns: Any, _: int, name: str) -> None:
    register_table(ns, name, location=f"{name}.lance")


def rename_to_other(ns: Any, _: int, name: str) -> None:
    rename_table(ns, name, to="other")


def rename_aside(ns: Any, _: int, name: str) -> None:
    rename_table(ns, name, to=f"{name}_aside")


def migrate(ns: Any, _: int, __: str) -> None:
    ns.migrate_to_manifest()


# Children that are killed or stopped


def die_at(root: Root, mode: str, point: Point, operation: Callable[..., Any], name: str) -> Outcome:
    """Perform `operation` and be killed at the point."""
    with open_client(root, mode) as ns:
        read_catalog(ns)
        strike_at(point, signal.SIGKILL)
        return attempt(operation, ns, 1, name)


def die_after_calls(root: Root, mode: str, count: int, operation: Callable[..., Any], name: str) -> Outcome:
    """Perform `operation` and be killed when `count` functions of Pennon have been entered."""
    with open_client(root, mode) as ns:
        read_catalog(ns)
        strike_after_calls(count, signal.SIGKILL)
        return attempt(operation, ns, 1, name)


def measure_calls(root: Root, mode: str, operation: Callable[..., Any], name: str) -> int:
    """Return the number of functions of Pennon that `operation` enters."""
    with open_client(root, mode) as ns:
        read_catalog(ns)
        return count_calls(operation, ns, 1, name)


def stop_at(root: Root, mode: str, point: Point, operation: Callable[..., Any], name: str) -> Outcome:
    """Perform `operation` and be stopped at the point. Returns the outcome after the process was resumed."""
    with open_client(root, mode) as ns:
        read_catalog(ns)
        strike_at(point, signal.SIGSTOP)
        return attempt(operation, ns, 1, name)


def stop_past_lease(root: Root, mode: str, point: Point, operation: Callable[..., Any], name: str) -> Outcome:
    """Perform `operation` with a claim whose lease expires at once, and be stopped at the point."""
    leased = Marker.with_lease

    def leased_for_no_time(marker: Marker, state: str, what: str, _: float = 0.0) -> Marker:
        return leased(marker, state, what, 0.0)

    Marker.with_lease = leased_for_no_time
    # A stopped process does not know that its lease has expired.
    Claim.seconds_left = lambda _: 30.0
    return stop_at(root, mode, point, operation, name)


def stop_without_a_fence(root: Root, mode: str, point: Point, operation: Callable[..., Any], name: str) -> Outcome:
    """Do the same with unconditional, untimed deletions, to show that the fence is necessary."""

    def delete_plainly(store: ObjectStore, entry: Any, _: float) -> str:
        store.delete(entry.key.removeprefix(f"{store._prefix}/"))
        return "gone"

    ObjectStore._delete_in_time = delete_plainly
    return stop_past_lease(root, mode, point, operation, name)


def stop_without_a_burnt_version(
    root: Root, mode: str, point: Point, operation: Callable[..., Any], name: str
) -> Outcome:
    """Do the same as `stop_past_lease` without strict commits, to show that they are necessary."""
    commit = writing.LanceDataset.commit

    class Lenient(writing.LanceDataset):
        @staticmethod
        def commit(*arguments: Any, **options: Any) -> Any:
            return commit(*arguments, **{**options, "max_retries": 5})

    writing.LanceDataset = Lenient
    return stop_past_lease(root, mode, point, operation, name)


def clean_after_stop(root: Root, point: Point) -> None:
    """Run one round of upkeep and be stopped at the point."""
    strike_at(point, signal.SIGSTOP)
    store = open_store(root.uri, root.options)
    Upkeep(store.location(layout.MANIFEST), store)._run_round(only_if_neglected=False)


def list_after_stop(root: Root, mode: str, point: Point) -> tuple[list[str] | None, list[str]]:
    """List namespaces, be stopped at the point, and list them again. The first result is None if it fails."""
    with open_client(root, mode) as ns:
        read_catalog(ns)
        strike_at(point, signal.SIGSTOP)
        try:
            first = list_namespaces(ns)
        except LanceNamespaceError:
            first = None
        return first, list_namespaces(ns)


# Longer operations of one member


def live(member: Member, root: Root, mode: str, rounds: int) -> list[Outcome]:
    """Create and drop objects of this member at the same time as all others."""
    from tests.concurrency.lives import live as live_here  # imports this module

    with open_client(root, mode) as ns:
        return live_here(ns, root, mode, f"process{member.index}", rounds)


def create_and_drop_or_list(member: Member, root: Root, mode: str, rounds: int) -> list[list[str]]:
    """Create and drop tables, or, as the first member, list them repeatedly. Returns the listings."""
    with open_client(root, mode) as ns:
        read_catalog(ns)
        member.together()
        listings: list[list[str]] = []
        for number in range(rounds):
            if member.index < 2:
                listings.append(list_tables(ns))
                continue
            name = f"passing_{member.index}_{number}"
            create_table(ns, name)
            remove_table(ns, name)
        return listings


@dataclass
class Account:
    """The outcomes of one writer: what must exist at the end, what must not, and what failed."""

    made: dict[str, str]
    unmade: list[str]
    failed: list[Outcome]


def write_beside_others(member: Member, root: Root, mode: str, kinds: list[str], rounds: int) -> Account:
    """Create namespaces and tables, and drop every third one, among clients of both kinds."""
    account = Account({}, [], [])
    if member.index >= len(kinds):
        member.together()
        return account
    kind = kinds[member.index]
    with open_client(root, mode, kind) as ns:
        list_namespaces(ns)
        member.together()
        for number in range(rounds):
            name = f"{kind}_{member.index}_{number}"
            _account(account, name, attempt(create_namespace, ns, name, properties={"who": name}))
            table = f"{name}$t"
            rows = ipc({"who": [table]})
            if name in account.made:
                _account(account, table, attempt(create_table, ns, name, "t", data=rows))
            if table in account.made and number % 3 == 0:
                told = attempt(remove_table, ns, name, "t")
                if told.acknowledged:
                    del account.made[table]
                    account.unmade.append(table)
                else:
                    account.failed.append(told)
                    account.made.pop(table)
    return account


def _account(account: Account, name: str, told: Outcome) -> None:
    if told.acknowledged:
        account.made[name] = name
    else:
        account.failed.append(told)


def race_of_both_kinds(member: Member, root: Root, mode: str, kinds: list[str], names: list[str]) -> list[Outcome]:
    """Create each namespace at the same moment as all other members, with clients of both kinds."""
    outcomes = []
    with open_client(root, mode, kinds[member.index % len(kinds)]) as ns:
        list_namespaces(ns)
        for name in names:
            member.together()
            outcomes.append(attempt(make_namespace, ns, member.index, name))
    return outcomes
