"""Cases that the machine has found, each in its shortest form."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from lance_namespace.errors import LanceNamespaceError

from tests.servers import CountingS3
from tests.support import (
    Root,
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_namespace,
    describe_table,
    fails,
    ipc,
    list_tables,
    register_table,
    remove_table,
    rename_table,
    table_exists,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def s3() -> Iterator[CountingS3]:
    with CountingS3() as server:
        yield server


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def place(request, tmp_path) -> Root:
    """Return an empty root on local disk and in a bucket."""
    if request.param == "local":
        return Root(str(tmp_path / "root"))
    endpoint = request.getfixturevalue("s3").endpoint
    return Root(endpoint.uri(tmp_path.name), endpoint.storage_options())


def write_plainly(place, name, *, rows=(7, 8)):
    """Write a table with plain Lance, without a catalog."""
    location = f"{place.uri}/{name}.lance"
    lance.write_dataset(pa.table({"x": list(rows)}), location, storage_options=place.options or None)


def rows_of(place, ns, *names):
    location = describe_table(ns, *names).location
    return lance.dataset(location, storage_options=place.options or None).to_table()["x"].to_pylist()


@pytest.mark.parametrize("mode", ["v1", "compatibility"])
def test_deregistered_declaration_is_not_created_silently(mode, place, open_namespace):
    ns = open_namespace(place, mode)
    declare_table(ns, "t")
    deregister_table(ns, "t")

    with fails(5):
        create_table(ns, "t")


UNSTORABLE = ipc(pa.table({"x": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}))


@pytest.mark.parametrize("mode", ["v1", "compatibility"])
def test_a_create_that_fails_leaves_the_table_that_was_there(mode, place, open_namespace):
    write_plainly(place, "t")
    ns = open_namespace(place, mode)

    with pytest.raises(LanceNamespaceError):
        create_table(ns, "t", data=UNSTORABLE)

    assert list_tables(ns) == ["t"]
    assert rows_of(place, ns, "t") == [7, 8]


def test_a_create_that_fails_leaves_the_declaration(place, mode, open_namespace):
    ns = open_namespace(place, mode)
    declare_table(ns, "t")

    with fails(13):
        create_table(ns, "t", data=UNSTORABLE)

    assert describe_table(ns, "t", check_declared=True).is_only_declared


@pytest.mark.concurrency
def test_losing_declaration_of_a_location_deletes_nothing(place, open_namespace):
    clients = [open_namespace(place), open_namespace(place)]
    for client in clients:
        list_tables(client)

    for number in range(5):
        start = threading.Barrier(2)

        def declare(who: int, number: int = number, start: threading.Barrier = start) -> bool:
            start.wait()
            try:
                declare_table(clients[who], f"t{number}-{who}", location=f"place{number}")
            except LanceNamespaceError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            won = list(pool.map(declare, range(2)))

        assert won.count(True) == 1
        winner = f"t{number}-{won.index(True)}"
        assert describe_table(clients[0], winner, check_declared=True).is_only_declared


# Directories that belong to a table of another name


def test_v1_cannot_drop_a_directory_that_was_registered_under_another_name(place, open_namespace):
    ns, v1 = open_namespace(place), open_namespace(place, "v1")
    create_table(ns, "old")
    deregister_table(ns, "old")
    register_table(ns, "new", location="old.lance")

    with fails(4):
        remove_table(v1, "old")
    assert rows_of(place, ns, "new") == [1, 2, 3]


def test_v1_does_not_see_a_directory_that_v2_registered_under_another_name(place, open_namespace):
    v2, v1 = open_namespace(place, "v2"), open_namespace(place, "v1")
    write_plainly(place, "old")
    register_table(v2, "new", location="old.lance")

    assert list_tables(v1) == []
    with fails(4):
        remove_table(v1, "old")
    assert rows_of(place, v2, "new") == [7, 8]


@pytest.mark.parametrize("mode", ["v1", "compatibility"])
def test_a_renamed_table_that_was_deregistered_can_be_dropped_by_its_directory(mode, place, open_namespace):
    ns, other = open_namespace(place), open_namespace(place, mode)
    create_table(ns, "old")
    rename_table(ns, "old", to="new")
    deregister_table(ns, "new")

    remove_table(other, "old")

    create_table(ns, "old")
    assert list_tables(ns) == ["old"]


def test_a_renamed_table_that_was_deregistered_can_be_registered_again_by_v1(place, open_namespace):
    ns, v1 = open_namespace(place), open_namespace(place, "v1")
    create_table(ns, "old")
    rename_table(ns, "old", to="new")
    deregister_table(ns, "new")

    register_table(v1, "old", location="old.lance")

    assert list_tables(v1) == list_tables(ns) == ["old"]


def test_registering_a_renamed_table_again_is_a_conflict(place, open_namespace):
    ns = open_namespace(place)
    create_table(ns, "old", properties={"k": "v"})
    rename_table(ns, "old", to="new")

    with fails(5):
        register_table(ns, "new", location="old.lance")
    assert describe_table(ns, "new").properties == {"k": "v"}


# Root tables without rows


@pytest.mark.parametrize("how", ["exist_ok", "overwrite"])
def test_namespace_hides_a_directory_of_its_name(how, place, open_namespace):
    ns = open_namespace(place)
    create_namespace(ns, "n", properties={"k": "v"})
    write_plainly(place, "n")

    answer = create_namespace(ns, "n", mode=how, properties={"k": "w"})

    expected = {"k": "v"} if how == "exist_ok" else {"k": "w"}
    assert answer.properties == describe_namespace(ns, "n").properties == expected


def test_properties_given_when_a_directory_is_overwritten_are_kept(place, open_namespace):
    ns = open_namespace(place)
    write_plainly(place, "t")

    answer = create_table(ns, "t", mode="overwrite", properties={"k": "v"})

    assert answer.properties == describe_table(ns, "t").properties == {"k": "v"}


def test_registration_that_replaces_a_directory_hides_it_from_all_clients(place, open_namespace):
    ns, v1 = open_namespace(place), open_namespace(place, "v1")
    write_plainly(place, "t")
    create_namespace(ns, "n")
    create_table(ns, "n", "other")
    location = deregister_table(ns, "n", "other").location.rpartition("/")[2].replace("%24", "$")

    register_table(ns, "t", location=location, mode="overwrite")

    assert list_tables(v1) == []
    remove_table(ns, "t")
    with fails(4):
        table_exists(ns, "t")


def test_nested_declared_table_is_omitted_until_it_has_data(place, open_namespace):
    ns = open_namespace(place)
    declare_table(ns, "t", location="deep/down")

    assert list_tables(ns) == ["t"]
    assert list_tables(ns, include_declared=False) == []


def test_missing_namespace_is_reported_before_a_used_location(place, open_namespace):
    ns = open_namespace(place)
    declare_table(ns, "t", location="taken")

    with fails(1):
        declare_table(ns, "missing", "t", location="taken")


# Rows whose directory a V1 client deleted: the directory decides, so the name is free


def test_a_name_that_v1_dropped_can_be_declared(place, open_namespace):
    ns, v1 = open_namespace(place), open_namespace(place, "v1")
    create_table(ns, "t")
    remove_table(v1, "t")

    declare_table(ns, "t")

    assert describe_table(ns, "t", check_declared=True).is_only_declared


def test_a_name_that_v1_dropped_does_not_inherit_properties(place, open_namespace):
    ns, v1 = open_namespace(place), open_namespace(place, "v1")
    create_table(ns, "t", properties={"k": "v"})
    remove_table(v1, "t")

    create_table(ns, "t")

    assert describe_table(ns, "t").properties == {}


@pytest.mark.parametrize("went", [remove_table, deregister_table])
def test_name_of_a_table_removed_by_v1_can_become_a_namespace(went, place, open_namespace):
    ns, v1 = open_namespace(place), open_namespace(place, "v1")
    create_table(ns, "t")
    went(v1, "t")

    create_namespace(ns, "t")

    assert describe_namespace(ns, "t").properties == {}


@pytest.mark.parametrize("went", [remove_table, deregister_table])
def test_name_of_a_table_removed_by_v1_can_be_reused_by_rename(went, place, open_namespace):
    ns, v1 = open_namespace(place), open_namespace(place, "v1")
    create_namespace(ns, "n")
    create_table(ns, "t")
    went(v1, "t")
    create_table(ns, "n", "other")

    rename_table(ns, "n", "other", to="t", into=[])

    assert list_tables(ns) == ["t"]
    assert rows_of(place, ns, "t") == [1, 2, 3]


@pytest.mark.parametrize("went", [remove_table, deregister_table])
def test_name_of_a_table_removed_by_v1_can_be_declared_elsewhere(went, place, open_namespace):
    ns, v1 = open_namespace(place), open_namespace(place, "v1")
    create_table(ns, "t")
    went(v1, "t")

    declare_table(ns, "t", location="elsewhere")

    assert list_tables(ns) == ["t"]


def test_registration_over_a_table_dropped_by_v1_creates_no_directory(place, open_namespace):
    ns, v1 = open_namespace(place), open_namespace(place, "v1")
    create_table(ns, "t")
    remove_table(v1, "t")
    create_table(v1, "other")
    deregister_table(v1, "other")

    register_table(ns, "t", location="other.lance", mode="overwrite")

    remove_table(ns, "t")
    create_table(v1, "t")
    assert list_tables(v1) == ["t"]


# Other findings


def test_creating_a_table_leaves_a_plain_file_in_its_place(tmp_path, mode, open_namespace):
    ns = open_namespace(tmp_path, mode)
    (tmp_path / "t.lance").write_text("somebody's file")

    if mode == "v2":
        create_table(ns, "t")
    else:
        with pytest.raises(LanceNamespaceError):
            create_table(ns, "t")

    assert (tmp_path / "t.lance").read_text() == "somebody's file"


# In a separate process: a deadlock would keep this one from ending.
LISTS = """
import json, sys
from pennon import DirectoryNamespace
with DirectoryNamespace(**json.loads(sys.argv[1])) as ns:
    print(len(ns.list_tables({"id": []}).tables))
