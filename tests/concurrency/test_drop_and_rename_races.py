"""Eight processes that drop, rename and register tables at the same moment."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from pennon.directory.markers import claim
from tests.concurrency import workers
from tests.concurrency.places import column, entries, location
from tests.concurrency.rounds import CONFLICT, EXISTS, MISSING, by_name, expect_codes, winner
from tests.support import create_namespace, create_table, drop_table, fails, ipc, list_tables

pytestmark = pytest.mark.concurrency

NAMES = [f"t{number}" for number in range(10)]
WRONG = 13


@pytest.fixture(params=["v2", "compatibility"])
def manifest_mode(request):
    return request.param


def test_one_of_eight_drops_of_a_table_succeeds(crew, disk, mode, open_namespace):
    ns = open_namespace(disk, mode)
    for name in NAMES:
        create_table(ns, name)
    results = crew.run(workers.race, disk, mode, workers.drop, NAMES)
    for _, outcomes in by_name(NAMES, results):
        winner(outcomes, losers_get={MISSING, CONFLICT})
    assert list_tables(ns) == []
    assert entries(disk) == set()


def test_one_of_eight_drops_succeeds_in_a_namespace(crew, disk, open_namespace):
    ns = open_namespace(disk)
    create_namespace(ns, "space")
    names = [f"space${name}" for name in NAMES]
    for name in NAMES:
        create_table(ns, "space", name)
    results = crew.run(workers.race, disk, "compatibility", workers.drop, names)
    for _, outcomes in by_name(names, results):
        winner(outcomes, losers_get={MISSING, CONFLICT})
    assert list_tables(ns, "space") == []
    assert entries(disk) == set()


def test_drops_and_creations_of_one_name_leave_a_complete_table_or_none(crew, disk, mode, open_namespace):
    ns = open_namespace(disk, mode)
    for name in NAMES:
        create_table(ns, name, data=ipc({"who": [-1] * workers.ROWS}))
    results = crew.run(workers.race, disk, mode, workers.drop_or_create, NAMES)
    for name, outcomes in by_name(NAMES, results):
        expect_codes(outcomes, {MISSING, EXISTS, CONFLICT})
        drops = sum(told.acknowledged for told in outcomes[1::2])
        creations = [index for index in range(0, crew.size, 2) if outcomes[index].acknowledged]
        there = name in list_tables(ns)
        assert 1 + len(creations) - drops == int(there), outcomes
        if there:
            (who,) = set(column(disk, ns, name))
            assert who in creations or drops == 0
    assert ns.purge_tables().failed == []
    assert entries(disk) == {location(disk, ns, name) for name in list_tables(ns)}


def test_one_of_eight_renames_to_one_name_succeeds(crew, disk, manifest_mode, open_namespace):
    ns = open_namespace(disk, manifest_mode)
    names = NAMES[:5]
    for name in names:
        for index in range(crew.size):
            create_table(ns, f"{name}_from_{index}", data=ipc({"who": [index] * workers.ROWS}))
    results = crew.run(workers.race, disk, manifest_mode, workers.rename_own_to_one_target, names)
    expected = []
    for name, outcomes in by_name(names, results):
        won = winner(outcomes, losers_get={EXISTS, CONFLICT})
        assert column(disk, ns, name) == [won] * workers.ROWS
        losers = [index for index in range(crew.size) if index != won]
        for index in losers:
            assert column(disk, ns, f"{name}_from_{index}") == [index] * workers.ROWS
        expected += [name, *(f"{name}_from_{index}" for index in losers)]
    assert list_tables(ns) == sorted(expected)


def test_one_of_eight_renames_of_a_table_succeeds(crew, disk, manifest_mode, open_namespace):
    ns = open_namespace(disk, manifest_mode)
    for name in NAMES:
        create_table(ns, name, data=ipc({"who": [name]}))
    results = crew.run(workers.race, disk, manifest_mode, workers.rename_one_to_own_target, NAMES)
    expected = []
    for name, outcomes in by_name(NAMES, results):
        won = winner(outcomes, losers_get={MISSING, CONFLICT})
        assert column(disk, ns, f"{name}_to_{won}") == [name]
        expected.append(f"{name}_to_{won}")
    assert list_tables(ns) == sorted(expected)


def test_one_rename_or_one_creation_gets_a_name(crew, disk, manifest_mode, open_namespace):
    ns = open_namespace(disk, manifest_mode)
    for name in NAMES:
        for index in range(1, crew.size, 2):
            create_table(ns, f"{name}_from_{index}", data=ipc({"who": [index] * workers.ROWS}))
    results = crew.run(workers.race, disk, manifest_mode, workers.rename_or_create, NAMES)
    for name, outcomes in by_name(NAMES, results):
        won = winner(outcomes, losers_get={EXISTS, CONFLICT})
        assert column(disk, ns, name) == [won] * workers.ROWS
        kept = {f"{name}_from_{index}" for index in range(1, crew.size, 2) if index != won}
        assert {table for table in list_tables(ns) if table.startswith(f"{name}_from")} == kept
    markers = {entry for entry in entries(disk) if entry.endswith(".deregistered")}
    assert entries(disk) - markers == {location(disk, ns, table) for table in list_tables(ns)}


def test_one_of_eight_registrations_of_a_location_succeeds(crew, disk, manifest_mode, open_namespace):
    for name in NAMES:
        lance.write_dataset(pa.table({"who": [name]}), f"{disk.uri}/found/{name}")
    results = crew.run(workers.race, disk, manifest_mode, workers.register_one_location, NAMES)
    ns = open_namespace(disk, manifest_mode)
    expected = []
    for name, outcomes in by_name(NAMES, results):
        won = winner(outcomes, losers_get={EXISTS, WRONG, CONFLICT})
        assert column(disk, ns, f"{name}_as_{won}") == [name]
        expected.append(f"{name}_as_{won}")
    assert list_tables(ns) == sorted(expected)
    assert entries(disk) == {"found"}


@pytest.mark.parametrize("mode", ["v1", "compatibility"])
def test_drop_of_a_table_that_is_purged_at_the_same_time_succeeds(disk, mode, open_namespace, monkeypatch):
    ns, other = open_namespace(disk, mode), open_namespace(disk, mode)
    create_table(ns, "t")
    write = claim.write_if_free

    def write_and_let_others_purge(store, name, wanted):
        written = write(store, name, wanted)
        monkeypatch.undo()
        assert len(other.purge_table(["t"], force=True).tables) == 1
        return written

    monkeypatch.setattr(claim, "write_if_free", write_and_let_others_purge)
    drop_table(ns, "t")
    assert list_tables(ns) == []
    assert entries(disk) == set()


@pytest.mark.parametrize("mode", ["v1", "compatibility"])
def test_drop_of_a_table_that_was_purged_before_finds_nothing(disk, mode, open_namespace, monkeypatch):
    ns, other = open_namespace(disk, mode), open_namespace(disk, mode)
    create_table(ns, "t")
    write = claim.write_if_free

    def write_after_others_purged(store, name, wanted):
        monkeypatch.undo()
        drop_table(other, "t", purge="true")
        return write(store, name, wanted)

    monkeypatch.setattr(claim, "write_if_free", write_after_others_purged)
    with fails(MISSING):
        drop_table(ns, "t")
    assert entries(disk) == set()
