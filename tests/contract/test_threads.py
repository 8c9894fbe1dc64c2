"""One namespace used from many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lance_namespace.errors import LanceNamespaceError

from pennon.testing import Threads
from tests.contract.disk import OnDisk, contents, directory, rows
from tests.support import (
    create_table,
    describe_table,
    ipc,
    list_tables,
    remove_table,
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


class TestThreads(OnDisk, Threads):
    pass


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


def test_exactly_one_thread_drops_a_table(place):
    ns, parent = place
    create_table(ns, *parent, "t")
    outcomes = run_together([lambda: remove_table(ns, *parent, "t")] * THREADS)
    assert len([outcome for outcome in outcomes if not isinstance(outcome, int)]) == 1
    assert {outcome for outcome in outcomes if isinstance(outcome, int)} <= {4, 14}
    assert list_tables(ns, *parent) == []
    assert not [path for path in contents(ns) if not path.startswith("__manifest/")]
