"""Write, audit, publish: executors can read staged rows, others cannot, and they are published at once."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from lance import LanceDataset

from pennon.spark import tables
from pennon.spark.reading import scan
from pennon.spark.tables import job_commits
from tests.support import create_namespace, declare_table, describe_table, fails, list_tables


def numbers(spark, *values):
    return spark.createDataFrame([(value, f"name-{value}") for value in values], "id bigint, name string")


def ids(lake, table="t"):
    return sorted(row.id for row in lake.table(table).select("id").collect())


def previewed(lake, staged):
    """Return the ids of staged rows, read on executors."""
    frame = scan.to_dataframe(lake.spark, scan.scan_pinned(staged.preview))
    return sorted(row.id for row in frame.collect())


def on_storage(lake, table="t"):
    root = Path(describe_table(lake.catalog, table).location)
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


@pytest.fixture(params=["plain", "managed"])
def any_lake(request, lake):
    if request.param == "managed":
        lake.catalog.enable_table_version_management()
    return lake


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_staged_rows_can_be_read_but_are_not_visible(spark, any_lake, mode):
    lake = any_lake
    lake.write(numbers(spark, 1), "t")
    before = on_storage(lake)
    staged = tables.make_readable(tables.stage(lake.address, numbers(spark, 2, 3), ("t",), mode))
    assert previewed(lake, staged) == ([1, 2, 3] if mode == "append" else [2, 3])
    assert ids(lake) == [1]
    done = tables.publish(staged, job_id="j")
    assert (done.version, done.rows, done.already) == (2, 2, False)
    assert ids(lake) == ([1, 2, 3] if mode == "append" else [2, 3])
    left = on_storage(lake) - before - set(staged.files)
    assert {path.partition("/")[0] for path in left} == {"_versions", "_transactions"}
    assert len(left) == 2


def test_discarded_write_leaves_no_files(spark, any_lake):
    lake = any_lake
    lake.write(numbers(spark, 1), "t")
    before = on_storage(lake)
    staged = tables.make_readable(tables.stage(lake.address, numbers(spark, 2), ("t",)))
    assert on_storage(lake) > before
    tables.discard(staged)
    assert on_storage(lake) == before
    assert ids(lake) == [1]


def test_new_table_can_be_read_before_it_is_published(spark, any_lake, root):
    lake = any_lake
    create_namespace(lake.catalog, "a")
    for table in (("t",), ("a", "t")):
        staged = tables.make_readable(tables.stage(lake.address, numbers(spark, 1, 2), table))
        assert previewed(lake, staged) == [1, 2]
        assert list_tables(lake.catalog, *table[:-1]) == []
        assert tables.publish(staged, job_id="j").created
        assert ids(lake, list(table)) == [1, 2]
        assert job_commits.find_job(lake.address, table, "j").version == 1
    gone = tables.make_readable(tables.stage(lake.address, numbers(spark, 1), ("other",)))
    tables.discard(gone)
    assert not list(Path(root).glob("*other*"))


def test_staged_columns_can_be_read_but_are_not_visible(spark, any_lake):
    lake = any_lake
    lake.write(numbers(spark, 1), "t")
    wide = spark.createDataFrame([(2, 0.5)], "id bigint, score double")
    staged = tables.make_readable(tables.stage(lake.address, wide, ("t",), merge_schema=True))
    assert previewed(lake, staged) == [1, 2]
    # Others append before publication: the new columns and rows are rebased on that.
    lake.write(numbers(spark, 3), "t")
    assert tables.publish(staged).version == 3
    assert {row.id: row.score for row in lake.table("t").collect()} == {1: None, 2: 0.5, 3: None}


def test_publishing_twice_with_a_job_keeps_the_rows(spark, any_lake):
    """As after a crash between the commit and its note: the files of the version must be kept."""
    lake = any_lake
    for table in (("old",), ("new",)):
        if table == ("old",):
            lake.write(numbers(spark, 1), "old")
        staged = tables.make_readable(tables.stage(lake.address, numbers(spark, 2), table))
        first = tables.publish(staged, job_id="j")
        again = tables.publish(staged, job_id="j")
        assert (again.version, again.already, again.rows) == (first.version, True, 1)
        assert 2 in ids(lake, list(table))


def test_staged_table_created_by_others_raises_already_exists_and_write_appends(spark, lake):
    staged = tables.stage(lake.address, numbers(spark, 1), ("t",))
    lake.write(numbers(spark, 2), "t")
    with fails(5, naming="'t'"):
        tables.publish(staged)
    tables.discard(staged)
    assert ids(lake) == [2]


def test_staging_with_ignore_or_over_an_existing_table_is_refused(spark, lake):
    lake.write(numbers(spark, 1), "t")
    with fails(13):
        tables.stage(lake.address, numbers(spark, 1), ("t",), "ignore")
    with fails(5):
        tables.stage(lake.address, numbers(spark, 1), ("t",), "create")


# Several tables at once


def three(spark, lake):
    """Stage an append, an overwrite and a new table."""
    return [
        tables.stage(lake.address, numbers(spark, 2), ("a", "t")),
        tables.stage(lake.address, numbers(spark, 5), ("u",), "overwrite"),
        tables.stage(lake.address, numbers(spark, 6), ("a", "new"), properties={"owner": "me"}),
    ]


@pytest.fixture
def house(spark, managed_lake):
    create_namespace(managed_lake.catalog, "a")
    managed_lake.write(numbers(spark, 1), "a.t")
    managed_lake.write(numbers(spark, 1), "u")
    return managed_lake


def shown(lake):
    return {name: ids(lake, name) for name in ("a.t", "u", *(["a.new"] if list_tables(lake.catalog, "a")[1:] else []))}


def test_several_tables_are_published_together(spark, house):
    staged = three(spark, house)
    assert shown(house) == {"a.t": [1], "u": [1]}
    before = lance.dataset(str(Path(house.catalog._store.identity()) / "__manifest")).version
    results = tables.publish_together(staged, job_id="nightly")
    # One commit publishes them, and another one completes it.
    assert lance.dataset(str(Path(house.catalog._store.identity()) / "__manifest")).version == before + 2
    assert [(one.version, one.rows, one.created, one.already) for one in results] == [
        (2, 1, False, False),
        (2, 1, False, False),
        (1, 1, True, False),
    ]
    assert shown(house) == {"a.t": [1, 2], "u": [5], "a.new": [6]}
    for name in (("a", "t"), ("u",), ("a", "new")):
        assert job_commits.find_job(house.address, name, "nightly") is not None


def test_publishing_together_again_changes_nothing(spark, house):
    tables.publish_together(three(spark, house), job_id="nightly")
    staged = [
        tables.stage(house.address, numbers(spark, 2), ("a", "t")),
        tables.stage(house.address, numbers(spark, 5), ("u",), "overwrite"),
        tables.stage(house.address, numbers(spark, 6), ("a", "new")),
    ]
    results = tables.publish_together(staged, job_id="nightly")
    assert [(one.version, one.already) for one in results] == [(2, True), (2, True), (1, True)]
    assert shown(house) == {"a.t": [1, 2], "u": [5], "a.new": [6]}


def test_the_same_staged_writes_published_again_keep_their_rows(spark, house):
    staged = [tables.make_readable(one) for one in three(spark, house)]
    tables.publish_together(staged, job_id="nightly")
    results = tables.publish_together(staged, job_id="nightly")
    assert [one.already for one in results] == [True, True, True]
    assert shown(house) == {"a.t": [1, 2], "u": [5], "a.new": [6]}


def test_lost_response_of_a_publication_is_resolved(spark, house, monkeypatch):
    staged = three(spark, house)
    real = type(house.catalog).commit_tables

    def lost(self, *arguments):
        real(self, *arguments)
        raise job_commits.InternalError("no answer")

    monkeypatch.setattr(type(house.catalog), "commit_tables", lost)
    results = tables.publish_together(staged)
    assert [(one.version, one.already) for one in results] == [(2, False), (2, False), (1, False)]
    assert shown(house) == {"a.t": [1, 2], "u": [5], "a.new": [6]}


def test_one_conflict_prevents_the_whole_publication(spark, house):
    staged = three(spark, house)
    house.write(numbers(spark, 8), "u", "overwrite")
    with fails(14, naming="u"):
        tables.publish_together(staged, job_id="nightly")
    assert shown(house) == {"a.t": [1], "u": [8]}
    for one in staged:
        tables.discard(one)


def test_new_columns_are_published_together_with_other_tables(spark, house):
    wide = spark.createDataFrame([(2, 0.5)], "id bigint, score double")
    staged = [
        tables.stage(house.address, wide, ("a", "t"), merge_schema=True),
        tables.stage(house.address, numbers(spark, 5), ("u",)),
        tables.stage(house.address, numbers(spark, 1).where("false"), ("u2",)),
    ]
    house.write(numbers(spark, 3), "a.t")
    tables.publish_together(staged)
    assert {row.id: row.score for row in house.table("a.t").collect()} == {1: None, 2: 0.5, 3: None}
    assert ids(house, "u") == [1, 5]
    assert ids(house, "u2") == []


def test_declared_table_is_published_together_with_others(spark, house):
    declare_table(house.catalog, "a", "declared")
    staged = [
        tables.stage(house.address, numbers(spark, 2), ("a", "t")),
        tables.stage(house.address, numbers(spark, 7), ("a", "declared")),
    ]
    assert [one.version for one in tables.publish_together(staged)] == [2, 1]
    assert ids(house, "a.declared") == [7]


def test_publishing_together_needs_version_management(spark, lake):
    staged = [tables.stage(lake.address, numbers(spark, 1), ("t",))]
    with fails(0, naming="version management"):
        tables.publish_together(staged)
    assert list_tables(lake.catalog) == []


def test_publishing_branches_together_is_refused(spark, house):
    lance.dataset(describe_table(house.catalog, "u").location).create_branch("dev")
    staged = tables.stage(house.address, numbers(spark, 1), ("u",), branch="dev")
    with fails(0, naming="dev"):
        tables.publish_together([staged])


def test_concurrent_publications_of_a_job_commit_once(spark, house, monkeypatch):
    """The second run searches before the first one commits."""
    first, second = three(spark, house)[:2], three(spark, house)[:2]
    real = type(house.catalog).commit_tables
    rounds = []

    def beaten(self, commits, check):
        if not rounds:
            rounds.append("first")
            tables.publish_together(first, job_id="nightly")
        return real(self, commits, check)

    monkeypatch.setattr(type(house.catalog), "commit_tables", beaten)
    results = tables.publish_together(second[:1], job_id="nightly")
    assert [(one.version, one.already) for one in results] == [(2, True)]
    assert ids(house, "a.t") == [1, 2]


def test_store_error_after_the_commit_does_not_fail_the_write(spark, lake, monkeypatch, caplog):
    lake.write(numbers(spark, 1), "t")
    staged = tables.stage(lake.address, numbers(spark, 2), ("t",))
    real = LanceDataset.commit

    def then_the_disk_is_gone(*arguments, **options):
        made = real(*arguments, **options)
        monkeypatch.setattr("pennon.spark.tables.run_files.RunDirectory.settle", _broken)
        return made

    monkeypatch.setattr(LanceDataset, "commit", then_the_disk_is_gone)
    assert tables.publish_or_discard(staged).version == 2
    assert "remain for the cleanup" in caplog.text
    assert ids(lake) == [1, 2]


def _broken(*_, **__):
    raise OSError("input/output error")
