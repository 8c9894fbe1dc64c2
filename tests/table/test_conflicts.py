"""Changes by other clients between the opening of a table and the commit of an operation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from lance_namespace.errors import LanceNamespaceError

from pennon.directory.lifecycle import create
from pennon.table import naming, tags
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
from tests.table.kinds import opened as kind_opened
from tests.table.tables import append, by_path, opened, values, version


@pytest.fixture
def filled(ours):
    """Return a namespace whose table `t` has five rows."""
    create_table(ours, "t", data=ipc({"x": pa.array(range(5), pa.int64()), "y": pa.array(range(5), pa.int64())}))
    return ours


@pytest.fixture
def between(filled, monkeypatch):
    """Call a function right after the next operation has opened the table."""
    return partial(happening, filled, monkeypatch)


def happening(ns, monkeypatch, action):
    original = ns._open_table

    def interrupted(*arguments, **options):
        dataset = original(*arguments, **options)
        monkeypatch.undo()
        action()
        return dataset

    monkeypatch.setattr(ns, "_open_table", interrupted)


def row(number):
    return {"x": [number], "y": [number]}


def add(ns, name="z"):
    return ns.alter_table_add_columns({"id": ["t"], "new_columns": [{"name": name, "expression": "x * 2"}]})


def index(ns, name="i", kind="BTREE"):
    return ns.create_table_index({"id": ["t"], "column": "x", "index_type": kind, "name": name})


def test_adding_a_column_during_an_append_raises_conflict_and_keeps_the_row(filled, between):
    between(lambda: append(filled, "t", row(9)))
    with fails(14):
        add(filled)
    assert values(filled) == [0, 1, 2, 3, 4, 9]
    assert version(filled) == 2
    assert add(filled).version == 3
    assert values(filled, column="z") == [0, 2, 4, 6, 8, 18]


def test_adding_a_column_that_another_client_adds_raises_conflict(filled, between):
    between(lambda: add(filled))
    with fails(14):
        add(filled)
    assert opened(filled).schema.names == ["x", "y", "z"]
    assert version(filled) == 2


def test_casting_during_an_append_raises_conflict_and_keeps_the_row(filled, between):
    between(lambda: append(filled, "t", row(9)))
    with fails(14):
        filled.alter_table_alter_columns({"id": ["t"], "alterations": [{"path": "x", "data_type": {"type": "int32"}}]})
    assert values(filled) == [0, 1, 2, 3, 4, 9]
    assert opened(filled).schema.field("x").type == pa.int64()


def cast(ns, path="x"):
    return ns.alter_table_alter_columns({"id": ["t"], "alterations": [{"path": path, "data_type": {"type": "int32"}}]})


def test_inserting_during_a_cast_raises_conflict_and_inserts_nothing(filled, between):
    between(lambda: cast(filled))
    with fails(14, "'x'"):
        filled.insert_into_table({"id": ["t"]}, ipc(row(9)))
    assert values(filled) == [0, 1, 2, 3, 4]
    assert values(filled, column="y") == [0, 1, 2, 3, 4]
    assert version(filled) == by_path(filled).version
    filled.insert_into_table({"id": ["t"]}, ipc({"x": pa.array([9], pa.int32()), "y": [9]}))
    assert values(filled) == [0, 1, 2, 3, 4, 9]


def test_inserting_during_an_insert_and_a_new_column_keeps_all_rows(filled, between):
    between(lambda: (append(filled, "t", row(8)), add(filled)))
    filled.insert_into_table({"id": ["t"]}, ipc(row(9)))
    assert values(filled) == [0, 1, 2, 3, 4, 8, 9]


def test_merging_during_a_cast_loses_no_values(filled, between):
    between(lambda: cast(filled, "y"))
    try:
        filled.merge_insert_into_table({"id": ["t"], "on": ["x"], "when_not_matched_insert_all": True}, ipc(row(9)))
    except LanceNamespaceError as error:
        assert int(error.code) in {13, 14, 20}  # noqa: PT017 - one of two outcomes
    assert values(filled, column="y") in ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 9])


def test_renaming_during_an_append_keeps_both(filled, between):
    between(lambda: append(filled, "t", row(9)))
    filled.alter_table_alter_columns({"id": ["t"], "alterations": [{"path": "x", "rename": "xx"}]})
    assert values(filled, column="xx") == [0, 1, 2, 3, 4, 9]


def test_dropping_during_an_append_keeps_the_other_columns(filled, between):
    between(lambda: append(filled, "t", row(9)))
    assert filled.alter_table_drop_columns({"id": ["t"], "columns": ["y"]}).version == 3
    assert values(filled) == [0, 1, 2, 3, 4, 9]
    assert opened(filled).schema.names == ["x"]


def test_an_index_that_another_client_creates_raises_index_exists(filled, between):
    between(lambda: index(filled, kind="BITMAP"))
    with fails(7):
        index(filled)
    (found,) = filled.list_table_indices({"id": ["t"]}).indexes
    assert (found.index_type, found.num_segments) == ("Bitmap", 1)
    assert version(filled) == 2


def test_an_index_is_created_despite_another_one_and_an_append(filled, between):
    between(lambda: (index(filled, "j"), append(filled, "t", row(9))))
    index(filled)
    found = {one.index_name: one for one in filled.list_table_indices({"id": ["t"]}).indexes}
    assert set(found) == {"i", "j"}
    assert found["i"].num_unindexed_rows == 1


def test_an_index_on_a_column_that_is_dropped_is_not_left_behind(filled, between):
    between(lambda: filled.alter_table_drop_columns({"id": ["t"], "columns": ["x"]}))
    with fails(14):
        index(filled)
    assert filled.list_table_indices({"id": ["t"]}).indexes == []
    assert opened(filled).to_table(filter="y = 1").to_pydict() == {"y": [1]}


def drop_index(ns, name="i", branch=None):
    return ns.drop_table_index({"id": ["t"], "index_name": name, "branch": branch})


@pytest.mark.parametrize("branch", [None, "side"])
def test_dropping_an_index_that_another_client_drops_raises_index_not_found(filled, between, branch):
    index(filled)
    if branch is not None:
        filled.create_table_branch({"id": ["t"], "name": branch})
    between(lambda: drop_index(filled, branch=branch))
    with fails(6, "'i'"):
        drop_index(filled, branch=branch)
    assert filled.list_table_indices({"id": ["t"], "branch": branch}).indexes == []


def test_dropping_an_index_that_another_client_rebuilds_keeps_the_new_one(filled, between):
    index(filled)
    between(lambda: (drop_index(filled), index(filled, kind="BITMAP")))
    with fails(14):
        drop_index(filled)
    assert [one.index_type for one in filled.list_table_indices({"id": ["t"]}).indexes] == ["Bitmap"]


def test_dropping_an_index_during_an_append_and_another_drop_succeeds(filled, between):
    index(filled)
    index(filled, "j")
    between(lambda: (append(filled, "t", row(9)), drop_index(filled, "j")))
    drop_index(filled)
    assert filled.list_table_indices({"id": ["t"]}).indexes == []


def test_metadata_during_other_metadata_raises_conflict(filled, between):
    between(lambda: filled.update_table_schema_metadata({"id": ["t"], "metadata": {"a": "1"}}))
    with fails(14):
        filled.update_table_schema_metadata({"id": ["t"], "metadata": {"b": "1"}})
    assert opened(filled).schema.metadata == {b"a": b"1"}


def test_field_metadata_during_the_same_field_raises_conflict(filled, between):
    def update(**metadata):
        return filled.update_field_metadata({"id": ["t"], "updates": [{"path": "x", "metadata": metadata}]})

    between(lambda: update(a="1"))
    with fails(14):
        update(b="2")
    assert opened(filled).schema.field("x").metadata == {b"a": b"1"}


def test_a_restore_during_an_append_leaves_it_in_the_history(filled, between):
    append(filled, "t", row(8))
    between(lambda: append(filled, "t", row(9)))
    filled.restore_table({"id": ["t"], "version": 1})
    assert values(filled) == [0, 1, 2, 3, 4]
    assert values(filled, version=3) == [0, 1, 2, 3, 4, 8, 9]
    assert version(filled) == 4


def test_a_backfill_during_an_append_leaves_the_new_row_for_the_next_one(filled, between):
    filled.alter_table_add_columns({"id": ["t"], "new_columns": [{"name": "c", "computed": "x * 2"}]})
    between(lambda: append(filled, "t", row(9)))
    filled.alter_table_backfill_columns({"id": ["t"], "column": "c"})
    assert values(filled, column="c") == [0, 2, 4, 6, 8, None]
    assert values(filled) == [0, 1, 2, 3, 4, 9]


def test_updating_a_tag_that_another_client_deletes_raises_tag_not_found(filled, between):
    filled.create_table_tag({"id": ["t"], "tag": "a", "version": 1})
    between(lambda: filled.delete_table_tag({"id": ["t"], "tag": "a"}))
    with fails(8):
        filled.delete_table_tag({"id": ["t"], "tag": "a"})


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_tag_on_a_table_that_is_recreated_raises_conflict_or_exists(filled, between, monkeypatch, moment):
    def recreate():
        remove_table(filled, "t")
        create_table(filled, "t", data=ipc(row(7)))

    if moment == "before":
        between(recreate)
    else:
        original = tags.create

        def interrupted(*arguments):
            original(*arguments)
            recreate()

        monkeypatch.setattr(tags, "create", interrupted)
    try:
        filled.create_table_tag({"id": ["t"], "tag": "a", "version": 1})
    except LanceNamespaceError as error:
        assert int(error.code) in {11, 14}  # noqa: PT017 - one of two outcomes
        assert filled.list_table_tags({"id": ["t"]}).tags == {}
    else:
        # A root table is created again in the same place.
        assert describe_table(filled, "t").location.endswith("t.lance")
        assert list(filled.list_table_tags({"id": ["t"]}).tags) == (["a"] if moment == "before" else [])


GONE = {
    "index": ("create_table_index", {"column": "x", "index_type": "BTREE"}),
    "drop index": ("drop_table_index", {"index_name": "there"}),
    "add": ("alter_table_add_columns", {"new_columns": [{"name": "z", "expression": "x"}]}),
    "declare": ("alter_table_add_columns", {"new_columns": [{"name": "z", "computed": "x"}]}),
    "cast": ("alter_table_alter_columns", {"alterations": [{"path": "x", "data_type": {"type": "int32"}}]}),
    "rename": ("alter_table_alter_columns", {"alterations": [{"path": "x", "rename": "z"}]}),
    "drop": ("alter_table_drop_columns", {"columns": ["y"]}),
    "schema metadata": ("update_table_schema_metadata", {"metadata": {"a": "b"}}),
    "field metadata": ("update_field_metadata", {"updates": [{"path": "x", "metadata": {"a": "b"}}]}),
    "restore": ("restore_table", {"version": 1}),
    "insert": ("insert_into_table", {}, row(9)),
    "overwrite": ("insert_into_table", {"mode": "overwrite"}, row(9)),
    "merge": ("merge_insert_into_table", {"on": ["x"], "when_not_matched_insert_all": True}, row(9)),
    "update": ("update_table", {"updates": [["y", "1"]]}),
    "swap": ("update_table", {"updates": [["x", "y"], ["y", "x"]]}),
    "delete": ("delete_from_table", {"predicate": "x = 1"}),
    "delete all": ("delete_from_table", {"predicate": "true"}),
    "insert into a branch": ("insert_into_table", {"branch": "side"}, row(9)),
    "rename in a branch": (
        "alter_table_alter_columns",
        {"branch": "side", "alterations": [{"path": "x", "rename": "z"}]},
    ),
}
LEAVES_NO_OLD_ROWS = {"overwrite", "delete all"}


def prepared(ns):
    ns.create_table_index({"id": ["t"], "column": "y", "index_type": "BTREE", "name": "there"})
    ns.create_table_branch({"id": ["t"], "name": "side"})


def change(ns, case):
    operation, asked, *rows = GONE[case]
    return getattr(ns, operation)({"id": ["t"], **asked}, *(ipc(data) for data in rows))


def left_of_tables(ns):
    """Return the files in the directories of tables."""
    root = Path(ns._properties["root"])
    folders = [folder for folder in root.iterdir() if folder.name not in {"__manifest", ".lance-locks"}]
    return sorted(str(path.relative_to(root)) for folder in folders for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("case", list(GONE))
def test_changing_a_purged_table_raises_conflict_and_leaves_nothing(filled, between, case):
    prepared(filled)
    between(lambda: remove_table(filled, "t"))
    if case in LEAVES_NO_OLD_ROWS and filled.describe_table({"id": ["t"]}).location.endswith("t.lance"):
        pytest.skip("it stands, see the next test")
    with fails(14):
        change(filled, case)
    assert list_tables(filled) == []
    assert left_of_tables(filled) == []


@pytest.mark.parametrize("case", sorted(LEAVES_NO_OLD_ROWS))
def test_a_purged_root_table_without_old_rows_is_complete(tmp_path, monkeypatch, case):
    """It looks like a table whose old versions were cleaned up, which must not be deleted."""
    with kind_opened("v1", tmp_path / "root") as ns:
        create_table(ns, "t", data=ipc(row(1)))
        happening(ns, monkeypatch, lambda: remove_table(ns, "t"))
        change(ns, case)
        assert values(ns) == ([9] if case == "overwrite" else [])


@pytest.mark.parametrize("case", list(GONE))
def test_changing_a_recreated_table_raises_conflict_and_keeps_it(filled, between, case):
    prepared(filled)

    def recreate():
        remove_table(filled, "t")
        create_table(filled, "t", data=ipc(row(7)))

    between(recreate)
    with fails(14):
        change(filled, case)
    assert values(filled) == [7]
    assert opened(filled).schema.names == ["x", "y"]
    assert version(filled) == by_path(filled).version == 1
    expected = left_of_tables(filled)
    remove_table(filled, "t")
    create_table(filled, "t", data=ipc(row(7)))
    assert len(left_of_tables(filled)) == len(expected)


@pytest.mark.parametrize("case", ["insert", "rename", "overwrite", "delete all", "insert into a branch"])
def test_a_change_is_kept_if_its_base_is_cleaned_up(filled, monkeypatch, case):
    prepared(filled)
    original = filled._require_base

    def cleaned(identifier, base, made):
        location = filled.describe_table({"id": ["t"]}).location + ("/tree/side" if base.branch else "")
        for file in Path(location, "_versions").glob("*.manifest"):
            if naming.parse_name(file.name)[0] < made.version:
                file.unlink()
        return original(identifier, base, made)

    monkeypatch.setattr(filled, "_require_base", cleaned)
    change(filled, case)
    monkeypatch.undo()
    expected = {"insert": 6, "rename": 5, "overwrite": 1, "delete all": 0, "insert into a branch": 6}[case]
    assert filled.count_table_rows({"id": ["t"], **GONE[case][1]}).count == expected


def test_a_commit_to_a_dropped_table_is_restored_with_it(filled, between):
    if filled.describe_table({"id": ["t"]}).managed_versioning:
        pytest.skip("a managed table refuses the commit, see test_changing")
    between(lambda: drop_table(filled, "t"))
    assert filled.insert_into_table({"id": ["t"]}, ipc(row(9))).version == 2
    assert list_tables(filled) == []
    filled.undrop_table(["t"])
    assert values(filled) == [0, 1, 2, 3, 4, 9]


def test_a_purged_table_that_is_declared_again_stays_declared(filled, between):
    def recreate():
        remove_table(filled, "t")
        declare_table(filled, "t")

    between(recreate)
    with fails(14):
        change(filled, "rename")
    assert describe_table(filled, "t", check_declared=True).is_only_declared is True
    filled.insert_into_table({"id": ["t"]}, ipc(row(9)))
    assert values(filled) == [9]


@pytest.mark.parametrize("change_rows", ["insert_into_table", "merge_insert_into_table"])
@pytest.mark.parametrize("drop", [drop_table, remove_table])
@pytest.mark.parametrize("moment", ["before the look", "after the look"])
def test_a_declared_table_that_is_dropped_before_it_is_filled_is_not_recreated(
    ours, monkeypatch, change_rows, drop, moment
):
    declare_table(ours, "t")
    if moment == "before the look":
        original = ours._fill_table

        def dropped(*arguments):
            drop(ours, "t")
            return original(*arguments)

        monkeypatch.setattr(ours, "_fill_table", dropped)
    else:
        kind_of = create.kind_of

        def interrupted(table):
            monkeypatch.undo()
            drop(ours, "t")
            return kind_of(table)

        monkeypatch.setattr(create, "kind_of", interrupted)
    asked = {"id": ["t"]} if change_rows == "insert_into_table" else {"id": ["t"], **GONE["merge"][1]}
    with pytest.raises(LanceNamespaceError) as told:
        getattr(ours, change_rows)(asked, ipc(row(9)))
    assert int(told.value.code) in {4, 14}
    assert list_tables(ours) == []
