"""Eight processes that create tables at the same moment."""

from __future__ import annotations

import pytest

from tests.concurrency import workers
from tests.concurrency.places import column, data_files, entries, location
from tests.concurrency.rounds import CONFLICT, EXISTS, all_acknowledged, by_name, winner
from tests.support import create_namespace, declare_table, describe_table, list_tables

pytestmark = pytest.mark.concurrency

NAMES = [f"t{number}" for number in range(10)]


def test_creators_of_distinct_tables_all_succeed(crew, disk, mode, open_namespace):
    all_acknowledged(crew.run(workers.race, disk, mode, workers.create_name_of_own, NAMES))
    ns = open_namespace(disk, mode)
    expected = sorted(f"{name}_{index}" for name in NAMES for index in range(crew.size))
    assert list_tables(ns) == expected
    for name in expected:
        assert set(column(disk, ns, name)) == {int(name.rpartition("_")[2])}
    assert entries(disk) == {location(disk, ns, name) for name in expected}


def test_one_of_eight_creators_of_a_table_wins(crew, disk, mode, open_namespace):
    results = crew.run(workers.race, disk, mode, workers.create_own_rows, NAMES)
    ns = open_namespace(disk, mode)
    for name, outcomes in by_name(NAMES, results):
        won = winner(outcomes, losers_get={EXISTS, CONFLICT})
        assert column(disk, ns, name) == [won] * workers.ROWS
    assert list_tables(ns) == sorted(NAMES)
    expect_only_tables(disk, ns, NAMES)


def test_one_of_eight_creators_of_a_table_in_a_namespace_wins(crew, disk, open_namespace):
    ns = open_namespace(disk)
    create_namespace(ns, "space")
    names = [f"space${name}" for name in NAMES]
    results = crew.run(workers.race, disk, "compatibility", workers.create_own_rows, names)
    for name, outcomes in by_name(names, results):
        won = winner(outcomes, losers_get={EXISTS, CONFLICT})
        assert column(disk, ns, *name.split("$")) == [won] * workers.ROWS
    assert entries(disk) == {location(disk, ns, *name.split("$")) for name in names}


def test_one_of_eight_creators_of_the_first_table_of_a_root_wins(crew, new_roots, mode, open_namespace):
    roots = new_roots(6)
    results = crew.run(workers.race_on_new_roots, roots, mode, workers.create_own_rows, "first")
    for root, outcomes in zip(roots, zip(*results, strict=True), strict=True):
        won = winner(outcomes, losers_get={EXISTS, CONFLICT})
        ns = open_namespace(root, mode)
        assert column(root, ns, "first") == [won] * workers.ROWS
        expect_only_tables(root, ns, ["first"])


def test_eight_first_tables_of_a_root_all_succeed(crew, new_roots, mode, open_namespace):
    roots = new_roots(6)
    all_acknowledged(crew.run(workers.race_on_new_roots, roots, mode, workers.create_name_of_own, "first"))
    for root in roots:
        assert list_tables(open_namespace(root, mode)) == [f"first_{index}" for index in range(crew.size)]


def test_exist_ok_succeeds_for_all_and_creates_one_table(crew, disk, mode, open_namespace):
    results = crew.run(workers.race, disk, mode, workers.create_own_rows_if_absent, NAMES)
    all_acknowledged(results)
    ns = open_namespace(disk, mode)
    for name in NAMES:
        rows = column(disk, ns, name)
        assert len(rows) == workers.ROWS
        assert len(set(rows)) == 1
    expect_only_tables(disk, ns, NAMES)


def test_overwrite_leaves_the_rows_of_one_writer(crew, disk, mode, open_namespace):
    results = crew.run(workers.race, disk, mode, workers.create_or_overwrite, NAMES[:5])
    ns = open_namespace(disk, mode)
    for name, outcomes in by_name(NAMES[:5], results):
        told_yes = {index for index, outcome in enumerate(outcomes) if outcome.acknowledged}
        assert told_yes
        assert {outcome.code for outcome in outcomes} <= {None, CONFLICT}
        rows = column(disk, ns, name)
        assert len(rows) == workers.ROWS
        assert set(rows) <= told_yes
    assert entries(disk) == {location(disk, ns, name) for name in NAMES[:5]}


def test_one_of_eight_creators_fills_a_declared_table(crew, disk, mode, open_namespace):
    ns = open_namespace(disk, mode)
    for name in NAMES:
        declare_table(ns, name)
    results = crew.run(workers.race, disk, mode, workers.create_own_rows, NAMES)
    for name, outcomes in by_name(NAMES, results):
        won = winner(outcomes, losers_get={EXISTS, CONFLICT})
        assert column(disk, ns, name) == [won] * workers.ROWS
        assert describe_table(ns, name, check_declared=True).is_only_declared is False
    expect_only_tables(disk, ns, NAMES)


def test_one_of_eight_declarations_of_a_name_wins(crew, disk, mode, open_namespace):
    results = crew.run(workers.race, disk, mode, workers.declare, NAMES)
    ns = open_namespace(disk, mode)
    for _, outcomes in by_name(NAMES, results):
        winner(outcomes, losers_get={EXISTS, CONFLICT})
    assert list_tables(ns) == sorted(NAMES)
    places = {location(disk, ns, name) for name in NAMES}
    assert entries(disk) == places | {f"{place.removesuffix('.lance')}.declared" for place in places}


def test_one_of_eight_declarations_of_a_location_wins(crew, disk, open_namespace):
    names = NAMES[:5]
    results = crew.run(workers.race, disk, "v2", workers.declare_at_one_location, names)
    ns = open_namespace(disk, "v2")
    won = [f"{name}_{winner(told, losers_get={EXISTS, 13, CONFLICT})}" for name, told in by_name(names, results)]
    assert list_tables(ns) == sorted(won)
    assert all(describe_table(ns, name, check_declared=True).is_only_declared for name in won)


def expect_only_tables(root, ns, names):
    """Check that the root contains the tables' directories, with one data file each, and nothing else."""
    places = {location(root, ns, name) for name in names}
    assert entries(root) == places
    for place in places:
        assert len(data_files(root, place)) == 1
