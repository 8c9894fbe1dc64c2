"""Processes that wait for their turn on a disk offer their changes to the one that has it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from pennon.directory.manifest import manifest as manifest_module
from pennon.directory.manifest.commit_queue import Mutation
from pennon.directory.manifest.draft import Draft
from pennon.directory.manifest.loaded_snapshot import LoadedSnapshot
from pennon.directory.manifest.offers import apply_offer, list_files
from pennon.directory.manifest.row import NAMESPACE, Row
from pennon.store.turn_offers import FoundOffer
from tests.directory.on_disk import directory, manifest, manifest_rows
from tests.support import create_namespace, describe_namespace, drop_namespace, fails, list_namespaces

CLIENTS = 4


@pytest.fixture
def clients(root, open_namespace):
    """Open several clients of one root, which queue as processes do, and wait for a turn as long as it takes."""
    first = open_namespace(root, "v2")
    create_namespace(first, "first")
    clients = [first, *(open_namespace(root, "v2") for _ in range(CLIENTS - 1))]
    for client in clients:
        list_namespaces(client)
    return clients


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Let no wait for a turn end before its time."""
    monkeypatch.setattr(manifest_module, "_LONGEST_TURN_SECONDS", 600.0)


def offers(ns, state="offer"):
    """Return the files of the offers in a state."""
    return sorted((directory(ns) / ".lance-locks").glob(f"{state}-*"))


def wait_until(condition):
    """Wait until a condition is true."""
    while not condition():
        threading.Event().wait(0.001)


@contextmanager
def offered(clients, *calls):
    """Run calls in threads while another process has the turn. Yields their futures once each has posted an offer."""
    with ThreadPoolExecutor(len(calls)) as pool, ExitStack() as stack:
        stack.enter_context(clients[0]._store.turns.wait("__manifest", 0))
        futures = [pool.submit(call) for call in calls]
        wait_until(lambda: len(offers(clients[0])) == len(calls))
        yield futures


def test_processes_that_wait_share_a_commit(clients):
    before = manifest(clients[0]).version
    with offered(clients, *(lambda n=n: create_namespace(clients[n], f"n{n}") for n in range(CLIENTS))) as futures:
        pass
    for future in futures:
        future.result()
    assert manifest(clients[0]).version == before + 1
    for client in clients:
        assert list_namespaces(client) == ["first", *(f"n{n}" for n in range(CLIENTS))]
    assert not [path for state in ("offer", "taken", "done", "new") for path in offers(clients[0], state)]


def test_each_process_gets_its_own_result(clients):
    ns = clients[0]
    create_namespace(ns, "second", properties={"a": "1"})
    with offered(
        clients,
        lambda: ns.alter_namespace_properties(["first"], {"k": "1"}),
        lambda: create_namespace(clients[1], "n", properties={"p": "2"}).properties,
    ) as futures:
        pass
    assert [future.result() for future in futures] == [{"k": "1"}, {"p": "2"}]
    assert describe_namespace(clients[2], "first").properties == {"k": "1"}


def test_only_one_of_several_processes_creates_a_namespace(clients):
    def create(client):
        try:
            create_namespace(client, "same")
        except Exception as error:  # noqa: BLE001 - its code is compared
            return int(error.code)
        return 0

    with offered(clients, *(lambda client=client: create(client) for client in clients)) as futures:
        pass
    assert sorted(future.result() for future in futures) == [0] + [2] * (CLIENTS - 1)


def test_change_that_no_longer_fits_is_planned_again(clients):
    ns, other = clients[:2]
    create_namespace(ns, "parent")
    list_namespaces(other)
    with (
        ThreadPoolExecutor(1) as pool,
        ns._store.turns.wait("__manifest", 0),
    ):
        late = pool.submit(create_namespace, other, "parent", "child")
        wait_until(lambda: offers(ns))
        # This commit is made without a turn, as by a client that gave up waiting.
        ns._catalog.manifest._commit_plans([Mutation(lambda draft: draft.remove("parent"))])
    with fails(1):
        late.result()
    assert list_namespaces(ns) == ["first"]


