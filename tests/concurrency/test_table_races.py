"""Eight processes that change one table at the same moment: tags, branches, indexes, columns."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from tests.concurrency import table_workers, workers
from tests.concurrency.rounds import CONFLICT, all_acknowledged, by_name, expect_codes, winner
from tests.support import Root, create_table, ipc

pytestmark = pytest.mark.concurrency

NAMES = [f"n{number}" for number in range(6)]
TAG_EXISTS, BRANCH_EXISTS, INDEX_EXISTS, COLUMN_EXISTS = 9, 23, 7, 20


@pytest.fixture(params=[pytest.param("files", marks=pytest.mark.soak), "rows"])
def table(request, disk, open_namespace):
    """Return a catalog whose table `t` has eight versions, with and without version management."""
    return prepared(disk, open_namespace, managed=request.param == "rows")


def prepared(root, open_namespace, *, managed=False):
    ns = open_namespace(root, "v2")
    if managed:
        ns.enable_table_version_management()
    create_table(ns, "t", data=ipc({"x": [0]}))
    for number in range(1, 8):
        options = root.options or None
        rows = pa.table({"x": [number]})
        lance.write_dataset(rows, namespace_client=ns, table_id=["t"], mode="append", storage_options=options)
    return ns


def race(crew, root: Root, operation, names=NAMES):
    return crew.run(workers.race, root, "v2", operation, names)


def open_table(ns):
    return lance.dataset(namespace_client=ns, table_id=["t"])


def versions(ns):
    return [one.version for one in ns.list_table_versions({"id": ["t"]}).versions]


def test_one_of_eight_creates_a_tag(crew, disk, table):
    results = race(crew, disk, table_workers.create_tag)
    for name, outcomes in by_name(NAMES, results):
        won = winner(outcomes, losers_get={TAG_EXISTS})
        assert table.get_table_tag_version({"id": ["t"], "tag": name}).version == won + 1


def test_one_of_eight_creates_a_branch(crew, disk, table):
    results = race(crew, disk, table_workers.create_branch)
    for name, outcomes in by_name(NAMES, results):
        won = winner(outcomes, losers_get={BRANCH_EXISTS, CONFLICT})
        assert table.list_table_branches({"id": ["t"]}).branches[name].parent_version == won + 1
        found = table.count_table_rows({"id": ["t"], "branch": name}).count
        assert found == won + 1


def test_one_of_eight_creates_an_index(crew, disk, table):
    results = race(crew, disk, table_workers.create_index)
    found = {one.index_name: one for one in table.list_table_indices({"id": ["t"]}).indexes}
    for name, outcomes in by_name(NAMES, results):
        won = winner(outcomes, losers_get={INDEX_EXISTS})
        assert found[name].index_type.upper() == ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER")[won % 4]
        assert found[name].num_segments == 1
    assert versions(table) == list(range(8 + len(NAMES), 0, -1))


def test_one_of_eight_adds_a_column(crew, disk, table):
    results = race(crew, disk, table_workers.add_column)
    rows = open_table(table).to_table()
    for name, outcomes in by_name(NAMES, results):
        won = winner(outcomes, losers_get={COLUMN_EXISTS, CONFLICT})
        assert set(rows[name].to_pylist()) == {won}
    assert rows.num_rows == 8


def test_metadata_of_one_writer_remains(crew, disk, table):
    results = race(crew, disk, table_workers.set_schema_metadata)
    for _, outcomes in by_name(NAMES, results):
        expect_codes(outcomes, {CONFLICT})
        assert any(one.acknowledged for one in outcomes)
    ((key, value),) = open_table(table).schema.metadata.items()
    assert key.decode() == NAMES[-1]
    assert results[int(value)][-1].acknowledged


def test_columns_are_added_during_appends_without_loss(crew, disk, table):
    results = race(crew, disk, table_workers.add_column_or_append)
    for outcomes in results[1:]:
        expect_codes(outcomes, {CONFLICT})
    expect_codes(results[0], {CONFLICT})
    found = open_table(table).to_table()
    appended = [
        1000 * (index + 1) + number
        for index, outcomes in enumerate(results)
        for number, outcome in enumerate(outcomes)
        if index and outcome.acknowledged
    ]
    assert sorted(found["x"].to_pylist()) == sorted([*range(8), *appended])
    there = [name for name, outcome in zip(NAMES, results[0], strict=True) if outcome.acknowledged]
    assert found.column_names == ["x", *there]
    for name in there:
        pairs = zip(found["x"].to_pylist(), found[name].to_pylist(), strict=True)
        assert all(value in {None, 2 * x} for x, value in pairs)


def test_columns_are_dropped_during_appends_without_loss(crew, disk, table):
    entries = [{"name": name, "expression": "x + 1"} for name in NAMES]
    table.alter_table_add_columns({"id": ["t"], "new_columns": entries})
    results = race(crew, disk, table_workers.drop_column_or_append)
    all_acknowledged(results)
    found = open_table(table).to_table()
    appended = [1000 * (index + 1) + number for index in range(1, crew.size) for number in range(len(NAMES))]
    assert found.column_names == ["x"]
    assert sorted(found["x"].to_pylist()) == sorted([*range(8), *appended])


def test_restores_and_tags_at_the_same_time_succeed(crew, disk, table):
    results = race(crew, disk, table_workers.restore_or_tag, NAMES[:3])
    for outcomes in results:
        expect_codes(outcomes, {CONFLICT})
    assert sum(outcome.acknowledged for outcomes in results[1::2] for outcome in outcomes) >= 3
    assert open_table(table).to_table()["x"].to_pylist() == [0]
    assert len(table.list_table_tags({"id": ["t"]}).tags) == 12


@pytest.mark.s3
def test_one_of_eight_creates_a_tag_on_s3(crew, bucket, open_namespace):
    ns = prepared(bucket, open_namespace)
    results = race(crew, bucket, table_workers.create_tag, NAMES[:3])
    for name, outcomes in by_name(NAMES[:3], results):
        won = winner(outcomes, losers_get={TAG_EXISTS})
        assert ns.get_table_tag_version({"id": ["t"], "tag": name}).version == won + 1


@pytest.mark.s3
def test_one_of_eight_creates_a_branch_on_s3(crew, bucket, open_namespace):
    ns = prepared(bucket, open_namespace)
    results = race(crew, bucket, table_workers.create_branch, NAMES[:2])
    for name, outcomes in by_name(NAMES[:2], results):
        won = winner(outcomes, losers_get={BRANCH_EXISTS, CONFLICT})
        assert ns.count_table_rows({"id": ["t"], "branch": name}).count == won + 1


@pytest.mark.s3
def test_one_of_eight_creates_an_index_on_s3(crew, bucket, open_namespace):
    ns = prepared(bucket, open_namespace)
    results = race(crew, bucket, table_workers.create_index, NAMES[:2])
    for _, outcomes in by_name(NAMES[:2], results):
        winner(outcomes, losers_get={INDEX_EXISTS})
    assert {one.num_segments for one in ns.list_table_indices({"id": ["t"]}).indexes} == {1}
