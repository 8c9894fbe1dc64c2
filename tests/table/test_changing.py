"""Insert, merge, update and delete: their effects, their responses and their errors."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from pennon import DirectoryNamespace
from pennon.identifiers import object_id
from tests.support import (
    create_table,
    declare_table,
    describe_table,
    drop_table,
    fails,
    ipc,
    list_tables,
    remove_table,
)
from tests.table.calls import count, dataset, delete, ids, insert, merge, query, update
from tests.table.kinds import opened


def rows(start: int, stop: int, text: str = "old") -> pa.Table:
    texts = pa.array([f"{text}{number}" for number in range(start, stop)], pa.string())
    return pa.table({"id": pa.array(range(start, stop), pa.int64()), "text": texts})


def contents(ns) -> dict[int, str]:
    found = query(ns, "t", k=1000)
    assert found.num_rows == len(set(ids(found)))
    return dict(zip(ids(found), found["text"].to_pylist(), strict=True))


def old(*numbers: int) -> dict[int, str]:
    return {number: f"old{number}" for number in numbers}


def new(*numbers: int) -> dict[int, str]:
    return {number: f"new{number}" for number in numbers}


@pytest.fixture
def filled(namespace):
    """Return a catalog with a table `t` of five rows."""
    create_table(namespace, "t", data=ipc(rows(0, 5)))
    return namespace


def version(ns) -> int:
    return describe_table(ns, "t", load_detailed_metadata=True).version


# Insert


def test_insert_appends(filled):
    done = insert(filled, "t", data=rows(5, 8))
    assert (done.num_inserted_rows, done.version) == (3, 2)
    assert contents(filled) == old(*range(8))


@pytest.mark.parametrize("mode", ["overwrite", "Overwrite", "OVERWRITE"])
def test_insert_overwrites(filled, mode):
    done = insert(filled, "t", data=rows(0, 2, "new"), mode=mode)
    assert (done.num_inserted_rows, done.version) == (2, 2)
    assert contents(filled) == new(0, 1)
    assert count(filled, "t", version=1) == 5


@pytest.mark.parametrize("mode", ["append", "Append", None])
def test_insert_modes_that_append(filled, mode):
    insert(filled, "t", data=rows(5, 6), mode=mode)
    assert count(filled, "t") == 6


def test_an_unknown_insert_mode_is_refused(filled):
    with fails(13, "upsert"):
        insert(filled, "t", data=rows(5, 6), mode="upsert")
    assert version(filled) == 1


def test_insert_matches_columns_by_name_and_fills_nullable_ones_with_null(filled):
    insert(filled, "t", data=pa.table({"text": ["x"], "id": pa.array([10])}))
    insert(filled, "t", data=pa.table({"id": pa.array([11])}))
    assert contents(filled) == {**old(*range(5)), 10: "x", 11: None}


MISFITS = {
    "another column": pa.table({"id": [1], "more": [1]}),
    "another type": pa.table({"id": ["one"]}),
    "a narrower type": pa.table({"id": pa.array([1], pa.int32())}),
}


@pytest.mark.parametrize("case", list(MISFITS))
def test_rows_that_do_not_fit_are_refused(filled, case):
    with fails(20, "t"):
        insert(filled, "t", data=MISFITS[case])
    assert version(filled) == 1


def test_nulls_in_a_column_that_is_not_nullable_are_refused(namespace):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    create_table(namespace, "t", data=ipc(pa.table({"id": [1]}, schema=schema)))
    with fails(20):
        insert(namespace, "t", data=pa.table({"id": pa.array([None], pa.int64())}))
    assert count(namespace, "t") == 1


def test_a_declared_table_gets_its_first_version_by_an_insert(namespace):
    declare_table(namespace, "t")
    done = insert(namespace, "t", data=rows(0, 3))
    assert (done.num_inserted_rows, done.version) == (3, 1)
    assert contents(namespace) == old(0, 1, 2)


def test_a_declared_table_gets_its_first_version_by_a_merge(namespace):
    declare_table(namespace, "t")
    done = merge(namespace, "t", data=rows(0, 3), when_matched_update_all=True, when_not_matched_insert_all=True)
    assert (done.num_inserted_rows, done.num_updated_rows, done.version) == (3, 0, 1)
    assert contents(namespace) == old(0, 1, 2)


@pytest.mark.parametrize("case", ["update only", "update if the old row", "delete the rest", "no insert"])
def test_a_merge_into_a_declared_table_creates_it_whatever_its_clauses_are(namespace, case):
    declare_table(namespace, "t")
    clauses = {"when_not_matched_insert_all": False} if case == "no insert" else MERGES[case][0]
    done = merge(namespace, "t", data=rows(0, 3), **clauses)
    assert (done.num_inserted_rows, done.num_updated_rows, done.version) == (3, 0, 1)
    assert contents(namespace) == old(0, 1, 2)


def test_a_merge_into_a_declared_table_by_an_unknown_column_creates_nothing(namespace):
    declare_table(namespace, "t")
    with fails(12, "nope"):
        merge(namespace, "t", data=rows(0, 3), on="nope", when_matched_update_all=True)
    assert describe_table(namespace, "t", check_declared=True).is_only_declared is True


# Merge


MERGES = {
    "upsert": (
        {"when_matched_update_all": True, "when_not_matched_insert_all": True},
        {**old(0, 1, 2), **new(3, 4, 5, 6)},
        (2, 2, 0),
    ),
    "insert only": ({"when_not_matched_insert_all": True}, {**old(0, 1, 2, 3, 4), **new(5, 6)}, (0, 2, 0)),
    "update only": ({"when_matched_update_all": True}, {**old(0, 1, 2), **new(3, 4)}, (2, 0, 0)),
    "update if the old row": (
        {"when_matched_update_all_filt": "target.id > 3"},
        {**old(0, 1, 2, 3), **new(4)},
        (1, 0, 0),
    ),
    "update if the new row": (
        {"when_matched_update_all": True, "when_matched_update_all_filt": "source.text = 'new3'"},
        {**old(0, 1, 2, 4), **new(3)},
        (1, 0, 0),
    ),
    "delete the rest": (
        {"when_matched_update_all": True, "when_not_matched_by_source_delete": True},
        new(3, 4),
        (2, 0, 3),
    ),
    "delete some of the rest": (
        {"when_not_matched_by_source_delete_filt": "id < 2"},
        old(2, 3, 4),
        (0, 0, 2),
    ),
    "replace": (
        {
            "when_matched_update_all": True,
            "when_not_matched_insert_all": True,
            "when_not_matched_by_source_delete": True,
            "use_index": True,
            "timeout": "30s",
        },
        new(3, 4, 5, 6),
        (2, 2, 3),
    ),
}


@pytest.mark.parametrize("case", list(MERGES))
def test_merge_clauses(filled, case):
    clauses, expected, (updated, inserted, deleted) = MERGES[case]
    done = merge(filled, "t", data=rows(3, 7, "new"), **clauses)
    assert contents(filled) == expected
    assert (done.num_updated_rows, done.num_inserted_rows, done.num_deleted_rows) == (updated, inserted, deleted)
    assert done.version == version(filled) == 2


def test_merge_on_several_columns(namespace):
    create_table(namespace, "t", data=ipc({"a": [1, 1, 2], "b": [1, 2, 1], "v": ["x", "x", "x"]}))
    data = {"a": [1, 2], "b": [2, 2], "v": ["y", "y"]}
    done = merge(
        namespace, "t", data=data, on=["a", "b"], when_matched_update_all=True, when_not_matched_insert_all=True
    )
    assert (done.num_updated_rows, done.num_inserted_rows) == (1, 1)
    found = query(namespace, "t").to_pylist()
    assert sorted((row["a"], row["b"], row["v"]) for row in found) == [
        (1, 1, "x"), (1, 2, "y"), (2, 1, "x"), (2, 2, "y")
    ]  # fmt: skip


def test_merge_uses_an_index_or_not(filled):
    dataset(filled, "t").create_scalar_index("id", "BTREE")
    for use in (True, False):
        done = merge(filled, "t", data=rows(3, 4, "new"), when_matched_update_all=True, use_index=use)
        assert done.num_updated_rows == 1


def test_merge_of_nothing_changes_nothing(filled):
    done = merge(filled, "t", data=rows(0, 0), when_matched_update_all=True, when_not_matched_insert_all=True)
    assert (done.num_updated_rows, done.num_inserted_rows, done.num_deleted_rows) == (0, 0, 0)
    assert contents(filled) == old(*range(5))


BAD_MERGES = {
    "no clause": {},
    "bad condition": {"when_matched_update_all_filt": "bad bad"},
    "unknown column in a condition": {"when_matched_update_all_filt": "source.nope = 1"},
    "bad condition to delete": {"when_not_matched_by_source_delete_filt": "id >"},
    "bad timeout": {"when_matched_update_all": True, "timeout": "soon"},
    "nothing to match by": {"when_matched_update_all": True, "on": None},
}


@pytest.mark.parametrize("case", list(BAD_MERGES))
def test_a_bad_merge_is_refused(filled, case):
    with fails(13):
        merge(filled, "t", data=rows(3, 4), **BAD_MERGES[case])
    assert version(filled) == 1


def test_a_merge_with_two_rows_for_one_is_refused(filled):
    with fails(13):
        merge(filled, "t", data=pa.concat_tables([rows(3, 4), rows(3, 4, "new")]), when_matched_update_all=True)
    assert contents(filled) == old(*range(5))


def test_merge_by_an_unknown_column_raises_column_not_found(filled):
    with fails(12, "nope"):
        merge(filled, "t", data=rows(3, 4), on="nope", when_matched_update_all=True)


def test_merged_rows_that_do_not_fit_are_refused(filled):
    for data in (
        pa.table({"id": ["one"], "text": ["x"]}),
        pa.table({"id": [1], "more": [1]}),
        pa.table({"text": ["x"]}),
    ):
        with fails(20):
            merge(filled, "t", data=data, when_matched_update_all=True, when_not_matched_insert_all=True)
    assert version(filled) == 1


# Update


def test_update_sets_columns_to_expressions(filled):
    done = update(filled, "t", to={"text": "concat(text, '!')", "id": "id + 10"}, predicate="id >= 3")
    assert (done.updated_rows, done.version) == (2, 2)
    assert contents(filled) == {**old(0, 1, 2), 13: "old3!", 14: "old4!"}


def test_expressions_of_an_update_read_the_row_before_the_update(namespace):
    """Lance sets the columns one by one in random order. More columns make a wrong order likely."""
    names = [f"c{number}" for number in range(6)]
    table = pa.table({"id": [1, 2, 3], **{name: [number] * 3 for number, name in enumerate(names)}})
    create_table(namespace, "t", data=ipc(table))
    shifted = {name: names[(number + 1) % 6] for number, name in enumerate(names)}
    done = update(namespace, "t", to=shifted, predicate="id < 3")
    assert (done.updated_rows, done.version) == (2, 2)
    found = {row["id"]: [row[name] for name in names] for row in query(namespace, "t").to_pylist()}
    assert found == {1: [1, 2, 3, 4, 5, 0], 2: [1, 2, 3, 4, 5, 0], 3: [0, 1, 2, 3, 4, 5]}


def test_an_update_swaps_two_columns(ours):
    create_table(ours, "t", data=ipc({"a": pa.array([1, 2], pa.int32()), "b": [10, 20], "c": ["a", "b"]}))
    create_table(ours, "u", data=ipc({"a": pa.array([1, 2], pa.int32()), "b": [10, 20], "c": ["a", "b"]}))
    for name, where in (("t", None), ("u", "c = 'b'")):
        delete(ours, name, where="a = 100")
        update(ours, name, to={"a": "b", "b": "a", "c": "concat(c, '-a-b')"}, predicate=where)
        assert query(ours, name).schema == pa.schema([("a", pa.int32()), ("b", pa.int64()), ("c", pa.string())])
    assert sorted(map(str, query(ours, "t").to_pylist())) == [
        "{'a': 10, 'b': 1, 'c': 'a-a-b'}",
        "{'a': 20, 'b': 2, 'c': 'b-a-b'}",
    ]
    assert sorted(map(str, query(ours, "u").to_pylist())) == [
        "{'a': 1, 'b': 10, 'c': 'a'}",
        "{'a': 20, 'b': 2, 'c': 'b-a-b'}",
    ]
    assert update(ours, "t", to={"a": "b", "b": "a"}, predicate="a > 1000").updated_rows == 0
    for bad in ({"a": "b", "b": "a + nope"}, {"a": "b", "b": "cast(c as bigint) + a"}, {"a": "b", "b": "a / 0"}):
        with fails(13):
            update(ours, "t", to=bad)


def test_an_update_swaps_two_columns_despite_concurrent_changes(ours):
    create_table(ours, "t", data=ipc({"id": list(range(20)), "a": [0] * 20, "b": [1] * 20}))

    def work(number: int) -> None:
        update(ours, "t", to={"a": "b", "b": "a"}, predicate=f"id = {number}")
        insert(ours, "t", data={"id": [100 + number], "a": [5], "b": [5]})

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(6)))
    found = {row["id"]: (row["a"], row["b"]) for row in query(ours, "t").to_pylist()}
    assert found == {
        **{number: (1, 0) if number < 6 else (0, 1) for number in range(20)},
        **{100 + number: (5, 5) for number in range(6)},
    }


def test_update_of_all_rows(filled):
    assert update(filled, "t", to={"text": "'x'"}).updated_rows == 5
    assert set(contents(filled).values()) == {"x"}


def test_update_of_no_row(filled):
    assert update(filled, "t", to={"text": "'x'"}, predicate="id > 100").updated_rows == 0
    assert contents(filled) == old(*range(5))


BAD_UPDATES = {
    "nothing": ([], None),
    "no expression": ([["id", "bad bad"]], None),
    "unknown column in the expression": ([["id", "nope + 1"]], None),
    "not of the column's type": ([["id", "'x'"]], None),
    "bad predicate": ([["id", "1"]], "id >"),
    "unknown column in the predicate": ([["id", "1"]], "nope = 1"),
    "column twice": ([["id", "1"], ["id", "2"]], None),
    "fails on the rows": ([["id", "id / 0"]], None),
}


@pytest.mark.parametrize("case", list(BAD_UPDATES))
def test_a_bad_update_is_refused(filled, case):
    changes, predicate = BAD_UPDATES[case]
    with fails(13):
        update(filled, "t", to=changes, predicate=predicate)
    assert version(filled) == 1


def test_update_of_an_unknown_column_raises_column_not_found(filled):
    with fails(12, "nope"):
        update(filled, "t", to={"nope": "1"})
    assert version(filled) == 1


# Delete


def test_delete(filled):
    assert delete(filled, "t", where="id < 2 OR text = 'old4'").version == 2
    assert contents(filled) == old(2, 3)
    assert count(filled, "t", version=1) == 5


def test_delete_of_all_and_of_none(filled):
    delete(filled, "t", where="id > 100")
    assert count(filled, "t") == 5
    delete(filled, "t", where="true")
    assert count(filled, "t") == 0


@pytest.mark.parametrize("where", ["id >", "nope = 1", "id", "", "  ", "id / 0 = 1"])
def test_a_bad_delete_is_refused(filled, where):
    with fails(13):
        delete(filled, "t", where=where)
    assert version(filled) == 1


# Count


def test_count(filled):
    assert count(filled, "t") == 5
    assert count(filled, "t", predicate="id > 2") == 2
    insert(filled, "t", data=rows(5, 7))
    assert count(filled, "t") == 7
    assert count(filled, "t", version=1) == 5


@pytest.mark.parametrize("predicate", ["id >", "nope = 1", "id", "id / 0 = 1", "cast(text as bigint) = 1", ""])
def test_a_bad_predicate_is_refused(filled, predicate):
    with fails(13):
        count(filled, "t", predicate=predicate)


# All of them


def everything(ns, name: tuple[str, ...], **options) -> list:
    """Return each operation on rows as a call."""
    return [
        lambda: count(ns, *name, **options),
        lambda: query(ns, *name, **options),
        lambda: insert(ns, *name, data=rows(0, 1), **options),
        lambda: merge(ns, *name, data=rows(0, 1), when_matched_update_all=True, **options),
        lambda: update(ns, *name, to={"text": "'x'"}, **options),
        lambda: delete(ns, *name, where="true", **options),
        lambda: ns.explain_table_query_plan({"id": list(name), "query": {"k": 1, "vector": {}, **options}}),
        lambda: ns.analyze_table_query_plan({"id": list(name), "k": 1, "vector": {}, **options}),
    ]


def test_a_missing_table_raises_table_not_found(ours):
    for call in everything(ours, ("t",)):
        with fails(4, "t"):
            call()


def test_a_missing_namespace_raises_namespace_not_found(ours):
    for call in everything(ours, ("no", "t")):
        with fails(1, "no"):
            call()


def test_a_missing_branch_raises_branch_not_found(ours):
    create_table(ours, "t", data=ipc(rows(0, 5)))
    for call in everything(ours, ("t",), branch="nope"):
        with fails(22, "nope"):
            call()
    assert contents(ours) == old(*range(5))


def test_a_declared_table_raises_only_declared(ours):
    declare_table(ours, "t")
    calls = everything(ours, ("t",))
    for call in [*calls[:2], *calls[4:]]:
        with fails(19, "declared"):
            call()


@pytest.mark.parametrize("damage", [lambda _: b"", lambda _: b"junk", lambda body: body[:-4]])
def test_a_damaged_table_raises_invalid_table_state(ours, damage):
    location = create_table(ours, "t", data=ipc(rows(0, 5))).location
    (manifest,) = Path(location).glob("_versions/*.manifest")
    manifest.write_bytes(damage(manifest.read_bytes()))
    with DirectoryNamespace(**ours._properties) as fresh, fails(19, "t"):
        count(fresh, "t")


def test_missing_data_files_raise_invalid_table_state(ours):
    location = create_table(ours, "t", data=ipc(rows(0, 5))).location
    for path in Path(location).glob("data/*.lance"):
        path.unlink()
    with fails(19, "t"):
        query(ours, "t")


def parts(start: int, stop: int) -> bytes:
    """Return a stream of several batches."""
    return ipc(pa.concat_tables([rows(number, number + 1) for number in range(start, stop)]))


class InterruptedStream(io.BytesIO):
    """A stream that calls a function while it is read."""

    def __init__(self, data: bytes, happens) -> None:
        super().__init__(data)
        self._happens, self._midst = happens, len(data) // 2

    def read(self, size: int | None = -1) -> bytes:
        if self._happens is not None and self.tell() > self._midst:
            happens, self._happens = self._happens, None
            happens()
        return super().read(size)


def test_an_incompatible_concurrent_commit_raises_conflict(ours):
    create_table(ours, "t", data=ipc(rows(0, 5)))
    with DirectoryNamespace(**ours._properties) as other:
        stream = InterruptedStream(parts(5, 9), lambda: insert(other, "t", data=rows(0, 1, "new"), mode="overwrite"))
        ours_before = ours._open_table(("t",), shared=True)
        with fails(14):
            insert(ours, "t", data=stream)
    assert ours_before.version == 1
    assert contents(ours) == new(0)


def test_a_compatible_concurrent_commit_succeeds(ours):
    create_table(ours, "t", data=ipc(rows(0, 5)))
    with DirectoryNamespace(**ours._properties) as other:
        stream = InterruptedStream(parts(5, 9), lambda: insert(other, "t", data=rows(9, 10)))
        done = insert(ours, "t", data=stream)
        assert (done.version, done.num_inserted_rows) == (3, 4)
    assert contents(ours) == old(*range(10))


@pytest.mark.parametrize("made_anew", [False, True])
def test_changing_a_table_that_is_purged_raises_conflict(ours, made_anew):
    create_table(ours, "t", data=ipc(rows(0, 5)))

    with DirectoryNamespace(**ours._properties) as other:

        def purge() -> None:
            remove_table(other, "t")
            if made_anew:
                create_table(other, "t", data=ipc(rows(0, 1, "new")))

        with fails(14):
            insert(ours, "t", data=InterruptedStream(parts(5, 9), purge))
    if made_anew:
        assert contents(ours) == new(0)
        assert version(ours) == 1
    else:
        assert list_tables(ours) == []


@pytest.mark.parametrize("made_anew", [False, True])
def test_changing_a_managed_table_that_is_dropped_raises_conflict(tmp_path, made_anew):
    with opened("managed", tmp_path / "root") as ns, DirectoryNamespace(**ns._properties) as other:
        create_table(ns, "t", data=ipc(rows(0, 5)))

        def drop() -> None:
            drop_table(other, "t")
            if made_anew:
                create_table(other, "t", data=ipc(rows(0, 1, "new")))

        for change in (
            lambda: insert(ns, "t", data=InterruptedStream(parts(5, 9), drop)),
            lambda: merge(ns, "t", data=InterruptedStream(parts(4, 9), drop), when_matched_update_all=True),
        ):
            with fails(14, "dropped or replaced"):
                change()
            if made_anew:
                assert contents(ns) == new(0)
                remove_table(ns, "t")
            ns.undrop_table(["t"])
            assert contents(ns) == old(*range(5))


def test_changes_on_a_branch_stay_there(ours):
    create_table(ours, "t", data=ipc(rows(0, 5)))
    ours._open_table(("t",)).create_branch("side")
    insert(ours, "t", data=rows(5, 8), branch="side")
    update(ours, "t", to={"text": "'x'"}, predicate="id = 0", branch="side")
    delete(ours, "t", where="id = 1", branch="side")
    merge(ours, "t", data=rows(2, 3, "new"), when_matched_update_all=True, branch="side")
    found = query(ours, "t", branch="side")
    texts = dict(zip(ids(found), found["text"].to_pylist(), strict=True))
    assert texts == {0: "x", **new(2), **old(3, 4, 5, 6, 7)}
    assert count(ours, "t", branch="side", predicate="id > 4") == 3
    assert contents(ours) == old(*range(5))


def test_every_change_of_a_managed_table_is_a_row_of_the_catalog(tmp_path):
    with opened("managed", tmp_path / "root") as ns:
        create_table(ns, "t", data=ipc(rows(0, 5)))
        changes = [
            lambda: insert(ns, "t", data=rows(5, 8)),
            lambda: merge(ns, "t", data=rows(4, 9), when_matched_update_all=True, when_not_matched_insert_all=True),
            lambda: update(ns, "t", to={"text": "'x'"}),
            lambda: delete(ns, "t", where="id = 0"),
            lambda: insert(ns, "t", data=rows(0, 1), mode="overwrite"),
        ]
        for number, change in enumerate(changes, 2):
            assert change().version == number
            with DirectoryNamespace(**ns._properties) as fresh:
                manifest = fresh._catalog.manifest
                assert manifest.read(lambda snapshot: snapshot.versions_of(object_id(("t",))))[-1] == number


def test_properties_of_an_update_are_not_supported(ours):
    create_table(ours, "t", data=ipc(rows(0, 5)))
    with fails(0):
        update(ours, "t", to={"text": "'x'"}, properties={"a": "b"})
