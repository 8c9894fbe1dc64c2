"""The client that is generated from the specification: every operation once, over the life of some tables."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import lance_namespace_urllib3_client as sdk
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments
from lance_namespace_urllib3_client import api

from tests.support import describe_table, ipc
from tests.versions.shelf import CommitRecorder

if TYPE_CHECKING:
    from pennon import DirectoryNamespace

pytestmark = pytest.mark.interop
NEAR = {"k": 1, "vector": {"single_vector": [1.0, 0.1]}}
OTHER_FORMS = ("_with_http_info", "_without_preload_content")
APIS = [one for _, one in inspect.getmembers(api, inspect.isclass)]
OPERATIONS = {
    name
    for one in APIS
    for name, _ in inspect.getmembers(one, inspect.isfunction)
    if not name.startswith("_") and not name.endswith(OTHER_FORMS)
}


class Client:
    """All operations of the generated client, by their names."""

    def __init__(self, uri: str) -> None:
        self._client = sdk.ApiClient(sdk.Configuration(host=uri))
        self.called: set[str] = set()

    def call(self, operation: str, *names: str, **fields: Any) -> Any:
        """Call an operation; a body that is a model is made from the fields that are not parameters."""
        method = next(getattr(one(self._client), operation) for one in APIS if hasattr(one, operation))
        self.called.add(operation)
        parameters = inspect.signature(method).parameters
        given = {name: fields.pop(name) for name in list(fields) if name in parameters}
        if "id" in parameters:
            given["id"] = "$".join(names)
        model = operation.title().replace("_", "") + "Request"
        model = {"CreateTableScalarIndexRequest": "CreateTableIndexRequest"}.get(model, model)
        (body,) = [name for name in parameters if name.endswith("_request")] or [None]
        if body is not None:
            given[body] = getattr(sdk, model).from_dict(fields)
        return method(**given)


@pytest.fixture
def client(server):
    return Client(server.lance)


def manage_namespaces(client: Client, space: str) -> None:
    client.call("create_namespace", space, "inner", properties={"a": "b"})
    client.call("namespace_exists", space, "inner")
    assert client.call("describe_namespace", space, "inner").properties == {"a": "b"}
    assert client.call("list_namespaces", space).namespaces == ["inner"]
    client.call("drop_namespace", space, "inner")
    with pytest.raises(sdk.exceptions.NotFoundException):
        client.call("namespace_exists", space, "inner")


def manage_tables(client: Client, space: str, rows: pa.Table) -> None:
    client.call("create_table", space, "t", body=ipc(rows), properties='{"a": "b"}')
    client.call("table_exists", space, "t")
    found = client.call("describe_table", space, "t", load_detailed_metadata=True)
    assert [field.name for field in found.var_schema.fields] == ["id", "text", "vector"]
    assert client.call("list_tables", space).tables == ["t"]
    assert f"{space}$t" in client.call("list_all_tables").tables
    assert client.call("declare_table", space, "declared").location
    client.call("rename_table", space, "declared", new_table_name="renamed")
    client.call("drop_table", space, "renamed")
    client.call("create_table", space, "moved", body=ipc(rows))
    location = client.call("deregister_table", space, "moved").location
    client.call("register_table", space, "moved", location=location.rstrip("/").rpartition("/")[2])
    assert client.call("count_table_rows", space, "moved") == 3


def change_rows(client: Client, space: str, rows: pa.Table) -> None:
    assert client.call("insert_into_table", space, "t", body=ipc(rows), mode="append").num_inserted_rows == 3
    assert client.call("count_table_rows", space, "t", predicate="id = 1") == 2
    merged = client.call("merge_insert_into_table", space, "t", on=["id"], body=ipc(rows), when_matched_update_all=True)
    assert merged.num_updated_rows == 6
    assert client.call("update_table", space, "t", predicate="id = 1", updates=[["text", "'x'"]]).updated_rows == 2
    client.call("delete_from_table", space, "t", predicate="id = 2")
    found = client.call("query_table", space, "t", **{**NEAR, "k": 10, "filter": "id < 3"})
    assert pa.ipc.open_file(bytes(found)).read_all()["text"].to_pylist() == ["x", "x"]
    assert "KNN" in client.call("explain_table_query_plan", space, "t", query=NEAR)
    assert "KNN" in client.call("analyze_table_query_plan", space, "t", **NEAR)


def index_columns(client: Client, space: str) -> None:
    client.call("create_table_scalar_index", space, "t", column="id", index_type="BTREE", name="by_id")
    client.call("create_table_index", space, "t", column="text", index_type="FTS", name="by_text")
    names = [one.index_name for one in client.call("list_table_indices", space, "t").indexes]
    assert sorted(names) == ["by_id", "by_text"]
    assert client.call("describe_table_index_stats", space, "t", index_name="by_id").num_indexed_rows == 4
    client.call("drop_table_index", space, "t", index_name="by_id")
    assert client.call("get_table_stats", space, "t").num_indices == 1


def change_columns(client: Client, space: str) -> None:
    client.call("alter_table_add_columns", space, "t", new_columns=[{"name": "twice", "expression": "id * 2"}])
    client.call("alter_table_alter_columns", space, "t", alterations=[{"path": "twice", "rename": "double"}])
    entry = {"path": "double", "metadata": {"unit": "m"}}
    client.call("update_field_metadata", space, "t", updates=[entry])
    client.call("alter_table_drop_columns", space, "t", columns=["double"])
    assert client.call("update_table_schema_metadata", space, "t", request_body={"a": "b"})["a"] == "b"


def label_versions(client: Client, space: str) -> None:
    client.call("create_table_tag", space, "t", tag="first", version=1)
    client.call("update_table_tag", space, "t", tag="first", version=2)
    assert client.call("get_table_tag_version", space, "t", tag="first").version == 2
    assert list(client.call("list_table_tags", space, "t").tags) == ["first"]
    client.call("delete_table_tag", space, "t", tag="first")
    client.call("create_table_branch", space, "t", name="side")
    assert list(client.call("list_table_branches", space, "t").branches) == ["side"]
    client.call("delete_table_branch", space, "t", name="side")
    client.call("restore_table", space, "t", version=1)
    latest = client.call("list_table_versions", space, "t", descending=True, limit=1).versions[0]
    assert client.call("describe_table_version", space, "t", version=latest.version).version == latest


def stage(catalog: DirectoryNamespace, rows: pa.Table, *names: str) -> dict[str, Any]:
    """Let Lance stage the manifest of an append, and return the request that would commit it."""
    recorder, location = CommitRecorder(catalog), describe_table(catalog, *names).location
    LanceDataset.commit(
        location,
        LanceOperation.Append(write_fragments(rows, location, mode="append")),
        read_version=catalog._open_table(names).version,
        namespace_client=recorder,
        table_id=list(names),
        namespace_client_managed_versioning=True,
    )
    (request,) = recorder.requests
    return request


def commit_versions(client: Client, catalog: DirectoryNamespace, space: str, rows: pa.Table) -> None:
    for number in range(3):
        request = stage(catalog, rows, space, "moved")
        version = request["version"]
        if number == 0:
            assert client.call("create_table_version", space, "moved", **request).version.version == version
        elif number == 1:
            client.call("batch_create_table_versions", entries=[request])
        else:
            client.call("batch_commit_tables", operations=[{"create_table_version": request}])
    assert client.call("count_table_rows", space, "moved") == 12
    ranges = [{"start_version": 1, "end_version": 2}]
    assert client.call("batch_delete_table_versions", space, "moved", ranges=ranges).deleted_count == 1


def follow_transactions(client: Client, space: str) -> None:
    job = client.call("alter_table_drop_columns", space, "t", columns=["text"]).transaction_id
    assert client.call("describe_transaction", space, "t", job).status == "Succeeded"
    action = {"setStatusAction": {"status": "Succeeded"}}
    assert client.call("alter_transaction", space, "t", job, actions=[action]).status == "Succeeded"


def ask_for_what_needs_workers(client: Client, space: str) -> None:
    """Call what a server without workers does not do."""
    for operation, fields in (
        ("alter_table_backfill_columns", {"column": "id"}),
        ("create_materialized_view", {"kind": "query", "source_query": "{}", "output_schema": "x"}),
        ("refresh_materialized_view", {}),
    ):
        with pytest.raises(sdk.ApiException) as raised:
            client.call(operation, space, "t", **fields)
        assert raised.value.status in {400, 406}


@pytest.mark.parametrize("server", ["managed"], indirect=True)
def test_every_operation_answers(client, catalog, space, fruit):
    manage_namespaces(client, space)
    manage_tables(client, space, fruit)
    change_rows(client, space, fruit)
    index_columns(client, space)
    change_columns(client, space)
    label_versions(client, space)
    commit_versions(client, catalog, space, fruit)
    follow_transactions(client, space)
    ask_for_what_needs_workers(client, space)
    assert client.called == OPERATIONS
    assert len(OPERATIONS) == 54
