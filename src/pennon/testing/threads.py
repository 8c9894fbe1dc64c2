"""One namespace used from many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from lance_namespace.errors import LanceNamespaceError

from pennon.testing.calls import (
    create_namespace,
    create_table,
    declare_table,
    describe_table,
    drop_namespace,
    ipc,
    list_namespaces,
    list_tables,
    remove_table,
    rename_table,
)
from pennon.testing.contract import Contract, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

THREADS = 8


def _run_together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run the calls in threads, and return the result or the error code of each."""

    def outcome(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except LanceNamespaceError as error:
            return int(error.code)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(outcome, calls))


class Threads(Contract):
    """One namespace used from many threads."""

    def test_threads_create_different_tables(self, place: Place) -> None:
        ns, parent = place
        names = [f"t{number:02}" for number in range(16)]
        made = _run_together(
            [partial(create_table, ns, *parent, name, data=ipc({"x": [int(name[1:])]})) for name in names]
        )
        assert [answer.version for answer in made] == [1] * 16
        assert list_tables(ns, *parent) == names
        for number, name in enumerate(names):
            assert self.rows(describe_table(ns, *parent, name).location) == [number]

    def test_exactly_one_thread_declares_a_table(self, place: Place) -> None:
        ns, parent = place
        outcomes = _run_together([lambda: declare_table(ns, *parent, "t")] * THREADS)
        assert len([outcome for outcome in outcomes if not isinstance(outcome, int)]) == 1
        assert {outcome for outcome in outcomes if isinstance(outcome, int)} <= {5, 14}
        assert list_tables(ns, *parent) == ["t"]

    def test_exactly_one_thread_renames_a_table(self, nested: Any) -> None:
        create_namespace(nested, "a")
        for names in (["t"], ["a", "t"]):
            create_table(nested, *names, data=ipc({"x": [1]}))
            outcomes = _run_together([partial(rename_table, nested, *names, to=f"new{n}") for n in range(THREADS)])
            won = [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, int)]
            assert len(won) == 1
            assert {outcome for outcome in outcomes if isinstance(outcome, int)} <= {4, 14}
            assert list_tables(nested, *names[:-1]) == [f"new{won[0]}"]
            assert self.rows(describe_table(nested, *names[:-1], f"new{won[0]}").location) == [1]

    def test_exactly_one_thread_creates_a_namespace(self, nested: Any) -> None:
        outcomes = _run_together([lambda: create_namespace(nested, "a")] * THREADS)
        assert sorted(str(outcome) for outcome in outcomes if isinstance(outcome, int)) == ["2"] * (THREADS - 1)
        assert list_namespaces(nested) == ["a"]

    def test_child_is_never_left_without_its_parent(self, nested: Any) -> None:
        for number in range(6):
            parent = f"p{number}"
            create_namespace(nested, parent)
            outcomes = _run_together(
                [
                    partial(drop_namespace, nested, parent),
                    partial(create_table, nested, parent, "t"),
                    partial(create_namespace, nested, parent, "n"),
                ]
            )
            if parent in list_namespaces(nested):
                assert outcomes[0] == 3
                assert list_tables(nested, parent) + list_namespaces(nested, parent)
            else:
                assert outcomes[1:] == [1, 1]

    def test_readers_see_every_stable_table_during_other_changes(self, place: Place) -> None:
        ns, parent = place
        for name in ("stays1", "stays2"):
            create_table(ns, *parent, name)

        def come_and_go(name: str) -> None:
            for _ in range(4):
                create_table(ns, *parent, name)
                remove_table(ns, *parent, name)

        def look() -> bool:
            seen = [set(list_tables(ns, *parent)) for _ in range(20)]
            describe_table(ns, *parent, "stays1", load_detailed_metadata=True)
            return all({"stays1", "stays2"} <= names for names in seen)

        outcomes = _run_together([*(partial(come_and_go, name) for name in ("x", "y", "z")), *[look] * 4])
        assert outcomes[3:] == [True] * 4
        assert outcomes[:3] == [None] * 3
        assert list_tables(ns, *parent) == ["stays1", "stays2"]
