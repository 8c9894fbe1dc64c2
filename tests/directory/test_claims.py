"""Claims hide a root table while another client creates or purges it; expired claims are settled."""

from __future__ import annotations

import pytest

from pennon.directory.lifecycle import create
from pennon.directory.markers import claim
from pennon.directory.markers.marker import CREATE, LEASE_SECONDS, PURGE, PURGING, REVIVING, Marker
from tests.directory.on_disk import directory, files, manifest_rows, rows, write_table
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    fails,
    ipc,
    list_all_tables,
    list_tables,
    register_table,
    remove_table,
    rename_table,
    table_exists,
)

EXPIRED = -1.0
"""The length of a lease that has already expired."""


def claim_table(ns, name, state, seconds=LEASE_SECONDS):
    """Claim a root table, as another client that creates or purges it does."""
    marker = Marker(state).with_lease(state, CREATE if state == REVIVING else PURGE, seconds)
    e_tag = ns._store.create(f"{name}.deleted", marker.body())
    assert e_tag is not None
    return claim.StoredMarker(name, marker, e_tag)


@pytest.fixture(params=["v1", "compatibility"])
def ns(request, root, open_namespace):
    """Open a root in a mode that lists directories."""
    return open_namespace(root, request.param)


@pytest.mark.parametrize("state", [REVIVING, PURGING])
def test_claimed_table_is_hidden(ns, state):
    create_table(ns, "t")
    create_table(ns, "other")
    claim_table(ns, "t", state)
    assert list_tables(ns) == ["other"]
    assert list_all_tables(ns) == ["other"]
    for call in (describe_table, table_exists, deregister_table):
        with fails(4, naming="t'"):
            call(ns, "t")


@pytest.mark.parametrize("state", [REVIVING, PURGING])
def test_claimed_table_cannot_be_created_or_dropped(ns, state, monkeypatch):
    monkeypatch.setattr(create, "_PATIENCE_SECONDS", 0.2)
    create_table(ns, "t", data=ipc({"x": [1]}))
    held = claim_table(ns, "t", state)
    before = files(ns)
    for mode in ("create", "exist_ok", "overwrite"):
        with fails(14, naming="t'"):
            create_table(ns, "t", mode=mode)
    for call in (remove_table, declare_table):
        with fails(14, naming="t'"):
            call(ns, "t")
    assert files(ns) == before
    assert claim.remove_marker(ns._store, held)
    assert rows(describe_table(ns, "t").location) == [1]


def test_claimed_free_name_cannot_be_created(ns):
    held = claim_table(ns, "t", REVIVING)
    with fails(14, naming="t'"):
        create_table(ns, "t")
    with fails(4):
        describe_table(ns, "t")
    claim.remove_marker(ns._store, held)
    create_table(ns, "t")
    assert list_tables(ns) == ["t"]


def test_claimed_table_cannot_be_registered(root, open_namespace):
    ns = open_namespace(root)
    create_namespace(ns, "a")
    write_table(directory(ns) / "t.lance")
    claim_table(ns, "t", PURGING)
    for names in (["t"], ["a", "u"]):
        for mode in ("create", "overwrite"):
            with fails(13, naming="t.lance"):
                register_table(ns, *names, location="t.lance", mode=mode)


def test_expired_creation_is_settled_by_the_next_creation(ns):
    claim_table(ns, "t", REVIVING, EXPIRED)
    (directory(ns) / "t.lance/data").mkdir(parents=True)
    (directory(ns) / "t.lance/data/half.lance").write_bytes(b"half")
    assert list_tables(ns) == []
    made = create_table(ns, "t", data=ipc({"x": [1]}))
    assert (made.version, rows(made.location)) == (1, [1])
    assert list_tables(ns) == ["t"]
    assert not (directory(ns) / "t.deleted").exists()


def test_expired_purge_is_settled_by_the_next_creation(ns):
    create_table(ns, "t", data=ipc({"x": [1]}))
    claim_table(ns, "t", PURGING, EXPIRED)
    assert list_tables(ns) == []
    made = create_table(ns, "t", data=ipc({"x": [2]}))
    assert (made.version, rows(made.location)) == (1, [2])
    assert list_tables(ns) == ["t"]


def test_expired_purge_is_settled_by_the_next_drop(ns):
    create_table(ns, "t")
    claim_table(ns, "t", PURGING, EXPIRED)
    with fails(4):
        remove_table(ns, "t")
    assert not [path for path in files(ns) if not path.startswith("__manifest/")]
    assert list_tables(ns) == []


def test_expired_purge_without_files_is_settled(root, open_namespace):
    v1, both = open_namespace(root, "v1"), open_namespace(root, "compatibility")
    create_table(both, "t")
    remove_table(v1, "t")
    assert "t" in manifest_rows(both)
    claim_table(both, "t", PURGING, EXPIRED)
    made = create_table(both, "t", data=ipc({"x": [2]}))
    assert rows(made.location) == [2]
    assert list_tables(both) == ["t"]


def test_unreadable_marker_is_reported_and_not_changed(ns):
    create_table(ns, "t", data=ipc({"x": [1]}))
    marker = directory(ns) / "t.deleted"
    for body in (b"x" * 64, b'{"state": "soft", "pad": "' + b"x" * 64 + b'"}'):
        marker.write_bytes(body)
        assert list_tables(ns) == []
        with fails(19, naming="t.deleted"):
            remove_table(ns, "t")
        with fails(19, naming="t.deleted"):
            create_table(ns, "t")
        assert marker.read_bytes() == body
    marker.unlink()
    assert rows(describe_table(ns, "t").location) == [1]


def test_claim_does_not_block_the_name_in_other_namespaces(root, open_namespace):
    ns = open_namespace(root)
    create_namespace(ns, "a")
    claim_table(ns, "t", PURGING)
    create_table(ns, "a", "t")
    rename_table(ns, "a", "t", to="u")
    assert list_all_tables(ns) == ["a$u"]