"""


def listed_by_a_process(**properties):
    command = [sys.executable, "-c", LISTS, json.dumps(properties)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            output, _ = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail("the listing never ends")
    return int(output)


def test_legacy_markers_of_many_tables_are_looked_at(place, open_namespace):
    ns = open_namespace(place)
    for number in range(20):
        declare_table(ns, f"t{number}")

    assert listed_by_a_process(**place.properties, legacy_markers="true") == 20


def test_many_tables_that_v1_deregistered_are_left_out(place, open_namespace):
    ns, v1 = open_namespace(place), open_namespace(place, "v1")
    for number in range(20):
        declare_table(ns, f"t{number}")
        deregister_table(v1, f"t{number}")

    assert listed_by_a_process(**place.properties) == 0


@pytest.mark.s3
def test_storage_options_of_a_request_are_used_to_write_its_data(s3, tmp_path, open_namespace):
    place = Root(s3.endpoint.uri(tmp_path.name), s3.endpoint.storage_options())
    ns = open_namespace(place)
    nowhere = {"aws_endpoint": "http://127.0.0.1:1", "client_max_retries": "0"}

    with fails(18, naming="t'"):
        create_table(ns, "t", storage_options=nowhere)

    assert list_tables(ns) == []
    create_table(ns, "t", storage_options={"client_max_retries": "0"})
    assert rows_of(place, ns, "t") == [1, 2, 3]


def test_drop_of_a_table_dropped_by_v1_raises_not_found(place, open_namespace):
    first, second = open_namespace(place, "compatibility"), open_namespace(place, "v1")
    create_table(first, "t")
    remove_table(second, "t")
    with fails(4):
        remove_table(first, "t")
    create_table(first, "t", data=ipc({"x": [9]}))
    assert rows_of(place, first, "t") == rows_of(place, second, "t") == [9]
