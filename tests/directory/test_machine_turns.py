"""Processes of one machine take turns at a bucket, and the one that has its turn commits what the others offer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pennon.directory.manifest import manifest as manifest_module
from pennon.directory.manifest.staged_commit import StagedCommit
from pennon.store import open_store
from pennon.store.turns import Turns
from tests.servers import CountingS3
from tests.support import Root, create_namespace, describe_namespace, list_namespaces

CLIENTS = 4


@pytest.fixture
def clients(open_namespace, monkeypatch):
    """Open several clients of one bucket, which queue as processes do, and wait for a turn as long as it takes."""
    monkeypatch.setattr(manifest_module, "_LONGEST_TURN_SECONDS", 600.0)
    with CountingS3() as server:
        root = Root(server.endpoint.uri("root"), server.endpoint.storage_options())
        first = open_namespace(root, "v2")
        create_namespace(first, "first")
        clients = [first, *(open_namespace(root, "v2") for _ in range(CLIENTS - 1))]
        for client in clients:
            list_namespaces(client)
        yield clients


def offers(ns):
    """Return the files of all offers."""
    turns = ns._store.turns
    return [
        path.name
        for path in Path(turns._top, turns._directory).iterdir()
        if not path.name.startswith(("queue", "turn"))
    ]


def version(ns):
    """Return the latest version of the manifest."""
    return ns._catalog.manifest.read(lambda snapshot: snapshot.version)


def run_offered(clients, *calls):
    """Run calls while another process has the turn, and return their results once it has ended its turn."""
    with ThreadPoolExecutor(len(calls)) as pool:
        with clients[0]._store.turns.wait("__manifest", 0) as has_turn:
            assert has_turn
            futures = [pool.submit(call) for call in calls]
            while len([name for name in offers(clients[0]) if name.startswith("offer-")]) < len(calls):
                threading.Event().wait(0.001)
        return [future.result() for future in futures]


@pytest.mark.s3
def test_processes_that_wait_share_a_commit_to_a_bucket(clients):
    before = version(clients[0])
    run_offered(clients, *(lambda n=n: create_namespace(clients[n], f"n{n}") for n in range(CLIENTS)))
    assert version(clients[0]) == before + 1
    for client in clients:
        assert list_namespaces(client) == ["first", *(f"n{n}" for n in range(CLIENTS))]
    assert not offers(clients[0])


@pytest.mark.s3
def test_only_one_process_creates_a_namespace_in_a_bucket(clients):
    with ThreadPoolExecutor(CLIENTS) as pool, clients[0]._store.turns.wait("__manifest", 0):
        futures = [pool.submit(create_namespace, client, "same") for client in clients]
        while len(offers(clients[0])) < CLIENTS:
            threading.Event().wait(0.001)
    outcomes = [future.exception() for future in futures]
    assert sorted(0 if outcome is None else int(outcome.code) for outcome in outcomes) == [0, 2, 2, 2]


@pytest.mark.s3
def test_offers_of_a_commit_that_lost_are_committed_by_the_next(clients, monkeypatch):
    ns, other, elsewhere = clients[:3]
    publish = StagedCommit.publish
    lost = []

    def lose_once(staged):
        if not lost:
            lost.append(staged)
            # A client on another machine, which has no turn here.
            monkeypatch.setattr(elsewhere._store, "turns", Turns("/nonexistent/turns", "none"))
            create_namespace(elsewhere, "between")
        return publish(staged)

    monkeypatch.setattr(StagedCommit, "publish", lose_once)
    results = run_offered(
        clients,
        lambda: create_namespace(ns, "a", properties={"k": "1"}).properties,
        lambda: create_namespace(other, "b", properties={"k": "2"}).properties,
    )
    assert lost
    assert results == [{"k": "1"}, {"k": "2"}]
    assert list_namespaces(clients[3]) == ["a", "b", "between", "first"]
    assert describe_namespace(clients[3], "b").properties == {"k": "2"}
    assert not offers(ns)


def test_processes_with_renewed_credentials_take_turns_together_but_not_with_other_endpoints():
    def lock_files(**options):
        turns = open_store("s3://bucket/root", options).turns
        return turns._top, turns._directory

    first = lock_files(aws_endpoint="http://one", aws_session_token="a")
    assert lock_files(aws_endpoint="http://one", aws_session_token="b") == first
    assert lock_files(aws_endpoint="http://two", aws_session_token="a") != first


def test_directory_that_others_can_write_to_is_not_used(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with Turns(str(shared), "key", must_be_private=True).wait("name", 0) as has_turn:
        assert not has_turn
    assert not list(shared.iterdir())


def test_link_to_a_directory_is_not_used(tmp_path):
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    with Turns(str(tmp_path / "link"), "key", must_be_private=True).wait("name", 0) as has_turn:
        assert not has_turn
    assert not list((tmp_path / "own").iterdir())


def test_private_directory_is_created(tmp_path):
    with Turns(str(tmp_path / "own"), "key", must_be_private=True).wait("name", 0) as has_turn:
        assert has_turn
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
