"""Eight processes commit versions of the same tables at once, with and without version management.

Readers can rely on this: each state of the catalog has all tables of a batch or none of them. A reader that opens one
table after the other sees several states, each newer than the one before. It may miss a batch in tables that it opened
early and find it in later ones. Once it has seen a batch in a table, it finds it in every table that it opens later.
"""

from __future__ import annotations

import lance
import pytest

from tests.concurrency import version_workers, workers
from tests.concurrency.crew import Child
from tests.concurrency.hooks import COMMIT_ROWS, PUT_IN_PLACE, after, before
from tests.concurrency.places import column, files
from tests.support import create_table, describe_table, drop_table, ipc, remove_table, rename_table

pytestmark = pytest.mark.concurrency

ROUNDS = 3
FIRST = ["first"]


@pytest.fixture(params=["v2", "compatibility"])
def manifest_mode(request):
    """Return one of the two modes with a manifest."""
    return request.param


def new_tables(ns, *names, managed=True):
    for name in names:
        create_table(ns, name, data=ipc({"who": FIRST}))
    if managed:
        ns.enable_table_version_management()


def versions(ns, name):
    return sorted(one.version for one in ns.list_table_versions({"id": [name]}).versions)


def expect_all_rows_once(root, ns, name, told):
    """Check that each acknowledged row exists once, versions are dense and unique, and all clients agree."""
    rows = [row for one in told for row, _ in one]
    last = len(rows) + 1
    assert sorted(version for one in told for _, version in one) == list(range(2, last + 1))
    assert versions(ns, name) == list(range(1, last + 1))
    assert sorted(version_workers.batches(ns, root, name)) == sorted(FIRST + rows)
    location = describe_table(ns, name).location
    plain = lance.dataset(location, storage_options=root.options or None)
    assert plain.version == last
    assert sorted(column(root, ns, name)) == sorted(FIRST + rows)
    for one in told:
        for row, version in one:
            assert row in version_workers.batches(ns, root, name, version)
            assert row not in version_workers.batches(ns, root, name, version - 1)


def expect_nothing_staged(root):
    assert [path for path in files(root) if ".manifest-" in path] == []


def expect_rows_of_tables_only(ns):
    """Check that each version row belongs to a table row, and is finished."""
    snapshot = ns._catalog.manifest.read(lambda one: one)
    for key in snapshot.versioned_tables():
        assert snapshot.get(key) is not None, f"versions of {key!r}, which is not there"
        assert snapshot.get(key).object_type == "table"


def append_together(crew, root, mode, open_namespace, *, managed, rounds):
    ns = open_namespace(root, mode)
    new_tables(ns, "t", managed=managed)
    told = crew.run(version_workers.append_many, root, mode, "t", rounds)
    expect_all_rows_once(root, ns, "t", told)
    expect_nothing_staged(root)
    if managed:
        expect_rows_of_tables_only(ns)


@pytest.mark.parametrize("managed", [True, False], ids=["managed", "files-alone"])
def test_rows_of_eight_appenders_are_all_kept_in_dense_versions(crew, disk, manifest_mode, open_namespace, managed):
    append_together(crew, disk, manifest_mode, open_namespace, managed=managed, rounds=ROUNDS)


@pytest.mark.s3
@pytest.mark.parametrize("managed", [True, False], ids=["managed", "files-alone"])
def test_rows_of_eight_appenders_in_a_bucket_are_all_kept(crew, bucket, open_namespace, managed):
    append_together(crew, bucket, "v2", open_namespace, managed=managed, rounds=1)


@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_append_succeeds_during_other_changes_of_the_catalog(disk, open_namespace, mode):
    ns = open_namespace(disk, mode)
    new_tables(ns, "t")
    with Child(version_workers.append_while_another_commits, disk, mode, "t") as child:
        assert child.result() == 2
    assert version_workers.batches(ns, disk, "t") == [*FIRST, "overtaken"]


SETS = [["a", "b"], ["b", "c"], ["a", "b", "c"]]
"""Overlapping sets of tables, in turn."""


def commit_batches_together(crew, root, mode, open_namespace, *, done, commit, rounds):
    ns = open_namespace(root, mode)
    new_tables(ns, "a", "b", "c")
    done.mkdir()
    work = version_workers.Batches(commit, SETS, rounds, str(done))
    told = crew.run(version_workers.commit_batches_or_read, root, mode, work)
    refused = [one for each in told for one in each.refused]
    assert all(one.code == version_workers.CONFLICT for one in refused), refused
    acknowledged = {batch: names for each in told for batch, names in each.acknowledged.items()}
    assert acknowledged
    assert len(acknowledged) + len(refused) == (crew.size - 1) * rounds
    for name in "abc":
        expected = sorted(batch for batch, names in acknowledged.items() if name in names)
        assert sorted(version_workers.batches(ns, root, name)) == sorted(FIRST + expected)
        assert versions(ns, name) == list(range(1, len(expected) + 2))
        assert sorted(column(root, ns, name)) == sorted(FIRST + expected)
    expect_whole_batches(root, ns, told[-1], acknowledged)
    expect_rows_of_tables_only(ns)
    expect_nothing_staged(root)


