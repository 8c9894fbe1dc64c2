"""Mutations of several threads share commits, and each has its own result."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError

import pytest
from lance_namespace.errors import LanceNamespaceError

from pennon.directory.manifest import history
from pennon.directory.manifest import manifest as manifest_module
from pennon.directory.manifest.commit_queue import CommitQueue
from tests.directory.on_disk import directory, manifest, manifest_rows
from tests.servers import CountingS3
from tests.support import Root, create_namespace, describe_namespace, drop_namespace, fails, list_namespaces

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


def test_waiting_mutations_share_the_next_commit(root, open_namespace):
    ns = open_namespace(root, "v2")
    create_namespace(ns, "first")
    queue = ns._catalog.manifest._queue
    inside, release = threading.Event(), threading.Event()

    def hold(draft):
        inside.set()
        assert release.wait(60)

    with ThreadPoolExecutor(33) as pool:
        held = pool.submit(queue.run, hold)
        assert inside.wait(60)
        before = manifest(ns).version
        waiting = [pool.submit(create_namespace, ns, f"n{n:02}") for n in range(32)]
        while len(queue._waiting) < 32:
            threading.Event().wait(0.001)
        release.set()
        for future in (held, *waiting):
            future.result()
    assert manifest(ns).version == before + 1
    assert list_namespaces(ns) == ["first", *(f"n{n:02}" for n in range(32))]


def test_interrupted_leader_lets_others_commit(root, open_namespace):
    ns = open_namespace(root, "v2")
    create_namespace(ns, "first")
    queue = ns._catalog.manifest._queue
    inside, release = threading.Event(), threading.Event()

    def interrupt(draft):
        inside.set()
        assert release.wait(60)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool:
        leader = pool.submit(queue.run, interrupt)
        assert inside.wait(60)
        other = pool.submit(create_namespace, ns, "second")
        while not queue._waiting:
            threading.Event().wait(0.001)
        release.set()
        with pytest.raises(KeyboardInterrupt):
            leader.result()
        other.result()
    create_namespace(ns, "third")
    assert list_namespaces(ns) == ["first", "second", "third"]


@pytest.mark.s3
@pytest.mark.parametrize("quiet_seconds", [0.0, 600.0])
def test_plans_on_an_outdated_version_run_again(open_namespace, monkeypatch, quiet_seconds):
    monkeypatch.setattr(manifest_module, "_TRUSTED_SECONDS", 600.0)
    monkeypatch.setattr(manifest_module, "_QUIET_SECONDS", quiet_seconds)
    with CountingS3() as server:
        root = Root(server.endpoint.uri("root"), server.endpoint.storage_options())
        ns, other = open_namespace(root, "v2"), open_namespace(root, "v2")
        create_namespace(ns, "first")
        create_namespace(other, "second")
        # The version in memory of each client is outdated now, and trusted.
        with fails(2):
            create_namespace(ns, "second")
        drop_namespace(ns, "second")
        create_namespace(other, "third")
        create_namespace(ns, "third", "child")
        drop_namespace(other, "first")
        with fails(1):
            drop_namespace(ns, "first")
        assert describe_namespace(other, "third").properties is not None
        create_namespace(ns, "fourth")
        monkeypatch.setattr(manifest_module, "_QUIET_SECONDS", 0.0)
        with server.count() as count:
            create_namespace(ns, "fifth")
        assert count.total == 3, count.summary()
        assert list_namespaces(ns) == list_namespaces(other) == ["fifth", "fourth", "third"]


@pytest.mark.s3
def test_outdated_client_does_not_commit_into_a_gap(open_namespace, monkeypatch):
    monkeypatch.setattr(manifest_module, "_TRUSTED_SECONDS", 600.0)
    monkeypatch.setattr(manifest_module, "_QUIET_SECONDS", 0.0)
    with CountingS3() as server:
        root = Root(server.endpoint.uri("root"), server.endpoint.storage_options())
        idle, busy = open_namespace(root, "v2"), open_namespace(root, "v2")
        create_namespace(idle, "first")
        list_namespaces(idle)  # the next commit is made locally, on the version in memory
        held = idle._catalog.manifest._snapshot.version
        for n in range(48):
            create_namespace(busy, f"n{n:02}")
        busy.close()
        assert held + 1 not in history.list_versions(idle._store)
        create_namespace(idle, "second")
        expected = {"first", "second", *(f"n{n:02}" for n in range(48))}
        assert set(list_namespaces(open_namespace(root, "v2"))) == expected


_HOLDER = """
import sys
from pathlib import Path
from pennon.store.local import LocalStore
with LocalStore(Path(sys.argv[1]), {}).turns.wait("__manifest", 60):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(root, open_namespace):
    """Start a process that has its turn at the manifest of a root, and does not end it."""
    ns = open_namespace(root, "v2")
    create_namespace(ns, "first")
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, ns._store.identity()], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_turn_ends_with_the_process_that_has_it(root, open_namespace, holder, monkeypatch):
    monkeypatch.setattr(manifest_module, "_LONGEST_TURN_SECONDS", 600.0)
    ns = open_namespace(root, "v2")
    list_namespaces(ns)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(create_namespace, ns, "second")
        with pytest.raises(FutureTimeoutError):
            waiting.result(0.2)
        holder.kill()
        waiting.result()
    assert list_namespaces(ns) == ["first", "second"]


def test_stopped_process_delays_others_once(root, open_namespace, holder, monkeypatch):
    monkeypatch.setattr(manifest_module, "_LONGEST_TURN_SECONDS", 60.0)
    waits = []
    wait = threading.Event.wait
    monkeypatch.setattr(threading.Event, "wait", lambda event, seconds=None: waits.append(seconds) or wait(event, 0.1))
    holder.send_signal(signal.SIGSTOP)
    ns = open_namespace(root, "v2")
    list_namespaces(ns)
    for name in ("second", "third", "fourth"):
        create_namespace(ns, name)
    assert waits.count(60.0) == 1
    assert list_namespaces(ns) == ["first", "fourth", "second", "third"]


def test_lock_files_that_are_links_are_not_followed(root, open_namespace, tmp_path):
    ns = open_namespace(root, "v2")
    create_namespace(ns, "first")
    locks = directory(ns) / ".lance-locks"
    locks.mkdir(exist_ok=True)
    for name in ("queue-__manifest", "turn-__manifest"):
        (locks / name).unlink(missing_ok=True)
        (locks / name).symlink_to(tmp_path / "elsewhere")
    create_namespace(ns, "second")
    assert list_namespaces(ns) == ["first", "second"]
    assert not (tmp_path / "elsewhere").exists()


def count_commits_of_a_loop(threads: int, rounds: int) -> int:
    """Return how many commits threads make that do something else together between their mutations."""
    groups = []

    def commit(group):
        groups.append(len(group))
        time.sleep(0.06)
        for mutation in group:
            mutation.result = None

    queue = CommitQueue(commit)
    gate = threading.Barrier(threads)

    def run(number):
        for _ in range(rounds):
            gate.wait()
            time.sleep(0.1 + number * 0.001)  # longer than the commit
            queue.run(lambda _: None)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, range(threads)))
    return len(groups)


def test_threads_that_return_late_but_together_share_a_commit():
    # The first of them waits for the others. A busy machine can only separate them.
    commits = min(count_commits_of_a_loop(8, 5) for _ in range(3))
    assert commits <= 7
