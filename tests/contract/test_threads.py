"""One namespace used from many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lance_namespace.errors import LanceNamespaceError

from tests.contract.disk import contents, directory, rows
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    describe_table,
    ipc,
    list_namespaces,
    list_tables,
    remove_table,
    rename_table,
)

THREADS = 8


def run_together(calls):
    """Run the calls in threads and give the result or the error code of each."""

    def outcome(call):
        try:
            return call()
        except LanceNamespaceError as error:
            return int(error.code)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(outcome, calls))


def test_threads_create_different_tables(place):
    ns, parent = place
    names = [f"t{number:02}" for number in range(16)]
    made = run_together(
        [lambda name=name: create_table(ns, *parent, name, data=ipc({"x": [int(name[1:])]})) for name in names]
    )
    assert [answer.version for answer in made] == [1] * 16
    assert list_tables(ns, *parent) == names
    for number, name in enumerate(names):
        assert rows(describe_table(ns, *parent, name).location) == [number]


def test_exactly_one_thread_creates_a_table(place):
    ns, parent = place
    for name in [f"t{number}" for number in range(5)]:
        outcomes = run_together(
            [lambda n=n, name=name: create_table(ns, *parent, name, data=ipc({"x": [n]})) for n in range(THREADS)]
        )
        won = [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, int)]
        assert len(won) == 1
        assert {outcome for outcome in outcomes if isinstance(outcome, int)} <= {5, 14}
        assert rows(describe_table(ns, *parent, name).location) == won
    assert len(list_tables(ns, *parent)) == 5
    tables = [path for path in directory(ns).iterdir() if path.is_dir() and not path.name.startswith((".", "__"))]
    assert len(tables) == 5


def test_exactly_one_thread_declares_a_table(place):
    ns, parent = place
    outcomes = run_together([lambda: declare_table(ns, *parent, "t")] * THREADS)
    assert len([outcome for outcome in outcomes if not isinstance(outcome, int)]) == 1
    assert {outcome for outcome in outcomes if isinstance(outcome, int)} <= {5, 14}
    assert list_tables(ns, *parent) == ["t"]


def test_exactly_one_thread_drops_a_table(place):
    ns, parent = place
    create_table(ns, *parent, "t")
    outcomes = run_together([lambda: remove_table(ns, *parent, "t")] * THREADS)
    assert len([outcome for outcome in outcomes if not isinstance(outcome, int)]) == 1
    assert {outcome for outcome in outcomes if isinstance(outcome, int)} <= {4, 14}
    assert list_tables(ns, *parent) == []
    assert not [path for path in contents(ns) if not path.startswith("__manifest/")]


def test_exactly_one_thread_renames_a_table(nested):
    create_namespace(nested, "a")
    for names in (["t"], ["a", "t"]):
        create_table(nested, *names, data=ipc({"x": [1]}))
        outcomes = run_together([lambda n=n: rename_table(nested, *names, to=f"new{n}") for n in range(THREADS)])  # noqa: B023
        won = [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, int)]
        assert len(won) == 1
        assert {outcome for outcome in outcomes if isinstance(outcome, int)} <= {4, 14}
        assert list_tables(nested, *names[:-1]) == [f"new{won[0]}"]
        assert rows(describe_table(nested, *names[:-1], f"new{won[0]}").location) == [1]


def test_exactly_one_thread_creates_a_namespace(nested):
    outcomes = run_together([lambda: create_namespace(nested, "a")] * THREADS)
    assert sorted(str(outcome) for outcome in outcomes if isinstance(outcome, int)) == ["2"] * (THREADS - 1)
    assert list_namespaces(nested) == ["a"]


def test_child_is_never_left_without_its_parent(nested):
    for number in range(6):
        parent = f"p{number}"
        create_namespace(nested, parent)
        outcomes = run_together(
            [
                lambda parent=parent: nested.drop_namespace({"id": [parent]}),
                lambda parent=parent: create_table(nested, parent, "t"),
                lambda parent=parent: create_namespace(nested, parent, "n"),
            ]
        )
        if parent in list_namespaces(nested):
            assert outcomes[0] == 3
            assert list_tables(nested, parent) + list_namespaces(nested, parent)
        else:
            assert outcomes[1:] == [1, 1]


def test_readers_see_every_stable_table_during_other_changes(place):
    ns, parent = place
    for name in ("stays1", "stays2"):
        create_table(ns, *parent, name)

    def come_and_go(name):
        for _ in range(4):
            create_table(ns, *parent, name)
            remove_table(ns, *parent, name)

    def look():
        seen = [set(list_tables(ns, *parent)) for _ in range(20)]
        describe_table(ns, *parent, "stays1", load_detailed_metadata=True)
        return all({"stays1", "stays2"} <= names for names in seen)

    outcomes = run_together([*(lambda name=name: come_and_go(name) for name in ("x", "y", "z")), *[look] * 4])
    assert outcomes[3:] == [True] * 4
    assert outcomes[:3] == [None] * 3
    assert list_tables(ns, *parent) == ["stays1", "stays2"]