def expect_whole_batches(root, ns, seen, acknowledged):
    """Check that each state has complete batches, and that tables opened later have the batches of earlier ones."""
    whole = {(name, 0): set() for name in "abc"}
    for name in "abc":
        for version in versions(ns, name):
            whole[name, version] = set(version_workers.batches(ns, root, name, version)) - set(FIRST)
    assert len(seen.at_once) > 1
    for state in seen.at_once:
        there = {name: whole[name, version] for name, version in state.items()}
        for batch in set().union(*there.values()):
            assert all(batch in there[name] for name in acknowledged[batch]), f"half of {batch} in {state}"
    for opened in seen.in_turn:
        before = set()
        for name, batches in opened:
            missing = [batch for batch in before if name in acknowledged[batch] and batch not in batches]
            assert not missing, f"{missing} are not in {name}, but in tables opened before it"
            before |= set(batches) - set(FIRST)


BY = {"transactions": version_workers.commit_by_transactions, "entries": version_workers.commit_by_entries}


@pytest.mark.parametrize("by", list(BY))
def test_batches_over_overlapping_sets_of_tables_are_all_or_nothing(
    crew, disk, manifest_mode, by, *, tmp_path, open_namespace
):
    done = tmp_path / "done"
    commit_batches_together(crew, disk, manifest_mode, open_namespace, done=done, commit=BY[by], rounds=ROUNDS)


@pytest.mark.soak
@pytest.mark.s3
def test_batches_over_overlapping_sets_of_tables_in_a_bucket_are_all_or_nothing(crew, bucket, tmp_path, open_namespace):
    commit = version_workers.commit_by_transactions
    commit_batches_together(crew, bucket, "v2", open_namespace, done=tmp_path / "done", commit=commit, rounds=1)


def create_same_version_together(crew, root, mode, open_namespace, names, *, managed):
    ns = open_namespace(root, mode)
    new_tables(ns, *names, managed=managed)
    told = crew.run(version_workers.create_same_version, root, mode, names)
    for name, results in zip(names, zip(*told, strict=True), strict=True):
        outcomes = [outcome for outcome, _, _ in results]
        assert [one for one in outcomes if one.code not in {None, version_workers.CONFLICT}] == []
        (winner,) = [index for index, one in enumerate(outcomes) if one.acknowledged]
        assert {version for _, version, _ in results} == {2}
        assert len({manifest for _, _, manifest in results}) == 1, "not all describe the winner"
        assert versions(ns, name) == [1, 2]
        assert column(root, ns, name) == [*FIRST, str(winner)]
        if managed:
            assert version_workers.batches(ns, root, name) == [*FIRST, str(winner)]


@pytest.mark.parametrize("managed", [True, False], ids=["managed", "files-alone"])
def test_one_of_eight_creators_of_a_version_wins_and_all_can_describe_it(
    crew, disk, manifest_mode, open_namespace, managed
):
    create_same_version_together(crew, disk, manifest_mode, open_namespace, ["a", "b", "c"], managed=managed)


@pytest.mark.s3
@pytest.mark.parametrize("managed", [True, False], ids=["managed", "files-alone"])
def test_one_of_eight_creators_of_a_version_in_a_bucket_wins(crew, bucket, open_namespace, managed):
    create_same_version_together(crew, bucket, "v2", open_namespace, ["a"], managed=managed)


REFUSALS = ("Table not found", "Commit result for version", "Too many concurrent writers")
"""Errors that a writer may get for a table that is moved away: it does not exist, or, from Lance, the outcome of the
append is unknown, or others committed first every time."""


def append_beside_moves(crew, root, mode, open_namespace, *, done, moves):
    ns = open_namespace(root, mode)
    new_tables(ns, "t")
    done.mkdir()
    told = crew.run(version_workers.append_or_move, root, mode, version_workers.Moves(moves, ROUNDS, str(done)))
    errors = [error for one in told for error in one.errors]
    assert [error for error in errors if not any(text in error for text in REFUSALS)] == []
    tried = {row for one in told for row in one.tried}
    acknowledged = {row for one in told for row in one.acknowledged}
    assert len(acknowledged) == (crew.size - len(moves)) * ROUNDS
    rows = version_workers.batches(ns, root, "t")
    assert acknowledged <= set(rows), f"lost: {sorted(acknowledged - set(rows))}"
    assert len(rows) == len(set(rows))
    assert set(rows) <= tried | set(FIRST)
    assert versions(ns, "t") == list(range(1, len(rows) + 1))
    assert sorted(column(root, ns, "t")) == sorted(rows)
    expect_rows_of_tables_only(ns)
    with workers.open_client(root, mode) as another:
        assert version_workers.append(another, root, "t", "afterwards") == len(rows) + 1


