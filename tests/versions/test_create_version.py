"""create_table_version and batch_create_table_versions, with and without version management."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from lance_namespace import (
    BatchCreateTableVersionsRequest,
    CreateTableVersionRequest,
    DeclareTableRequest,
)

from pennon.errors import TableVersionAlreadyExistsError
from tests.support import create_namespace, fails


def final_name(version: int, scheme: str = "V2") -> str:
    return f"{2**64 - 1 - version:020}.manifest" if scheme == "V2" else f"{version}.manifest"


def state(shelf, *names: str) -> tuple:
    """Return everything that a refused request must leave unchanged."""
    tables = tuple((tuple(shelf.files(shelf.location(name))), shelf.list_versions(name)) for name in names)
    return tables, shelf.manifest().version if shelf.is_managed else None


@pytest.mark.parametrize("as_model", [False, True])
def test_staged_manifest_becomes_the_next_version(shelf, as_model):
    location = shelf.create("t", [1, 2])
    request = shelf.stage("t", [3])
    assert shelf.rows("t") == [1, 2]
    answer = shelf.ns.create_table_version(CreateTableVersionRequest(**request) if as_model else request)
    version = answer.version
    assert version.version == 2
    assert version.manifest_path.endswith("/_versions/" + final_name(2))
    assert version.manifest_size == request["manifest_size"]
    assert shelf.files(location) == [final_name(2), final_name(1)]
    assert shelf.rows("t") == shelf.plain_rows("t") == [1, 2, 3]
    assert shelf.open_plain("t").version == 2
    if shelf.is_managed:
        row = shelf.row("t", 2)
        assert version.manifest_path.endswith(row["manifest_path"])
        assert row["manifest_path"].endswith(final_name(2))
        assert row["staged_path"] != row["manifest_path"]
        assert row["naming_scheme"] == "V2"


def test_requested_v1_naming_scheme_is_used(near_shelf):
    shelf = near_shelf
    location = shelf.create("t", [1])
    request = shelf.stage("t", [2])
    body = shelf._store.get(shelf._store.from_absolute(request["manifest_path"])).body
    folder = request["manifest_path"].rpartition("/")[0]
    path = f"{folder}/2.manifest-c0ffee"
    shelf._store.put(shelf._store.from_absolute(path), body)
    shelf._store.delete(shelf._store.from_absolute(request["manifest_path"]))
    answer = shelf.ns.create_table_version(
        {"id": shelf.id("t"), "version": 2, "manifest_path": path, "naming_scheme": "V1"}
    )
    assert answer.version.manifest_path == f"{folder}/2.manifest"
    assert shelf.files(location) == sorted([final_name(1), final_name(2, "V1")])
    assert shelf.list_versions("t") == [1, 2]
    assert shelf.describe_version("t", 2).manifest_path == f"{folder}/2.manifest"


def test_naming_scheme_defaults_to_that_of_the_staged_name(near_shelf):
    shelf = near_shelf
    location = shelf.create("t", [1])
    request = shelf.stage("t", [2])
    del request["naming_scheme"]
    shelf.ns.create_table_version(request)
    assert shelf.files(location) == [final_name(2), final_name(1)]


def test_existing_version_is_a_conflict(shelf):
    location = shelf.create("t", [1])
    late, early = shelf.stage("t", [2]), shelf.stage("t", [3])
    shelf.ns.create_table_version(early)
    before = state(shelf, "t")
    with pytest.raises(TableVersionAlreadyExistsError) as caught:
        shelf.ns.create_table_version(late)
    assert int(caught.value.code) == 14
    assert caught.value.spec_code == 12
    assert "'t'" in str(caught.value).replace("a.b.", "")
    assert state(shelf, "t") == before
    assert len(shelf.staged_files(location)) == 1, "the loser's file is the loser's own"
    assert shelf.rows("t") == [1, 3]
    # So does each older version.
    first = {**late, "version": 1, "manifest_path": late["manifest_path"].replace(final_name(2), final_name(1))}
    shelf._store.put(
        shelf._store.from_absolute(first["manifest_path"]),
        shelf._store.get(shelf._store.from_absolute(late["manifest_path"])).body,
    )
    with fails(14, "already exists"):
        shelf.ns.create_table_version(first)


def test_version_after_a_gap_is_a_conflict(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1])
    request = shelf.stage("t", [2])
    path = request["manifest_path"].replace(final_name(2), final_name(3))
    body = shelf._store.get(shelf._store.from_absolute(request["manifest_path"])).body
    shelf._store.put(shelf._store.from_absolute(path), body)
    before = state(shelf, "t")
    with fails(14, "the latest is 1"):
        shelf.ns.create_table_version({**request, "version": 3, "manifest_path": path})
    assert state(shelf, "t") == before


def test_number_of_a_deleted_version_is_not_reused(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1], [2], [3])
    request = shelf.stage("t", [4])
    path = request["manifest_path"].replace(final_name(4), final_name(1))
    body = shelf._store.get(shelf._store.from_absolute(request["manifest_path"])).body
    shelf._store.put(shelf._store.from_absolute(path), body)
    shelf.delete("t", (1, 2))
    before = state(shelf, "t")
    with fails(14):
        shelf.ns.create_table_version({**request, "version": 1, "manifest_path": path})
    assert state(shelf, "t") == before


def test_repeated_request_succeeds(managed_shelf):
    """The first response was lost, and the staged file was deleted."""
    shelf = managed_shelf
    shelf.create("t", [1])
    request = shelf.stage("t", [2])
    first, again = shelf.ns.create_table_version(request), shelf.ns.create_table_version(request)
    assert again.version.version == first.version.version == 2
    assert again.version.manifest_path == first.version.manifest_path
    shelf.append("t", [3])
    assert shelf.ns.create_table_version(request).version.version == 2
    batch = shelf.ns.batch_create_table_versions({"entries": [request]})
    assert [one.version for one in batch.versions] == [2]
    assert shelf.rows("t") == [1, 2, 3]
    shelf.check_same("t")


@pytest.mark.parametrize("place", ["v1", "v2", "compatibility"])
def test_repeated_request_without_version_management_raises_already_exists(new_shelf, place):
    shelf = new_shelf("local", place)
    shelf.create("t", [1])
    request = shelf.stage("t", [2])
    shelf.ns.create_table_version(request)
    with fails(14, "already exists"):
        shelf.ns.create_table_version(request)
    assert shelf.list_versions("t") == [1, 2]


def test_repeated_request_succeeds_while_the_staged_file_exists(shelf):
    """The first writer died before it deleted the staged file."""
    shelf.create("t", [1])
    request = shelf.stage("t", [2])
    path = shelf._store.from_absolute(request["manifest_path"])
    body = shelf._store.get(path).body
    first = shelf.ns.create_table_version(request)
    shelf._store.put(path, body)
    again = shelf.ns.create_table_version(request)
    assert again.version.version == first.version.version == 2
    assert again.version.manifest_path == first.version.manifest_path
    assert shelf.list_versions("t") == [1, 2]
    assert shelf.rows("t") == [1, 2]


def test_identical_manifest_staged_again_succeeds(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1])
    request = shelf.stage("t", [2])
    body = shelf._store.get(shelf._store.from_absolute(request["manifest_path"])).body
    shelf.ns.create_table_version(request)
    path = request["manifest_path"] + "-again"
    shelf._store.put(shelf._store.from_absolute(path), body)
    assert shelf.ns.create_table_version({**request, "manifest_path": path}).version.version == 2
    assert shelf.list_versions("t") == [1, 2]


def test_bad_requests_change_nothing(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1])
    shelf.create("other", [1])
    request, foreign = shelf.stage("t", [2]), shelf.stage("other", [2])
    path = request["manifest_path"]
    folder, _, name = path.rpartition("/")
    table = folder.removesuffix("/_versions")
    inside = shelf._store.from_absolute(path)
    shelf._store.put(f"{inside}-folder/staged", shelf._store.get(inside).body)
    before = state(shelf, "t", "other")
    bad = {
        "a folder of such a name": {"manifest_path": f"{path}-folder/staged"},
        "another table's staged manifest": {"manifest_path": foreign["manifest_path"]},
        "no such file": {"manifest_path": path + "0"},
        "not staged": {"manifest_path": f"{folder}/{final_name(1)}"},
        "not staged, though of this version": {"manifest_path": f"{folder}/{final_name(2)}"},
        "no token": {"manifest_path": f"{folder}/{final_name(2)}-"},
        "another version in the name": {"version": 3},
        "version 0": {"version": 0},
        "a negative version": {"version": -1},
        "out of the root": {"manifest_path": f"etc/_versions/{name}"},
        "the top of the disk": {"manifest_path": f"/etc/_versions/{name}"},
        "dots": {"manifest_path": f"{folder}/../_versions/{name}"},
        "dots through the other table": {"manifest_path": f"{table}/../t.lance/_versions/{name}"},
        "below the folder": {"manifest_path": f"{folder}/deeper/{name}"},
        "beside the folder": {"manifest_path": f"{table}/{name}"},
        "another root's address": {"manifest_path": f"s3://elsewhere/{folder}/{name}"},
        "an empty path": {"manifest_path": ""},
        "an unknown scheme": {"naming_scheme": "V3"},
    }
    for what, change in bad.items():
        with fails(13):
            shelf.ns.create_table_version({**request, **change})
        assert state(shelf, "t", "other") == before, what
    assert shelf.ns.create_table_version(request).version.version == 2


def test_missing_table_or_staged_manifest_is_named_in_the_error(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1])
    request = shelf.stage("t", [2])
    with fails(4, "none"):
        shelf.ns.create_table_version({**request, "id": shelf.id("none")})
    with fails(1, "nowhere"):
        shelf.ns.create_table_version({**request, "id": ["nowhere", "t"]})
    with fails(13):
        shelf.ns.create_table_version({"id": shelf.id("t")})
    assert shelf.list_versions("t") == [1]


def test_metadata_of_a_version_is_stored(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1])
    request = shelf.stage("t", [2])
    shelf.ns.create_table_version({**request, "metadata": {"who": "me", "für": "wen"}})
    assert shelf.describe_version("t", 2).metadata == {"who": "me", "für": "wen"}
    assert shelf.describe_version("t", 1).metadata is None


def test_manifest_path_can_be_a_uri_or_relative_to_the_root(shelf):
    shelf.create("t", [1])
    for version in (2, 3):
        request = shelf.stage("t", [version])
        inside = shelf._store.from_absolute(request["manifest_path"])
        path = shelf._store.location(inside) if version == 2 else inside
        assert shelf.ns.create_table_version({**request, "manifest_path": path}).version.version == version
    assert shelf.rows("t") == [1, 2, 3]


# Batches


def test_batch_creates_versions_of_several_tables(shelf):
    for name in ("t", "u", "w"):
        shelf.create(name, [1])
    requests = [shelf.stage(name, [number]) for number, name in enumerate(("w", "t", "u"), start=2)]
    entries = [{key: value for key, value in request.items() if key != "e_tag"} for request in requests]
    before = shelf.manifest().version if shelf.is_managed else 0
    answer = shelf.ns.batch_create_table_versions(BatchCreateTableVersionsRequest(entries=entries))
    assert [one.version for one in answer.versions] == [2, 2, 2]
    for request, version in zip(requests, answer.versions, strict=True):
        assert version.manifest_path.rpartition("/")[0] == request["manifest_path"].rpartition("/")[0]
    assert [shelf.rows(name) for name in ("t", "u", "w")] == [[1, 3], [1, 4], [1, 2]]
    assert [shelf.plain_rows(name) for name in ("t", "u", "w")] == [[1, 3], [1, 4], [1, 2]]
    if shelf.is_managed:
        # One commit creates them, and one finishes them.
        assert shelf.manifest().version == before + 2


@pytest.mark.parametrize("fault", ["taken", "gap", "missing file", "missing table", "bad path"])
def test_managed_batch_is_all_or_nothing(near_managed_shelf, fault):
    shelf = near_managed_shelf
    location, _ = [shelf.create(name, [1]) for name in ("t", "u")]
    good, bad = shelf.stage("t", [2]), shelf.stage("u", [2])
    path = shelf._store.from_absolute(bad["manifest_path"])
    if fault == "taken":
        shelf.append("u", [5])
    elif fault == "gap":
        shelf._store.put(path.replace(final_name(2), final_name(5)), shelf._store.get(path).body)
        bad = {**bad, "version": 5, "manifest_path": bad["manifest_path"].replace(final_name(2), final_name(5))}
    elif fault == "missing file":
        shelf._store.delete(path)
    elif fault == "missing table":
        bad = {**bad, "id": shelf.id("none")}
    else:
        bad = {**bad, "manifest_path": good["manifest_path"]}
    before = state(shelf, "t", "u")
    code = {"taken": 14, "gap": 14, "missing table": 4}.get(fault, 13)
    for entries in ([good, bad], [bad, good]):
        with fails(code):
            shelf.ns.batch_create_table_versions({"entries": entries})
        assert state(shelf, "t", "u") == before
    assert shelf.version_rows()[shelf.key("t")] == [1]
    assert shelf.ns.batch_create_table_versions({"entries": [good]}).versions[0].version == 2
    assert shelf.staged_files(location) == []


def test_batch_creates_two_versions_of_one_table(near_managed_shelf):
    """The second version follows the first, in the order of the request."""
    shelf = near_managed_shelf
    shelf.create("t", [1])
    second = shelf.stage("t", [2])
    body = shelf._store.get(shelf._store.from_absolute(second["manifest_path"])).body
    path = second["manifest_path"].replace(final_name(2), final_name(3))
    shelf._store.put(shelf._store.from_absolute(path), body)
    third = {**second, "version": 3, "manifest_path": path}
    with fails(14):
        shelf.ns.batch_create_table_versions({"entries": [third, second]})
    assert shelf.list_versions("t") == [1]
    answer = shelf.ns.batch_create_table_versions({"entries": [second, third]})
    assert [one.version for one in answer.versions] == [2, 3]
    assert shelf.list_versions("t") == [1, 2, 3]


def test_empty_batch_does_nothing(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1])
    assert shelf.ns.batch_create_table_versions({"entries": []}).versions == []
    assert shelf.list_versions("t") == [1]


def test_declared_table_gets_its_first_version(near_managed_shelf):
    """pylance creates a table like this: it declares the table, then commits its first version."""
    shelf = near_managed_shelf
    declared = shelf.ns.declare_table(DeclareTableRequest(id=shelf.id("t")))
    assert declared.managed_versioning is True
    with fails(11):
        shelf.describe_version("t")
    assert shelf.list_versions("t") == []
    assert shelf.version_rows() == {}
    made = lance.write_dataset(pa.table({"x": [4]}), **shelf.through("fresh"), mode="create")
    assert made.version == 1
    assert shelf.version_rows() == {shelf.key("fresh"): [1]}


def test_version_rows_do_not_collide_with_tables_named_like_numbers(near_managed_shelf):
    """The version rows of `t` have the keys that a table `1` in a namespace `t` would have."""
    shelf = near_managed_shelf
    create_namespace(shelf.ns, *shelf.id("n"))
    shelf.create("t", [1], [2])
    inner = [*shelf.id("n"), "t"]
    lance.write_dataset(
        pa.table({"x": [7]}), namespace_client=shelf.ns, table_id=inner, storage_options=shelf.where.options or None
    )
    assert shelf.list_versions("t") == [1, 2]
    rows = shelf.version_rows()
    assert rows == {shelf.key("t"): [1, 2], "$".join(inner): [1]}
