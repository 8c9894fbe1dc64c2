"""A slow commit, or an idle client, while Pennon makes many commits and removes old versions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from lance.namespace import DirectoryNamespace as ReferenceNamespace

from tests.concurrency import workers
from tests.concurrency.places import versions
from tests.concurrency.slow_s3 import PATIENCE, SlowS3
from tests.support import MODES, Root, create_namespace, fails, list_namespaces

pytestmark = [pytest.mark.concurrency, pytest.mark.s3]

COMMITS = 48


@pytest.fixture(scope="module")
def server():
    with SlowS3() as running:
        yield running


@pytest.fixture
def root(server, request):
    return Root(server.endpoint.uri(request.node.name.replace("[", "-").rstrip("]")), server.endpoint.storage_options())


def commit_slowly(server, client, ns):
    """Create a namespace by `client` whose commit waits until `ns` has made many, and return the outcome."""
    list_namespaces(client)
    server.hold_next_commit()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(workers.attempt, create_namespace, client, "slow")
        assert server.held.wait(PATIENCE)
        for number in range(COMMITS):
            create_namespace(ns, f"n{number:02}")
        ns.close()
        server.let_go.set()
        return slow.result()


def expect_no_loss(root, open_namespace, told):
    expected = {f"n{number:02}" for number in range(COMMITS)} | ({"slow"} if told.acknowledged else set())
    missing = expected - set(list_namespaces(open_namespace(root, "v2")))
    assert not missing, f"acknowledged and lost: {sorted(missing)}"


def test_slow_commit_of_pennon_is_in_the_latest_version_or_reported(server, root, open_namespace):
    ns, slow = open_namespace(root, "v2"), open_namespace(root, "v2")
    create_namespace(ns, "before")
    held = versions(root)[-1]
    told = commit_slowly(server, slow, ns)
    assert told.acknowledged or told.code == 14, told
    expect_no_loss(root, open_namespace, told)
    assert len([version for version in versions(root) if version <= held + 24]) < 24


def test_idle_clients_of_pennon_see_all_commits(root, open_namespace):
    ns, reader, writer = (open_namespace(root, "v2") for _ in range(3))
    create_namespace(ns, "before")
    assert list_namespaces(reader) == list_namespaces(writer) == ["before"]
    held = versions(root)[-1]
    for number in range(COMMITS):
        create_namespace(ns, f"n{number:02}")
    ns.close()
    assert held + 1 not in versions(root)
    expected = ["before", *(f"n{number:02}" for number in range(COMMITS))]
    assert list_namespaces(reader) == expected
    with fails(2):
        create_namespace(writer, "n07")
    create_namespace(reader, "later")
    assert list_namespaces(writer) == list_namespaces(open_namespace(root, "v2")) == sorted([*expected, "later"])


@pytest.mark.soak
@pytest.mark.interop
def test_slow_commit_of_a_known_reference_client_is_kept(server, root, open_namespace):
    ns, reference = open_namespace(root, "v2"), ReferenceNamespace(**root.properties, **MODES["v2"])
    create_namespace(ns, "before")
    create_namespace(reference, "also before")
    told = commit_slowly(server, reference, ns)
    expect_no_loss(root, open_namespace, told)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="docs/adr/0003: a first commit of another client that takes longer than 24 of ours goes into a cleaned gap",
)
@pytest.mark.interop
def test_slow_first_commit_of_a_reference_client_is_kept(server, root, open_namespace):
    ns, reference = open_namespace(root, "v2"), ReferenceNamespace(**root.properties, **MODES["v2"])
    create_namespace(ns, "before")
    told = commit_slowly(server, reference, ns)
    expect_no_loss(root, open_namespace, told)
