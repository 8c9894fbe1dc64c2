"""The races on a real S3 server, with fewer rounds: conditional writes of one key may take a second there."""

from __future__ import annotations

import pytest

from tests.concurrency import workers
from tests.concurrency.crew import Child
from tests.concurrency.hooks import CLAIM, COMMIT_DATA, after
from tests.concurrency.places import column, data_files, entries, location
from tests.concurrency.rounds import CONFLICT, EXISTS, MISSING, all_acknowledged, by_name, expect_codes, winner
from tests.support import (
    create_namespace,
    create_table,
    describe_namespace,
    describe_table,
    fails,
    ipc,
    list_namespaces,
    list_tables,
    remove_table,
)

pytestmark = [pytest.mark.concurrency, pytest.mark.s3]

NAMES = ["a", "b"]


def test_creators_of_distinct_tables_all_succeed(crew, bucket, mode, open_namespace):
    all_acknowledged(crew.run(workers.race, bucket, mode, workers.create_name_of_own, NAMES[:1]))
    ns = open_namespace(bucket, mode)
    expected = [f"a_{index}" for index in range(crew.size)]
    assert list_tables(ns) == expected
    for index, name in enumerate(expected):
        assert column(bucket, ns, name) == [index] * workers.ROWS
    assert entries(bucket) == {location(bucket, ns, name) for name in expected}


def test_one_of_eight_creators_of_a_table_wins(crew, bucket, mode, open_namespace):
    results = crew.run(workers.race, bucket, mode, workers.create_own_rows, NAMES)
    ns = open_namespace(bucket, mode)
    for name, outcomes in by_name(NAMES, results):
        won = winner(outcomes, losers_get={EXISTS, CONFLICT})
        assert column(bucket, ns, name) == [won] * workers.ROWS
        assert len(data_files(bucket, location(bucket, ns, name))) == 1
    assert entries(bucket) == {location(bucket, ns, name) for name in NAMES}


def test_one_of_eight_declarations_of_a_name_wins(crew, bucket, mode, open_namespace):
    results = crew.run(workers.race, bucket, mode, workers.declare, NAMES)
    ns = open_namespace(bucket, mode)
    for _, outcomes in by_name(NAMES, results):
        winner(outcomes, losers_get={EXISTS, CONFLICT})
    places = {location(bucket, ns, name) for name in NAMES}
    assert entries(bucket) == places | {f"{place.removesuffix('.lance')}.declared" for place in places}


def test_exist_ok_succeeds_for_all_and_creates_one_table(crew, bucket, mode, open_namespace):
    all_acknowledged(crew.run(workers.race, bucket, mode, workers.create_own_rows_if_absent, NAMES[:1]))
    ns = open_namespace(bucket, mode)
    assert len(set(column(bucket, ns, "a"))) == 1
    assert entries(bucket) == {location(bucket, ns, "a")}


def test_one_of_eight_drops_of_a_table_succeeds(crew, bucket, mode, open_namespace):
    ns = open_namespace(bucket, mode)
    for name in NAMES:
        create_table(ns, name)
    results = crew.run(workers.race, bucket, mode, workers.drop, NAMES)
    for _, outcomes in by_name(NAMES, results):
        winner(outcomes, losers_get={MISSING, CONFLICT})
    assert entries(bucket) == set()


def test_dropped_table_is_gone_and_its_name_is_free(bucket, mode, open_namespace):
    ns = open_namespace(bucket, mode)
    create_table(ns, "a", data=ipc({"who": [1]}))
    remove_table(ns, "a")
    with fails(MISSING):
        describe_table(ns, "a")
    create_table(ns, "a", data=ipc({"who": [2]}))
    assert column(bucket, ns, "a") == [2]


def test_one_of_eight_creators_of_a_namespace_sets_its_properties(crew, bucket, open_namespace):
    results = crew.run(workers.race, bucket, "v2", workers.make_namespace, NAMES)
    ns = open_namespace(bucket, "v2")
    for name, outcomes in by_name(NAMES, results):
        won = winner(outcomes, losers_get={2, CONFLICT})
        assert describe_namespace(ns, name).properties == {"who": str(won)}
    assert list_namespaces(ns) == NAMES


def test_no_child_exists_without_its_parent(crew, bucket, open_namespace):
    ns = open_namespace(bucket, "v2")
    for name in NAMES:
        create_namespace(ns, name)
    results = crew.run(workers.race, bucket, "v2", workers.create_child_or_drop_parent, NAMES)
    left = list_namespaces(ns)
    for name, outcomes in by_name(NAMES, results):
        expect_codes(outcomes, {1, 3, CONFLICT})
        made = {index for index, told in enumerate(outcomes) if told.acknowledged and index % 4 != 3}
        dropped = any(told.acknowledged for told in outcomes[3::4])
        assert bool(made) != dropped, outcomes
        assert (name in left) == bool(made)


def test_one_of_eight_renames_to_one_name_succeeds(crew, bucket, open_namespace):
    ns = open_namespace(bucket, "compatibility")
    for index in range(crew.size):
        create_table(ns, f"a_from_{index}", data=ipc({"who": [index]}))
    results = crew.run(workers.race, bucket, "compatibility", workers.rename_own_to_one_target, ["a"])
    for name, outcomes in by_name(["a"], results):
        won = winner(outcomes, losers_get={EXISTS, CONFLICT})
        assert column(bucket, ns, name) == [won]
    assert len(list_tables(ns)) == crew.size


@pytest.mark.parametrize("point", [after(CLAIM), after(COMMIT_DATA)], ids=str)
@pytest.mark.parametrize("listing_mode", ["v1", "compatibility"])
def test_killed_creation_leaves_a_complete_table_or_none(bucket, listing_mode, open_namespace, point):
    with Child(workers.die_at, bucket, listing_mode, point, workers.create_own_rows, "t") as child:
        child.wait_until_killed()
    ns = open_namespace(bucket, listing_mode)
    seen = workers.attempt(describe_table, ns, "t")
    assert seen.code in {None, MISSING}
    # If the creator died after its commit, the table is visible.
    assert not seen.acknowledged or column(bucket, ns, "t") == [1] * workers.ROWS
    told = workers.attempt(create_table, ns, "t", data=ipc({"who": [2]}))
    assert told.code == EXISTS if seen.acknowledged else told.acknowledged or told.code == EXISTS
    assert column(bucket, ns, "t") == ([2] if told.acknowledged else [1] * workers.ROWS)
    assert entries(bucket) == {"t.lance"}
