"""UpdateTable and CommitTransaction: the next version or 409, several tables or none, and properties with it."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.fragment import write_fragments

from pennon import DirectoryNamespace, IcebergNamespace, TableCommit
from pennon.iceberg import batch
from tests.server.http_client import Client, table_path
from tests.support import create_table, declare_table, describe_table, drop_table


@pytest.fixture
def server(managed):
    return managed


@pytest.fixture
def own(server):
    """Open the server by our own namespace."""
    with IcebergNamespace(uri=server.uri, managed_by="impl") as namespace:
        yield namespace


def staged(own, space: str, name: str, *numbers: int) -> dict:
    """Let Lance stage an append, and give the updates that would commit it."""
    entry = own._catalog.table((space, name))
    fragments = write_fragments(pa.table({"x": list(numbers)}), own._location(entry))
    change = TableCommit([space, name], LanceOperation.Append(fragments), entry.version)
    _, made = batch._stage(own._catalog, own, change)
    summary = {"operation": "append", "lance.staged-manifest": made.path.rpartition("/")[2], "by": "a test"}
    snapshot = {
        "snapshot-id": made.version,
        "sequence-number": made.version,
        "timestamp-ms": 1,
        "manifest-list": "",
        "summary": summary,
    }
    return {
        "identifier": {"namespace": [space], "name": name},
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": entry.version}],
        "updates": [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": made.version},
        ],
    }


def values(catalog, space: str, name: str) -> list[int]:
    return sorted(catalog._open_table((space, name)).to_table()["x"].to_pylist())


def current(client: Client, space: str, name: str) -> int:
    return client.get(table_path(space, name)).body["metadata"]["current-snapshot-id"]


def test_a_commit_is_the_next_version(client, catalog, own, space):
    create_table(catalog, space, "t")
    answer = client.post(table_path(space, "t"), staged(own, space, "t", 4))
    assert answer.status == 200
    assert answer.body["metadata-location"] == ""
    assert answer.body["metadata"] == client.get(table_path(space, "t")).body["metadata"]
    newest = answer.body["metadata"]["snapshots"][-1]
    assert (newest["snapshot-id"], newest["parent-snapshot-id"]) == (2, 1)
    assert (newest["summary"]["operation"], newest["summary"]["by"]) == ("append", "a test")
    assert newest["timestamp-ms"] > 1
    assert values(catalog, space, "t") == [1, 2, 3, 4]


def test_second_commit_gets_409(client, catalog, own, space):
    create_table(catalog, space, "t")
    first, second = staged(own, space, "t", 4), staged(own, space, "t", 5)
    assert client.post(table_path(space, "t"), first).status == 200
    assert client.post(table_path(space, "t"), second).error == (409, "CommitFailedException")
    unchecked = {**second, "requirements": []}
    assert client.post(table_path(space, "t"), unchecked).error == (409, "CommitFailedException")
    assert client.post(table_path(space, "t"), first).error == (409, "CommitFailedException")
    assert values(catalog, space, "t") == [1, 2, 3, 4]
    assert current(client, space, "t") == 2


@pytest.mark.parametrize(
    "requirement",
    [
        {"type": "assert-create"},
        {"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000000"},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7},
        {"type": "assert-ref-snapshot-id", "ref": "other", "snapshot-id": 1},
        {"type": "assert-current-schema-id", "current-schema-id": 0},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 77},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1},
        {"type": "assert-default-spec-id", "default-spec-id": 1},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 1},
    ],
)
def test_a_requirement_that_does_not_hold_is_a_conflict(client, catalog, space, requirement):
    create_table(catalog, space, "t")
    updates = [{"action": "set-properties", "updates": {"a": "b"}}]
    answer = client.post(table_path(space, "t"), {"requirements": [requirement], "updates": updates})
    assert answer.error == (409, "CommitFailedException")
    assert describe_table(catalog, space, "t").properties == {}


def test_requirements_that_hold(client, catalog, space):
    create_table(catalog, space, "t")
    metadata = client.get(table_path(space, "t")).body["metadata"]
    requirements = [
        {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
        {"type": "assert-ref-snapshot-id", "ref": "other", "snapshot-id": None},
        {"type": "assert-current-schema-id", "current-schema-id": 1},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": metadata["last-column-id"]},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": metadata["last-partition-id"]},
        {"type": "assert-default-spec-id", "default-spec-id": 0},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
    ]
    updates = [{"action": "set-properties", "updates": {"a": "b"}}]
    assert client.post(table_path(space, "t"), {"requirements": requirements, "updates": updates}).status == 200
    assert describe_table(catalog, space, "t").properties == {"a": "b"}


def test_a_version_and_properties_are_one_commit(client, catalog, own, space):
    create_table(catalog, space, "t", properties={"old": "1"})
    body = staged(own, space, "t", 4)
    body["updates"] += [
        {"action": "set-properties", "updates": {"new": "2"}},
        {"action": "remove-properties", "removals": ["old"]},
    ]
    assert client.post(table_path(space, "t"), {**body, "requirements": [{"type": "assert-create"}]}).status == 409
    assert describe_table(catalog, space, "t").properties == {"old": "1"}
    assert client.post(table_path(space, "t"), body).status == 200
    assert describe_table(catalog, space, "t").properties == {"new": "2"}
    assert values(catalog, space, "t") == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("update", "status"),
    [
        ({"action": "set-location", "location": "file:///elsewhere"}, 406),
        ({"action": "upgrade-format-version", "format-version": 3}, 406),
        ({"action": "assign-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}, 406),
        ({"action": "add-spec", "spec": {"fields": [{"name": "p", "transform": "identity", "source-id": 1}]}}, 406),
        ({"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [{"source-id": 1}]}}, 406),
        ({"action": "set-default-spec", "spec-id": 4}, 406),
        ({"action": "add-schema", "schema": {"type": "struct", "fields": []}}, 406),
        ({"action": "set-current-schema", "schema-id": 5}, 400),
        ({"action": "set-snapshot-ref", "ref-name": "tag", "type": "tag", "snapshot-id": 1}, 406),
        ({"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 9}, 406),
        ({"action": "remove-snapshot-ref", "ref-name": "main"}, 406),
        ({"action": "remove-snapshots", "snapshot-ids": [1]}, 400),
        ({"action": "set-properties", "updates": {"table_type": "iceberg"}}, 400),
        ({"action": "set-properties", "updates": {"managed_by": "storage"}}, 400),
        ({"action": "remove-properties", "removals": ["managed_by"]}, 400),
        ({"action": "set-properties", "updates": {"a": None}}, 400),
        ({"action": "no-such-thing"}, 400),
        ({}, 400),
    ],
)
def test_updates_without_a_meaning_change_nothing(client, catalog, space, update, status):
    create_table(catalog, space, "t")
    good = {"action": "set-properties", "updates": {"fine": "1"}}
    answer = client.post(table_path(space, "t"), {"requirements": [], "updates": [good, update]})
    assert answer.error[0] == status
    assert describe_table(catalog, space, "t").properties == {}


def test_a_table_with_data_stays_where_it_is(client, server, catalog, own, space):
    create_table(catalog, space, "t")
    create_table(catalog, space, "other")
    moving = {"action": "set-location", "location": (server.root / f"{space}_elsewhere").as_uri()}
    assert client.post(table_path(space, "t"), {"requirements": [], "updates": [moving]}).error[0] == 406
    body = staged(own, space, "t", 4)
    body["updates"].insert(0, moving)
    assert client.post(table_path(space, "t"), body).error[0] == 406
    # The first version of a declared table may be elsewhere, but not in the place of another one.
    declare_table(catalog, space, "declared")
    taken = describe_table(catalog, space, "other").location
    name = "18446744073709551614.manifest-x"
    Path(taken, "_versions", name).write_bytes(b"staged")
    snapshot = {"snapshot-id": 1, "summary": {"operation": "append", "lance.staged-manifest": name}}
    updates = [
        {"action": "set-location", "location": f"file://{taken}"},
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1},
    ]
    answer = client.post(table_path(space, "declared"), {"requirements": [], "updates": updates})
    assert answer.error == (400, "BadRequestException")
    assert describe_table(catalog, space, "declared").location != taken
    assert values(catalog, space, "other") == [1, 2, 3]


def test_updates_that_change_nothing_are_fine(client, catalog, space):
    create_table(catalog, space, "t")
    before = client.get(table_path(space, "t")).body["metadata"]
    updates = [
        {"action": "assign-uuid", "uuid": before["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": before["schemas"][0], "last-column-id": 5},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": before["location"]},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1},
        {"action": "set-properties", "updates": {"table_type": "LANCE", "gc.enabled": "false"}},
    ]
    answer = client.post(table_path(space, "t"), {"requirements": [], "updates": updates})
    assert answer.status == 200
    assert answer.body["metadata"] == before


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/passwd", "", "18446744073709551613.manifest", "18446744073709551613.manifest-", "x" * 300]
)
def test_a_staged_manifest_is_a_file_of_the_table(client, catalog, own, space, name):
    create_table(catalog, space, "t")
    body = staged(own, space, "t", 4)
    body["updates"][0]["snapshot"]["summary"]["lance.staged-manifest"] = name
    assert client.post(table_path(space, "t"), body).error[0] in {400, 409}
    assert current(client, space, "t") == 1


def test_a_snapshot_of_iceberg_is_refused(client, catalog, own, space):
    create_table(catalog, space, "t")
    body = staged(own, space, "t", 4)
    del body["updates"][0]["snapshot"]["summary"]["lance.staged-manifest"]
    assert client.post(table_path(space, "t"), body).error == (406, "UnsupportedOperationException")
    only_added = {**staged(own, space, "t", 4)}
    only_added["updates"] = only_added["updates"][:1]
    assert client.post(table_path(space, "t"), only_added).error == (406, "UnsupportedOperationException")
    assert current(client, space, "t") == 1


def test_snapshots_are_removed(client, catalog, own, space):
    create_table(catalog, space, "t")
    for number in (4, 5):
        client.post(table_path(space, "t"), staged(own, space, "t", number))
    updates = [{"action": "remove-snapshots", "snapshot-ids": [1, 77]}]
    answer = client.post(table_path(space, "t"), {"requirements": [], "updates": updates})
    assert [one["snapshot-id"] for one in answer.body["metadata"]["snapshots"]] == [2, 3]
    folder = Path(describe_table(catalog, space, "t").location, "_versions")
    assert len(list(folder.glob("*.manifest"))) == 2
    assert values(catalog, space, "t") == [1, 2, 3, 4, 5]


def test_a_transaction_is_all_or_nothing(client, catalog, own, space):
    for name in ("a", "b", "c"):
        create_table(catalog, space, name)
    changes = [staged(own, space, name, 10) for name in ("a", "b")]
    with_properties = {
        "identifier": {"namespace": [space], "name": "c"},
        "requirements": [],
        "updates": [{"action": "set-properties", "updates": {"with": "them"}}],
    }
    late = staged(own, space, "b", 20)
    assert client.post(table_path(space, "b"), late).status == 200
    answer = client.post("/transactions/commit", {"table-changes": [*changes, with_properties]})
    assert answer.error == (409, "CommitFailedException")
    assert values(catalog, space, "a") == [1, 2, 3]
    assert describe_table(catalog, space, "c").properties == {}
    changes[1] = staged(own, space, "b", 30)
    answer = client.post("/transactions/commit", {"table-changes": [*changes, with_properties]})
    assert (answer.status, answer.body) == (204, None)
    assert values(catalog, space, "a") == [1, 2, 3, 10]
    assert values(catalog, space, "b") == [1, 2, 3, 20, 30]
    assert describe_table(catalog, space, "c").properties == {"with": "them"}


def test_invalid_transactions_are_refused(client, catalog, own, space):
    create_table(catalog, space, "t")
    change = staged(own, space, "t", 4)
    missing = {**change, "identifier": {"namespace": [space], "name": "none"}}
    rootless = {**change, "identifier": {"namespace": [], "name": "t"}}
    assert client.post("/transactions/commit", {"table-changes": [change, missing]}).error[0] == 404
    assert client.post("/transactions/commit", {"table-changes": [change, change]}).error[0] == 400
    assert client.post("/transactions/commit", {"table-changes": [rootless]}).error[0] == 400
    assert client.post("/transactions/commit", {"table-changes": []}).error[0] == 400
    assert client.post("/transactions/commit", {}).error[0] == 400
    assert current(client, space, "t") == 1


def test_commit_to_a_replaced_table_is_a_conflict(client, catalog, own, space):
    create_table(catalog, space, "t")
    uuid = client.get(table_path(space, "t")).body["metadata"]["table-uuid"]
    body = staged(own, space, "t", 4)
    drop_table(catalog, space, "t")
    create_table(catalog, space, "t")
    assert client.get(table_path(space, "t")).body["metadata"]["table-uuid"] != uuid
    body["requirements"].append({"type": "assert-table-uuid", "uuid": uuid})
    assert client.post(table_path(space, "t"), body).error == (409, "CommitFailedException")
    assert values(catalog, space, "t") == [1, 2, 3]


def test_versions_of_plain_tables_are_not_for_the_server(plain, own):
    del own
    client = Client(plain.uri)
    with DirectoryNamespace(root=str(plain.root)) as catalog:
        client.post("/namespaces", {"namespace": ["plain"]})
        create_table(catalog, "plain", "t")
        for update in (
            {"action": "add-snapshot", "snapshot": {"snapshot-id": 2, "summary": {"lance.staged-manifest": "x"}}},
            {"action": "remove-snapshots", "snapshot-ids": [1]},
        ):
            answer = client.post(table_path("plain", "t"), {"requirements": [], "updates": [update]})
            assert answer.error == (406, "UnsupportedOperationException")
        assert values(catalog, "plain", "t") == [1, 2, 3]


def _append(server, space: str, worker: int, commits: int) -> None:
    """Append through the server, or, every other worker, through the directory."""
    by_server = {"uri": server.uri, "managed_by": "impl"}
    with IcebergNamespace(**by_server) if worker % 2 else DirectoryNamespace(root=str(server.root)) as mine:
        for number in range(commits):
            data = pa.table({"x": [worker * 1000 + number]})
            lance.write_dataset(data, namespace_client=mine, table_id=[space, "t"], mode="append")


@pytest.mark.concurrency
def test_six_processes_append_to_one_table_half_of_them_past_the_server(server, client, catalog, space):
    workers, commits = 6, 5
    create_table(catalog, space, "t")
    spawn = multiprocessing.get_context("spawn")
    processes = [
        spawn.Process(target=_append, args=(server, space, worker, commits)) for worker in range(1, workers + 1)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * workers
    wanted = [worker * 1000 + number for worker in range(1, workers + 1) for number in range(commits)]
    assert values(catalog, space, "t") == [1, 2, 3, *wanted]
    metadata = client.get(table_path(space, "t")).body["metadata"]
    assert [one["snapshot-id"] for one in metadata["snapshots"]] == list(range(1, workers * commits + 2))