def test_client_sees_its_own_change_in_memory(clients):
    ns, other = clients[:2]
    with offered(clients, lambda: create_namespace(ns, "a"), lambda: create_namespace(other, "b")) as futures:
        pass
    for future in futures:
        future.result()
    assert ns._catalog.manifest.peek(lambda snapshot: snapshot.get("a")) is not None
    assert other._catalog.manifest.peek(lambda snapshot: snapshot.get("b")) is not None


def test_offer_that_a_dead_process_took_is_committed_by_its_owner(clients):
    ns, other = clients[:2]
    with offered(clients, lambda: create_namespace(other, "n", properties={"k": "1"})) as futures:
        (path,) = offers(ns)
        path.rename(path.with_name(path.name.replace("offer-", "taken-")))
    assert futures[0].result().properties == {"k": "1"}
    assert list_namespaces(ns) == ["first", "n"]
    assert not offers(ns, "taken")


def test_process_that_dies_after_the_commit_leaves_the_change_once(clients, monkeypatch):
    ns = clients[0]
    before = manifest(ns).version
    monkeypatch.setattr(FoundOffer, "accept", lambda offer: None)
    calls = [lambda n=n: create_namespace(clients[n], f"n{n}") for n in range(CLIENTS)]
    with offered(clients, *calls) as futures:
        pass
    for future in futures:
        future.result()
    assert manifest(ns).version == before + 1
    assert list_namespaces(ns) == ["first", *(f"n{n}" for n in range(CLIENTS))]
    assert not offers(ns, "taken")


@pytest.mark.parametrize("first", ["owner", "taker"])
def test_offer_that_a_stopped_process_took_is_committed_once(clients, monkeypatch, first):
    """The owner gives up waiting. Then both commit, and one of the commits conflicts."""
    taker, owner = clients[:2]
    monkeypatch.setattr(manifest_module, "_LONGEST_TURN_SECONDS", 1.0)
    reached, go_on = threading.Event(), threading.Event()
    try_commit = taker._catalog.manifest._try_commit
    of_owner = owner._catalog.manifest._try_commit
    attempts = []

    def stop(base, plan, taken=()):
        if plan.offers and not reached.is_set():
            reached.set()
            assert go_on.wait(60)
        return try_commit(base, plan, taken)

    def commit_after(base, plan, taken=()):
        attempts.append(plan)
        if first == "taker" and len(attempts) == 1:
            go_on.set()
            wait_until(lambda: manifest(taker).version > base.version)
        return of_owner(base, plan, taken)

    monkeypatch.setattr(taker._catalog.manifest, "_try_commit", stop)
    monkeypatch.setattr(owner._catalog.manifest, "_try_commit", commit_after)
    with ThreadPoolExecutor(2) as pool:
        with taker._store.turns.wait("__manifest", 0):
            late = pool.submit(create_namespace, owner, "offered")
            wait_until(lambda: offers(taker))
            # This thread has the turn, so this commit accepts offers.
            mutation = Mutation(lambda draft: draft.put(Row("own", NAMESPACE)))
            commit = pool.submit(taker._catalog.manifest._commit_plans, [mutation], accepts_offers=True)
            assert reached.wait(60)
            if first == "owner":
                late.result()
                go_on.set()
            commit.result()
        late.result()
    assert mutation.error is None
    assert list_namespaces(clients[2]) == ["first", "offered", "own"]
    assert len(attempts) == 1
    assert not offers(taker, "taken")


_POSTER = """
import sys
from pathlib import Path
from pennon.store.local import LocalStore
posted = LocalStore(Path(sys.argv[1]), {}).turns.post_offer(sys.argv[2].encode())
print(posted is not None, flush=True)
sys.stdin.read()
"""


def planted_offer(ns):
    """Return an offer that fits the version which a client has in memory."""
    content = {
        "format": 1,
        "files": list_files(ns._catalog.manifest._snapshot),
        "questions": [],
        "rows": {"planted": ["planted", "namespace", None, None, None]},
    }
    return json.dumps(content)


