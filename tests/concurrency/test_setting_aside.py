"""A dropped root table is set aside for a declared one in V1, by processes that are killed, stopped, or race."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest

from tests.concurrency import workers
from tests.concurrency.crew import Child
from tests.concurrency.hooks import (
    CREATE,
    CREATE_OBJECT,
    DELETE_IF,
    DELETE_OBJECT_IF,
    DELETE_OBJECT_IN_TIME,
    DELETE_OBJECTS,
    DELETE_TREE,
    PUT,
    PUT_OBJECT,
    SWAP,
    SWAP_OBJECT,
    after,
    before,
    count_at,
)
from tests.concurrency.places import column, files
from tests.support import (
    Root,
    create_table,
    declare_table,
    describe_table,
    drop_table,
    fails,
    ipc,
    list_tables,
    table_exists,
)

pytestmark = pytest.mark.concurrency

OLD, NEW = [1, 1], [2, 2]
COPY = "pennon.store.local:LocalStore.copy_tree"
COPY_OBJECTS = "pennon.store.objects:ObjectStore.copy_tree"
ON_DISK = [CREATE, PUT, SWAP, COPY, DELETE_TREE, DELETE_IF]
IN_BUCKETS = [
    CREATE_OBJECT,
    PUT_OBJECT,
    SWAP_OBJECT,
    COPY_OBJECTS,
    DELETE_OBJECT_IN_TIME,
    DELETE_OBJECTS,
    DELETE_OBJECT_IF,
]


def prepare(root):
    with workers.open_client(root, "v1") as ns:
        create_table(ns, "t", data=ipc({"who": OLD}))
        drop_table(ns, "t")


def measure(root, calls):
    """Return the number of calls of an undisturbed declaration. This runs in a process of its own."""
    prepare(root)
    counts = count_at(calls)
    with workers.open_client(root, "v1") as ns:
        counts.update(dict.fromkeys(counts, 0))
        declare_table(ns, "t")
    return {call: count for call, count in counts.items() if count}


def points_of(root, calls, sides):
    with Child(measure, root, calls) as child:
        counts = child.result()
    return [side(call, number + 1) for call, count in counts.items() for number in range(count) for side in sides]


def tables(root, ns):
    """Return the tables that have files: SeaweedFS also lists empty directories."""
    there = {path.partition("/")[0] for path in files(root)}
    return [name for name in list_tables(ns) if f"{name}.lance" in there]


def rows_at(root, location):
    return lance.dataset(location, storage_options=root.options or None).to_table()["who"].to_pylist()


def history(root, location):
    """Return the rows of each version of a table."""
    dataset = lance.dataset(location, storage_options=root.options or None)
    versions = [one["version"] for one in dataset.versions()]
    return [dataset.checkout_version(version).to_table()["who"].to_pylist() for version in versions]


def wrong_after(root, declared):
    """Return what is wrong after a declaration that may or may not have happened, and after another one."""
    with workers.open_client(root, "v1") as ns:
        shown = tables(root, ns)
        if shown not in ([], ["t"]):
            yield f"tables {shown}"
        told = workers.attempt(declare_table, ns, "t")
        if told.code not in ({None, 5} if not declared else {5}):
            yield f"declared again: {told}"
        if describe_table(ns, "t", check_declared=True).is_only_declared is not True:
            yield "the table is not empty"
        write = {"storage_options": root.options or None, "mode": "create"}
        lance.write_dataset(pa.table({"who": NEW}), describe_table(ns, "t").location, **write)
        ns.purge_tables()
        yield from wrong_among_dropped(root, ns)


def wrong_among_dropped(root, ns):
    """Restore all dropped tables, and return what is wrong."""
    kept = ns.list_dropped_tables()[0]
    if not kept:
        yield "what was dropped is gone"
    for table in kept:
        if table.being_purged:
            yield f"the purge of {table.id} was not finished"
            continue
        ns.undrop_table(table.id)
        if column(root, ns, *table.id) != OLD:
            yield f"{table.id} was restored with other rows"
    if column(root, ns, "t") != NEW:
        yield "the new table has other rows"
    if tables(root, ns) != sorted(["t", *(table.id[0] for table in kept)]):
        yield f"tables {tables(root, ns)} at the end"


def wrong_after_kill(root, point):
    prepare(root)
    with Child(workers.die_at, root, "v1", point, workers.declare, "t") as child:
        child.wait_until_killed()
    return [f"killed {point}: {text}" for text in wrong_after(root, declared=False)]


def kill_all(place_at, points):
    assert points
    roots = [place_at(f"root-{number}") for number in range(len(points))]
    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(wrong_after_kill, roots, points))
    wrong = [text for texts in told for text in texts]
    assert not wrong, "\n".join(wrong)


def test_dropped_table_survives_a_declaration_that_is_killed(tmp_path):
    def place(name):
        return Root(str(tmp_path / name))

    kill_all(place, points_of(place("measured"), [SWAP, COPY, DELETE_TREE, DELETE_IF], [after]))


@pytest.mark.soak
def test_dropped_table_survives_a_declaration_killed_at_each_point(tmp_path):
    def place(name):
        return Root(str(tmp_path / name))

    kill_all(place, points_of(place("measured"), ON_DISK, [before, after]))


@pytest.mark.soak
@pytest.mark.s3
def test_dropped_table_in_a_bucket_survives_a_declaration_killed_at_each_point(bucket):
    def place(name):
        return Root(f"{bucket.uri}/{name}", bucket.options)

    kill_all(place, points_of(place("measured"), IN_BUCKETS, [before, after]))


STOPS = {
    "before the copy": before(COPY_OBJECTS),
    "before the copy is published": before("pennon.directory.root_tables.set_aside:_publish"),
    "before the claim is given back": before("pennon.directory.markers.claim:Claim.update", 2),
    "before the claim of the purge": before("pennon.directory.root_tables.set_aside:purge_table"),
    "when it has listed what to delete": before("pennon.store.objects:ObjectStore._delete_fenced"),
}


@pytest.mark.s3
@pytest.mark.parametrize("stop", list(STOPS))
@pytest.mark.parametrize("then", ["undrop", "create", "declare"])
def test_resumed_client_does_not_harm_newer_tables(bucket, stop, then):
    prepare(bucket)
    with Child(workers.stop_past_lease, bucket, "v1", STOPS[stop], workers.declare, "t") as child:
        child.wait_until_stopped()
        with workers.open_client(bucket, "v1") as ns:
            if then == "undrop":
                told = workers.attempt(ns.undrop_table, ["t"])
            elif then == "create":
                told = workers.attempt(create_table, ns, "t", data=ipc({"who": NEW}))
            else:
                told = workers.attempt(declare_table, ns, "t")
        child.go_on()
        late = child.result()
    with workers.open_client(bucket, "v1") as ns:
        if told.acknowledged:
            # A resumed creation may have won a name that was free for a moment.
            assert late.code in {5, 14}, late
            if then == "declare":
                assert describe_table(ns, "t", check_declared=True).is_only_declared is True
            else:
                assert column(bucket, ns, "t") == (OLD if then == "undrop" else NEW)
        else:
            assert told.code in {4, 14}, told
        ns.purge_tables()
        kept = [rows_at(bucket, table.location) for table in ns.list_dropped_tables()[0]]
        if told.acknowledged and then != "declare":
            kept += history(bucket, describe_table(ns, "t").location)
        assert OLD in kept
        assert all(rows in (OLD, NEW) for rows in kept)


def test_one_of_many_declarations_over_a_dropped_table_wins(crew, disk):
    names = [f"t{number}" for number in range(4)]
    with workers.open_client(disk, "v1") as ns:
        for name in names:
            create_table(ns, name, data=ipc({"who": OLD}))
            drop_table(ns, name)
    outcomes = crew.run(workers.race, disk, "v1", workers.declare, names)
    with workers.open_client(disk, "v1") as ns:
        for number, name in enumerate(names):
            codes = [member[number].code for member in outcomes]
            assert codes.count(None) <= 1, codes
            assert set(codes) <= {None, 5, 14}, codes
            if None not in codes:
                declare_table(ns, name)
            assert describe_table(ns, name, check_declared=True).is_only_declared is True
        ns.purge_tables()
        kept = ns.list_dropped_tables()[0]
        assert {table.id[0].partition("-")[0] for table in kept} == set(names)
        assert all(rows_at(disk, table.location) == OLD for table in kept)


# With a manifest, a table declared over a dropped one gets a directory of its own.


@pytest.fixture
def without_row(bucket, open_namespace):
    """Return a catalog with a dropped root table without a row: only its marker shows whether it is restored."""
    prepare(bucket)
    return open_namespace(bucket, "compatibility")


@pytest.mark.s3
def test_table_restored_before_a_declaration_stays_visible(bucket, without_row):
    insert = before("pennon.directory.table_rows:insert_row")
    with Child(workers.stop_at, bucket, "compatibility", insert, workers.declare, "t") as child:
        child.wait_until_stopped()
        without_row.undrop_table(["t"])
        child.go_on()
        assert child.result().code == 14
    assert column(bucket, without_row, "t") == OLD
    assert list_tables(without_row) == ["t"]


@pytest.mark.s3
def test_undrop_after_a_declaration_fails(bucket, without_row):
    looked = before("pennon.directory.root_tables.undrop:_restore_row")
    with Child(workers.stop_at, bucket, "compatibility", looked, workers.undrop, "t") as child:
        child.wait_until_stopped()
        told = workers.attempt(declare_table, without_row, "t")
        child.go_on()
        late = child.result()
    assert [told.code, late.code].count(None) <= 1
    if late.acknowledged:
        assert column(bucket, without_row, "t") == OLD
    else:
        (kept,) = without_row.list_dropped_tables()[0]
        assert rows_at(bucket, kept.location) == OLD


# Plain Lance appends to a table while it is purged.


@pytest.mark.s3
@pytest.mark.parametrize("mode", ["compatibility"])
def test_append_during_a_purge_is_purged_with_the_table(bucket, mode, open_namespace):
    ns = open_namespace(bucket, mode)
    for name in ("t", "other"):
        create_table(ns, name, data=ipc({"who": OLD}))
    opened = lance.dataset(describe_table(ns, "t").location, storage_options=bucket.options)
    drop_table(ns, "t")
    listed = before("pennon.store.objects:ObjectStore._delete_fenced")
    with Child(workers.stop_at, bucket, mode, listed, workers.purge, "t") as child:
        child.wait_until_stopped()
        opened.insert(pa.table({"who": NEW}))
        child.go_on()
        assert child.result().acknowledged
    assert [path for path in files(bucket) if path.startswith("t.")] == []
    with fails(4):
        table_exists(ns, "t")
    create_table(ns, "t", data=ipc({"who": NEW}))
    assert column(bucket, ns, "t") == NEW
    assert column(bucket, ns, "other") == OLD
