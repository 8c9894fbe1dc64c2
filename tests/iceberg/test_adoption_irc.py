"""Tables that are written first and come into the catalog then, alone or together with changes of others."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.fragment import write_fragments
from lance_namespace.errors import LanceNamespaceError

from pennon import IcebergNamespace, NewTable, TableCommit
from tests.iceberg.irc_servers import ALL, is_there
from tests.support import create_table, declare_table, describe_table, drop_table, fails, list_tables

SERVERS = ALL


def written(catalog: IcebergNamespace, space: str, table: str, *values: int) -> str:
    """Write a table at a place of its own."""
    place = catalog.new_table_location([space, table])
    lance.write_dataset(pa.table({"x": list(values)}), place)
    return place


def values(catalog: IcebergNamespace, space: str, table: str) -> list[int]:
    return lance.dataset(namespace_client=catalog, table_id=[space, table]).to_table()["x"].to_pylist()


def appended(catalog: IcebergNamespace, space: str, table: str, *values: int) -> TableCommit:
    location = describe_table(catalog, space, table).location
    fragments = write_fragments(pa.table({"x": list(values)}), location)
    version = describe_table(catalog, space, table, load_detailed_metadata=True).version
    return TableCommit([space, table], LanceOperation.Append(fragments), version)


@pytest.fixture
def managed(catalog, managed_by) -> IcebergNamespace:
    """Leave out tables whose files decide about versions."""
    if managed_by != "impl":
        pytest.skip("one commit for several tables needs managed_by=impl")
    return catalog


def test_a_table_is_adopted_where_it_was_written(catalog, space, managed_by):
    place = written(catalog, space, "t", 1, 2)
    assert list_tables(catalog, space) == []
    assert catalog.adopt_table([space, "t"], place, {"owner": "me"}) == 1
    found = describe_table(catalog, space, "t")
    assert (found.location, found.properties["owner"]) == (place, "me")
    assert bool(found.managed_versioning) == (managed_by == "impl")
    assert values(catalog, space, "t") == [1, 2]
    lance.write_dataset(pa.table({"x": [3]}), namespace_client=catalog, table_id=[space, "t"], mode="append")
    assert values(catalog, space, "t") == [1, 2, 3]
    with fails(5):
        catalog.new_table_location([space, "t"])
    drop_table(catalog, space, "t", purge="true")
    assert not is_there(catalog, place)


def test_a_declared_table_is_filled_by_what_was_written(catalog, space):
    declare_table(catalog, space, "t", properties={"kept": "yes"})
    place = written(catalog, space, "t", 1)
    catalog.adopt_table([space, "t"], place)
    found = describe_table(catalog, space, "t", check_declared=True)
    assert (found.is_only_declared, found.properties["kept"]) == (False, "yes")
    assert values(catalog, space, "t") == [1]
    drop_table(catalog, space, "t", purge="true")
    assert not is_there(catalog, found.location)
    assert not is_there(catalog, place)


def test_what_cannot_be_adopted_changes_nothing(catalog, space, tmp_path, client_root):
    elsewhere = str(tmp_path / "elsewhere")
    lance.write_dataset(pa.table({"x": [1]}), elsewhere)
    taken = create_table(catalog, space, "taken").location
    lance.write_dataset(pa.table({"x": [1]}), f"{client_root}/plain")
    for place in (elsewhere, client_root, f"{client_root}/plain", "", "../x"):
        with fails(13):
            catalog.adopt_table([space, "t"], place)
    with fails(13):
        catalog.adopt_table([space, "t"], catalog.new_table_location([space, "t"]))
    with fails(1):
        catalog.new_table_location(["none", "t"])
    with fails(13):
        catalog.new_table_location(["t"])
    place = written(catalog, space, "t", 1)
    with fails(5):
        catalog.adopt_table([space, "taken"], place)
    assert lance.dataset(place).to_table()["x"].to_pylist() == [1]
    assert list_tables(catalog, space) == ["taken"]
    assert describe_table(catalog, space, "taken").location == taken
    assert is_there(catalog, place)


def test_of_many_that_adopt_one_name_exactly_one_wins(catalog, space):
    places = [written(catalog, space, "t", number) for number in range(4)]
    begin = threading.Barrier(len(places))

    def adopt(place: str) -> int | None:
        begin.wait()
        try:
            catalog.adopt_table([space, "t"], place)
        except LanceNamespaceError as error:
            return int(error.code)
        return None

    with ThreadPoolExecutor(len(places)) as pool:
        codes = list(pool.map(adopt, places))
    assert sorted(code for code in codes if code is not None) == [5, 5, 5]
    winner = codes.index(None)
    assert values(catalog, space, "t") == [winner]
    assert describe_table(catalog, space, "t").location == places[winner]
    assert all(is_there(catalog, place) for place in places)


def test_new_tables_and_changes_are_shown_together(managed, space):
    create_table(managed, space, "old")
    declare_table(managed, space, "declared")
    parts = [appended(managed, space, "old", 4)]
    parts += [NewTable([space, name], written(managed, space, name, 7)) for name in ("new", "declared")]
    told: list[dict[Any, int]] = []
    made = managed.commit_tables(parts, lambda versions: told.append(dict(versions)))
    assert told == [{(space, "old"): 2}]
    assert made == {(space, "old"): 2, (space, "new"): 1, (space, "declared"): 1}
    assert [values(managed, space, name) for name in ("old", "new", "declared")] == [[1, 2, 3, 4], [7], [7]]
    assert managed.latest_table_versions([[space, "old"], [space, "new"]]) == [2, 1]


def test_a_check_that_fails_shows_nothing(managed, space):
    create_table(managed, space, "old")

    def refuse(_: object) -> None:
        raise ZeroDivisionError

    place = written(managed, space, "new", 7)
    with pytest.raises(ZeroDivisionError):
        managed.commit_tables([appended(managed, space, "old", 4), NewTable([space, "new"], place)], refuse)
    assert list_tables(managed, space) == ["old"]
    assert values(managed, space, "old") == [1, 2, 3]
    for directory in (describe_table(managed, space, "old").location, place):
        versions = managed._places.store(directory, managed._catalog.options(None)).list_names("_versions")
        assert not [name for name in versions if ".manifest-" in name]
    assert lance.dataset(place).to_table()["x"].to_pylist() == [7]


def test_what_a_dead_client_declared_is_filled_by_the_next_one(managed, space):
    dead = written(managed, space, "t", 1)
    # It took the name, and came no further.
    declare_table(managed, space, "t", location=dead.rpartition("/")[2] + "-declared")
    with fails(0, "declared with a location"):
        managed.commit_tables([NewTable([space, "t"], dead)])
    drop_table(managed, space, "t", purge="true")
    declare_table(managed, space, "t")
    before = describe_table(managed, space, "t").location
    managed.commit_tables([NewTable([space, "t"], written(managed, space, "t", 2))])
    assert values(managed, space, "t") == [2]
    assert describe_table(managed, space, "t").location != before


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_adopts_once(catalog, space, connect, lossy, when):
    managed_by = catalog._properties["managed_by"]
    is_update = managed_by == "impl" and not catalog._catalog.shows_files
    through = connect(lossy.uri, managed_by=managed_by)
    declare_table(through, space, "probe")
    place = written(catalog, space, "t", 1)
    lossy.lose("POST", "/tables/t" if is_update else "/tables", when)
    assert through.adopt_table([space, "t"], place) == 1
    assert len(lossy.lost) == 1
    assert values(catalog, space, "t") == [1]
    assert describe_table(catalog, space, "t").location == place


def test_tables_that_the_files_decide_about_are_refused(catalog, space, managed_by):
    if managed_by == "impl":
        catalog.require_common_commits([[space, "new"], [space, "newer"]])
        return
    create_table(catalog, space, "old")
    for ids in ([[space, "old"]], [[space, "new"]]):
        with fails(0, ids[0][1]):
            catalog.require_common_commits(ids)
    with fails(0, "old"):
        catalog.latest_table_versions([[space, "old"]])
    with fails(0, "new"):
        catalog.commit_tables([NewTable([space, "new"], written(catalog, space, "new", 1))])
    assert list_tables(catalog, space) == ["old"]