@contextmanager
def posting_process(ns, body):
    """Start a process that posts an offer and waits."""
    with subprocess.Popen(
        [sys.executable, "-c", _POSTER, ns._store.identity(), body], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"True\n"
        yield process
        process.kill()


def test_offer_of_a_dead_process_is_deleted(clients):
    ns = clients[0]
    with posting_process(ns, planted_offer(ns)) as process:
        assert len(offers(ns)) == 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        create_namespace(ns, "n")
    assert not offers(ns)
    assert set(manifest_rows(ns)) == {"first", "n"}


def test_offer_of_a_living_process_is_committed_and_accepted(clients):
    ns = clients[0]
    with posting_process(ns, planted_offer(ns)):
        create_namespace(ns, "n")
        assert not offers(ns)
        assert len(offers(ns, "done")) == 1
    assert set(manifest_rows(ns)) == {"first", "n", "planted"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"format":1,"files":["g"],"questions":[],"rows":{"x":["x","namespace",null,null,null]}}',
        '{"format":1,"files":5,"questions":[],"rows":{"x":["x","namespace",null,null,null]}}',
        '{"format":2,"questions":[],"rows":{}}',
        '{"format":1,"files":["f"],"questions":[["row","first",null]],"rows":{"x":["x","namespace",null,null,null]}}',
        '{"format":1,"files":["f"],"questions":[["unknown","first",null]],"rows":{"x":["x","namespace",null,null,null]}}',
        '{"format":1,"files":["f"],"questions":[["row",["first"],null]],"rows":{"x":["x","namespace",null,null,null]}}',
        '{"format":1,"files":["f"],"questions":5,"rows":{"x":["x","namespace",null,null,null]}}',
        '{"format":1,"files":["f"],"questions":[],"rows":{"x":["y","namespace",null,null,null]}}',
        '{"format":1,"files":["f"],"questions":[],"rows":{"x":["x","table","t.lance",null,null]}}',
        '{"format":1,"files":["f"],"questions":[],"rows":{"x":["x","namespace","../t",null,null]}}',
        '{"format":1,"files":["f"],"questions":[],"rows":{"x":["x","namespace",null,{},null]}}',
        '{"format":1,"files":["f"],"questions":[],"rows":{"x":["x","namespace",null,null,["b"]]}}',
        '{"format":1,"files":["f"],"questions":[],"rows":[1]}',
        '{"format":1,"files":["f"],"questions":[],"rows":{"x":["x","namespace",null,"\\ud800",null]}}',
        '{"format":1,"files":["f"],"questions":[],"rows":{"first":null}, "rows":{}}',
    ],
)
def test_offer_that_does_not_fit_changes_nothing(content):
    snapshot = LoadedSnapshot()
    snapshot.put(Row("first", NAMESPACE), (0, 0))
    draft = Draft(snapshot)
    assert not apply_offer(draft, content.encode(), ["f"])
    assert not draft.changes


def test_rows_of_tables_are_not_removed_by_offers():
    snapshot = LoadedSnapshot()
    snapshot.put(Row("t", "table", "t.lance"), (0, 0))
    draft = Draft(snapshot)
    assert not apply_offer(draft, b'{"format":1,"files":["f"],"questions":[],"rows":{"t":null}}', ["f"])
    assert not draft.changes


def test_planted_entries_are_not_taken(clients, tmp_path):
    ns = clients[0]
    locks = directory(ns) / ".lance-locks"
    locks.mkdir(exist_ok=True)
    (tmp_path / "elsewhere").write_text(planted_offer(ns))
    (locks / "offer-link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(locks / "offer-pipe")
    (locks / "offer-directory").mkdir()
    with (locks / "offer-large").open("w") as large:
        large.write(planted_offer(ns) + " " * (64 << 10))
        large.flush()
        fcntl.flock(large, fcntl.LOCK_EX)
        create_namespace(ns, "n")
    assert set(manifest_rows(ns)) == {"first", "n"}
    assert (tmp_path / "elsewhere").exists()


def test_drop_of_a_filled_namespace_is_refused_while_others_wait(clients):
    ns, other = clients[:2]
    create_namespace(ns, "parent")
    list_namespaces(other)
    with ThreadPoolExecutor(2) as pool:
        with ns._store.turns.wait("__manifest", 0):
            inner = pool.submit(create_namespace, other, "parent", "child")
            wait_until(lambda: offers(ns))
        inner.result()
    with fails(3):
        drop_namespace(ns, "parent")
