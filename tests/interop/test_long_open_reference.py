"""A reference client that stays open while Pennon makes hundreds of commits and cleans old versions."""

from __future__ import annotations

from contextlib import suppress

import pytest
from lance_namespace.errors import InternalError, LanceNamespaceError

from tests.interop.peers import manifest, reference_client, values
from tests.support import create_namespace, create_table, drop_namespace, ipc, list_namespaces, list_tables

pytestmark = pytest.mark.interop

COMMITS = 200
NAMES = [f"n{number:03}" for number in range(COMMITS)]


@pytest.fixture
def ours(place, open_namespace):
    return open_namespace(place, "v2")


@pytest.fixture
def reference(place):
    return reference_client(place, "v2")


def commit_often(place, open_namespace):
    """Make hundreds of commits, and wait for the cleanup that they cause."""
    ns = open_namespace(place, "v2")
    for name in NAMES:
        create_namespace(ns, name)
    ns.close()


def test_client_that_wrote_before_sees_all_commits(place, ours, reference, open_namespace):
    create_namespace(ours, "first")
    create_namespace(reference, "second")
    commit_often(place, open_namespace)
    assert list_namespaces(reference) == sorted([*NAMES, "first", "second"])
    create_namespace(reference, "third")
    assert list_namespaces(ours) == list_namespaces(reference) == sorted([*NAMES, "first", "second", "third"])
    create_table(reference, "n100", "t", data=ipc({"x": [1]}))
    assert values(ours, "n100", "t") == [1]


def test_client_that_created_the_manifest_sees_all_commits(place, ours, reference, open_namespace):
    create_namespace(reference, "first")
    commit_often(place, open_namespace)
    create_namespace(reference, "second")
    drop_namespace(reference, "n000")
    expected = sorted([*NAMES[1:], "first", "second"])
    assert list_namespaces(ours) == list_namespaces(reference) == expected


def test_lost_write_of_a_reading_client_is_not_acknowledged(place, ours, reference, open_namespace):
    create_namespace(ours, "first")
    assert list_namespaces(reference) == ["first"]
    commit_often(place, open_namespace)
    try:
        create_namespace(reference, "second")
    except LanceNamespaceError:
        expected = sorted([*NAMES, "first"])
    else:
        expected = sorted([*NAMES, "first", "second"])
    assert list_namespaces(ours) == expected
    assert list_namespaces(reference_client(place, "v2")) == expected


def test_reading_client_serves_one_version_and_is_current_after_reopening(place, ours, reference, open_namespace):
    # The client uses its version as the latest while the next number is absent (docs/adr/0003): stale, but complete.
    create_namespace(ours, "first")
    assert list_namespaces(reference) == ["first"]
    commit_often(place, open_namespace)
    everything = sorted([*NAMES, "first"])
    with suppress(InternalError):
        assert list_namespaces(reference) in (["first"], everything)
    assert list_namespaces(reference_client(place, "v2")) == everything


def test_both_clients_alternate_over_hundreds_of_commits(ours, reference):
    for number, name in enumerate(NAMES):
        create_namespace(reference if number % 20 == 0 else ours, name)
    assert list_namespaces(ours) == list_namespaces(reference) == NAMES


def test_a_manifest_of_pennon_alone_stays_small(place, open_namespace):
    commit_often(place, open_namespace)
    assert len(manifest(place).versions()) < 60


def test_reader_of_an_old_version_continues_while_pennon_commits(place, ours):
    create_namespace(ours, "first")
    create_table(ours, "first", "t")
    held = manifest(place)
    for name in NAMES[:20]:
        create_namespace(ours, name)
    assert held.to_table().num_rows == 2
    assert list_tables(ours, "first") == ["t"]