MOVES = [["drop"], ["rename"], ["drop", "rename"]]


@pytest.mark.parametrize("moves", MOVES, ids="-and-".join)
def test_no_acknowledged_row_is_lost_during_drops_and_renames(
    crew, disk, manifest_mode, moves, *, tmp_path, open_namespace
):
    append_beside_moves(crew, disk, manifest_mode, open_namespace, done=tmp_path / "done", moves=moves)


@pytest.mark.s3
@pytest.mark.soak
@pytest.mark.parametrize("moves", MOVES, ids="-and-".join)
def test_no_acknowledged_row_in_a_bucket_is_lost_during_drops_and_renames(
    crew, bucket, manifest_mode, moves, *, tmp_path, open_namespace
):
    append_beside_moves(crew, bucket, manifest_mode, open_namespace, done=tmp_path / "done", moves=moves)


# A writer that is stopped while others change the catalog, and then resumed


def _drop_and_restore(ns, _):
    drop_table(ns, "t")
    ns.undrop_table(["t"])
    return "t"


def _rename(ns, _):
    rename_table(ns, "t", to="aside")
    return "aside"


def _rename_there_and_back(ns, _):
    rename_table(ns, "t", to="aside")
    rename_table(ns, "aside", to="t")
    return "t"


def _append(ns, root):
    version_workers.append(ns, root, "t", "other")
    return "t"


def _replace_by_an_older_one(ns, _):
    """Replace the table by another one of the same name with fewer versions."""
    remove_table(ns, "t")
    create_table(ns, "t", data=ipc({"who": FIRST}))
    return "t"


def _replace_by_one_as_old(ns, root):
    """Replace the table by another one with as many versions."""
    _replace_by_an_older_one(ns, root)
    version_workers.append(ns, root, "t", "other")
    return "t"


def _stop_managing(ns, _):
    ns.disable_table_version_management()
    return "t"


def _manage_again(ns, _):
    ns.disable_table_version_management()
    ns.enable_table_version_management()
    return "t"


OTHER_CHANGES = [
    _drop_and_restore,
    _rename,
    _rename_there_and_back,
    _append,
    _replace_by_an_older_one,
    _replace_by_one_as_old,
    _stop_managing,
    _manage_again,
]
BEFORE_ROW, AFTER_ROW, AFTER_COPY = before(COMMIT_ROWS), after(COMMIT_ROWS), after(PUT_IN_PLACE)
QUICK = {
    ("v2", _drop_and_restore, BEFORE_ROW),
    ("v2", _drop_and_restore, AFTER_ROW),
    ("v2", _rename, BEFORE_ROW),
    ("v2", _rename, AFTER_ROW),
    ("v2", _append, AFTER_ROW),
    ("v2", _stop_managing, BEFORE_ROW),
    ("v2", _manage_again, AFTER_ROW),
    ("compatibility", _drop_and_restore, AFTER_ROW),
    ("compatibility", _replace_by_an_older_one, BEFORE_ROW),
    ("compatibility", _replace_by_one_as_old, BEFORE_ROW),
}
"""Cases that always run; the others run only with `make soak`."""


def stopped_cases():
    return [
        pytest.param(
            mode,
            other_change,
            point,
            id=f"{mode}-{other_change.__name__.strip('_')}-{point}",
            marks=[] if (mode, other_change, point) in QUICK else [pytest.mark.soak],
        )
        for mode in ("v2", "compatibility")
        for other_change in OTHER_CHANGES
        for point in (BEFORE_ROW, AFTER_ROW, AFTER_COPY)
    ]


@pytest.mark.parametrize(("mode", "other_change", "point"), stopped_cases())
def test_resumed_append_exists_if_it_was_acknowledged(mode, other_change, point, disk, open_namespace):
    ns = open_namespace(disk, mode)
    new_tables(ns, "t")
    version_workers.append(ns, disk, "t", "second")
    with Child(workers.stop_at, disk, mode, point, version_workers.append_row, "t") as child:
        child.wait_until_stopped()
        name = other_change(ns, disk)
        child.go_on()
        told = child.result()
    reader = open_namespace(disk, mode)
    rows = version_workers.batches(reader, disk, name)
    replaced = other_change in {_replace_by_an_older_one, _replace_by_one_as_old} and point != BEFORE_ROW
    assert ("killed" in rows) == (told.acknowledged and not replaced), f"{told} and yet {rows}"
    assert versions(reader, name) == list(range(1, len(rows) + 1))
    assert sorted(column(disk, reader, name)) == sorted(rows)
    expect_rows_of_tables_only(reader)
    if other_change is _stop_managing:
        assert reader._catalog.manifest.read(lambda one: one.versioned_tables()) == []
    for version in versions(reader, name):
        version_workers.batches(reader, disk, name, version)
    assert version_workers.append(reader, disk, name, "afterwards") == len(rows) + 1
