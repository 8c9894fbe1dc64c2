"""Eight processes that create and drop namespaces at the same moment."""

from __future__ import annotations

import pytest

from tests.concurrency import workers
from tests.concurrency.places import column, entries
from tests.concurrency.rounds import CONFLICT, all_acknowledged, by_name, expect_codes, winner
from tests.support import create_namespace, describe_namespace, list_all_tables, list_namespaces, list_tables

pytestmark = pytest.mark.concurrency

NAMES = [f"n{number}" for number in range(10)]
MISSING_NAMESPACE, NAMESPACE_EXISTS, NOT_EMPTY = 1, 2, 3


@pytest.fixture(params=["v2", "compatibility"])
def manifest_mode(request):
    return request.param


def test_one_of_eight_creators_of_a_namespace_sets_its_properties(crew, disk, manifest_mode, open_namespace):
    results = crew.run(workers.race, disk, manifest_mode, workers.make_namespace, NAMES)
    ns = open_namespace(disk, manifest_mode)
    for name, outcomes in by_name(NAMES, results):
        won = winner(outcomes, losers_get={NAMESPACE_EXISTS, CONFLICT})
        assert describe_namespace(ns, name).properties == {"who": str(won)}
    assert list_namespaces(ns) == sorted(NAMES)


def test_one_of_eight_creators_of_identical_namespaces_wins(crew, disk, open_namespace):
    results = crew.run(workers.race, disk, "v2", workers.make_same_namespace, NAMES)
    for _, outcomes in by_name(NAMES, results):
        winner(outcomes, losers_get={NAMESPACE_EXISTS, CONFLICT})
    assert list_namespaces(open_namespace(disk, "v2")) == sorted(NAMES)


def test_exist_ok_succeeds_for_all_and_creates_one_namespace(crew, disk, manifest_mode, open_namespace):
    all_acknowledged(crew.run(workers.race, disk, manifest_mode, workers.make_namespace_if_absent, NAMES))
    assert list_namespaces(open_namespace(disk, manifest_mode)) == sorted(NAMES)


def test_one_of_eight_creators_of_the_first_namespace_of_a_root_wins(crew, new_roots, open_namespace):
    roots = new_roots(6)
    results = crew.run(workers.race_on_new_roots, roots, "v2", workers.make_namespace, "first")
    for root, outcomes in zip(roots, zip(*results, strict=True), strict=True):
        won = winner(outcomes, losers_get={NAMESPACE_EXISTS, CONFLICT})
        assert describe_namespace(open_namespace(root, "v2"), "first").properties == {"who": str(won)}


def test_one_of_eight_drops_of_a_namespace_succeeds(crew, disk, manifest_mode, open_namespace):
    ns = open_namespace(disk, manifest_mode)
    for name in NAMES:
        create_namespace(ns, name)
    results = crew.run(workers.race, disk, manifest_mode, workers.unmake_namespace, NAMES)
    for _, outcomes in by_name(NAMES, results):
        winner(outcomes, losers_get={MISSING_NAMESPACE, CONFLICT})
    assert list_namespaces(ns) == []


def test_no_child_exists_without_its_parent(crew, disk, manifest_mode, open_namespace):
    ns = open_namespace(disk, manifest_mode)
    for name in NAMES:
        create_namespace(ns, name)
    results = crew.run(workers.race, disk, manifest_mode, workers.create_child_or_drop_parent, NAMES)
    left = list_namespaces(ns)
    for name, outcomes in by_name(NAMES, results):
        expect_codes(outcomes, {MISSING_NAMESPACE, NOT_EMPTY, CONFLICT})
        drops, creations = outcomes[3::4], [told for index, told in enumerate(outcomes) if index % 4 != 3]
        if any(told.acknowledged for told in drops):
            assert name not in left
            assert sum(told.acknowledged for told in drops) == 1
            assert not any(told.acknowledged for told in creations), outcomes
            continue
        made = {index for index, told in enumerate(outcomes) if told.acknowledged}
        assert {int(child.rpartition("_")[2]) for child in list_tables(ns, name) + list_namespaces(ns, name)} == made
        assert made
    assert {key.split("$")[0] for key in list_all_tables(ns)} <= set(left)
    directories = {entry for entry in entries(disk) if not entry.endswith(".declared")}
    assert len(directories) == len(list_all_tables(ns))
    assert entries(disk) - directories <= {f"{entry}.declared" for entry in directories}


def test_name_becomes_a_table_or_a_namespace_but_never_both(crew, disk, manifest_mode, open_namespace):
    results = crew.run(workers.race, disk, manifest_mode, workers.create_table_or_namespace, NAMES)
    ns = open_namespace(disk, manifest_mode)
    tables, namespaces = list_tables(ns), list_namespaces(ns)
    for name, outcomes in by_name(NAMES, results):
        won = winner(outcomes, losers_get={NAMESPACE_EXISTS, 5, CONFLICT})
        assert (name in tables, name in namespaces) == (won % 2 == 0, won % 2 == 1), outcomes
        if won % 2 == 0:
            assert column(disk, ns, name) == [won] * workers.ROWS
    assert len(entries(disk)) == len(tables)
