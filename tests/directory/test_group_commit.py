"""Mutations of several threads share commits, and each has its own result."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from lance_namespace.errors import LanceNamespaceError

from tests.directory.on_disk import manifest, manifest_rows
from tests.support import create_namespace, describe_namespace, drop_namespace, list_namespaces

THREADS = 16


def run_concurrently(calls):
    """Run all calls at the same time, and return the result or the error code of each."""
    gate = threading.Barrier(len(calls))

    def run(call):
        gate.wait()
        try:
            return call()
        except LanceNamespaceError as error:
            return int(error.code)

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.fixture(params=["v2", "compatibility"])
def ns(request, root, open_namespace):
    """Open a root with one namespace, in a mode that has a manifest."""
    ns = open_namespace(root, request.param)
    create_namespace(ns, "there", properties={"k": "1"})
    return ns


def test_concurrent_mutations_share_commits(ns):
    before = manifest(ns).version
    rounds = 4
    for number in range(rounds):
        outcomes = run_concurrently([lambda n=n: create_namespace(ns, f"r{number}n{n}") for n in range(THREADS)])  # noqa: B023
        assert not [outcome for outcome in outcomes if isinstance(outcome, int)]
    assert manifest(ns).version - before < rounds * THREADS
    expected = {f"r{number}n{n}" for number in range(rounds) for n in range(THREADS)} | {"there"}
    assert set(list_namespaces(ns)) == set(manifest_rows(ns)) == expected


def test_failed_mutation_does_not_fail_the_group(ns):
    calls = [lambda n=n: create_namespace(ns, f"n{n}", properties={"n": str(n)}) for n in range(THREADS)]
    calls[3] = lambda: create_namespace(ns, "there")
    calls[7] = lambda: create_namespace(ns, "missing", "child")
    calls[11] = lambda: drop_namespace(ns, "absent")
    outcomes = run_concurrently(calls)
    assert [outcomes[3], outcomes[7], outcomes[11]] == [2, 1, 1]
    good = [n for n in range(THREADS) if n not in {3, 7, 11}]
    assert [outcomes[n].properties for n in good] == [{"n": str(n)} for n in good]
    assert set(list_namespaces(ns)) == {"there", *(f"n{n}" for n in good)}
    assert describe_namespace(ns, "there").properties == {"k": "1"}


def test_mutation_that_cannot_be_encoded_does_not_fail_the_group(ns):
    for _ in range(3):
        calls = [lambda n=n: create_namespace(ns, f"n{n}", mode="overwrite") for n in range(THREADS)]
        calls[5] = lambda: ns.alter_namespace_properties(["there"], {"k": "\ud800"})
        outcomes = run_concurrently(calls)
        assert outcomes[5] == 13
        assert not [outcome for n, outcome in enumerate(outcomes) if n != 5 and isinstance(outcome, int)]
    assert describe_namespace(ns, "there").properties == {"k": "1"}


def test_one_of_many_equal_mutations_succeeds(ns):
    outcomes = run_concurrently([lambda: create_namespace(ns, "same")] * THREADS)
    assert sorted(outcome for outcome in outcomes if isinstance(outcome, int)) == [2] * (THREADS - 1)
    assert list_namespaces(ns) == ["same", "there"]


def test_mutations_of_one_group_see_each_other(ns):
    for number in range(5):
        parent = f"p{number}"
        outcomes = run_concurrently(
            [
                lambda: create_namespace(ns, parent),  # noqa: B023
                lambda: create_namespace(ns, parent, "child"),  # noqa: B023
                lambda: drop_namespace(ns, parent),  # noqa: B023
            ]
        )
        left = [key for key in manifest_rows(ns) if key.startswith(parent)]
        assert left in ([], [parent], [parent, f"{parent}$child"])
        assert not isinstance(outcomes[0], int)
        assert (f"{parent}$child" in left) == (not isinstance(outcomes[1], int))
        assert (parent in left) == isinstance(outcomes[2], int)


def test_concurrent_property_changes_of_one_row_are_merged(ns):
    outcomes = run_concurrently(
        [lambda n=n: ns.alter_namespace_properties(["there"], {f"k{n}": "v"}) for n in range(THREADS)]
    )
    assert not [outcome for outcome in outcomes if isinstance(outcome, int)]
    assert describe_namespace(ns, "there").properties == {"k": "1", **{f"k{n}": "v" for n in range(THREADS)}}


def test_two_clients_with_many_threads_lose_no_mutation(root, open_namespace):
    clients = [open_namespace(root, "v2"), open_namespace(root, "v2")]
    calls = [lambda n=n: create_namespace(clients[n % 2], f"n{n}") for n in range(32)]
    outcomes = run_concurrently(calls)
    assert not [outcome for outcome in outcomes if isinstance(outcome, int)]
    for client in clients:
        assert set(list_namespaces(client)) == {f"n{n}" for n in range(32)}
    assert len(manifest_rows(clients[0])) == 32
