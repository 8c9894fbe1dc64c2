"""Every operation of both protocols, by every role: who may, who may not, and who must not even know."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest

from pennon.server.lance.extensions import EXTENSIONS
from pennon.server.lance.operations import OPERATIONS
from tests.server.http_client import namespace_path, table_path
from tests.server.permissions.conftest import ROLES
from tests.support import create_namespace, create_table, ipc

ROWS = ipc({"x": [1]})
ABOVE = {"reader": ROLES, "writer": ROLES[1:], "owner": ROLES[2:], "admin": ROLES[3:], "root": ()}
_numbers = itertools.count()


@dataclass(frozen=True)
class Case:
    """A request, and the least role on the namespace `m` that it needs; `root` is an admin of the whole catalog."""

    name: str
    least: str
    body: Any = field(default_factory=dict)
    query: str = ""


STAGED = {"version": 9, "manifest_path": "nothing", "naming_scheme": "V2"}
LANCE = [
    Case("CreateNamespace", "owner"),
    Case("CreateNamespace", "owner", {"mode": "overwrite"}),
    Case("ListNamespaces", "reader", None),
    Case("DescribeNamespace", "reader"),
    Case("DropNamespace", "owner"),
    Case("DropNamespace", "owner", {"behavior": "cascade"}),
    Case("DropNamespace", "admin", {"behavior": "cascade", "context": {"purge": "true"}}),
    Case("NamespaceExists", "reader"),
    Case("ListTables", "reader", None),
    Case("RegisterTable", "root", {"location": "somewhere"}),
    Case("DescribeTable", "reader"),
    Case("DescribeTable", "reader", {"vend_credentials": True}),
    Case("TableExists", "reader"),
    Case("DropTable", "owner"),
    Case("DropTable", "admin", {"context": {"purge": "true"}}),
    Case("DropTable", "admin", {"context": {"force": "true"}}),
    Case("DeregisterTable", "owner"),
    Case("RestoreTable", "owner", {"version": 1}),
    Case("RenameTable", "owner", {"new_table_name": "{new}"}),
    Case("RenameTable", "root", {"new_table_name": "{new}", "new_namespace_id": ["anns"]}),
    Case("UpdateTableSchemaMetadata", "owner", {"a": "b"}),
    Case("ListTableVersions", "reader", None),
    Case("CreateTableVersion", "writer", STAGED),
    Case("DescribeTableVersion", "reader"),
    Case("BatchDeleteTableVersions", "owner", {"ranges": []}),
    Case("BatchCreateTableVersions", "writer", {"entries": [{"id": ["m", "{table}"], **STAGED}]}),
    Case(
        "BatchCreateTableVersions",
        "root",
        {"entries": [{"id": ["m", "{table}"], **STAGED}, {"id": ["anns", "hers"], **STAGED}]},
    ),
    Case("BatchCommitTables", "owner", {"operations": [{"declare_table": {"id": ["m", "{new}"]}}]}),
    Case(
        "BatchCommitTables",
        "root",
        {"operations": [{"declare_table": {"id": ["m", "{new}"], "location": "elsewhere"}}]},
    ),
    Case(
        "BatchCommitTables",
        "root",
        {"operations": [{"declare_table": {"id": ["m", "{new}"]}}, {"deregister_table": {"id": ["anns", "none"]}}]},
    ),
    Case("AlterTableAlterColumns", "owner", {"alterations": [{"path": "x", "rename": "y"}]}),
    Case("UpdateFieldMetadata", "owner", {"updates": [{"path": "x", "metadata": {"a": "b"}}]}),
    Case("AlterTableDropColumns", "owner", {"columns": ["none"]}),
    Case("GetTableStats", "reader"),
    Case("InsertIntoTable", "writer", ROWS),
    Case("MergeInsertIntoTable", "writer", ROWS, "on=x&when_not_matched_insert_all=true"),
    Case("UpdateTable", "writer", {"updates": [["x", "x"]]}),
    Case("DeleteFromTable", "writer", {"predicate": "x = 1"}),
    Case("QueryTable", "reader", {"k": 1, "vector": {}}),
    Case("CountTableRows", "reader"),
    Case("CreateTable", "owner", ROWS),
    Case("CreateTable", "owner", ROWS, "mode=overwrite"),
    Case("CreateTable", "root", ROWS, "storage_options=%7B%22timeout%22%3A%2210s%22%7D"),
    Case("ExplainTableQueryPlan", "reader", {"query": {"k": 1, "vector": {}}}),
    Case("AnalyzeTableQueryPlan", "reader", {"k": 1, "vector": {}}),
    Case("AlterTableAddColumns", "owner", {"new_columns": [{"name": "z", "expression": "x"}]}),
    Case("AlterTableBackfillColumns", "writer", {"column": "x"}),
    Case("RefreshMaterializedView", "writer"),
    Case("CreateMaterializedView", "owner", {"kind": "query", "source_query": "SELECT 1", "output_schema": ""}),
    Case("CreateTableIndex", "writer", {"column": "x", "index_type": "BTREE"}),
    Case("CreateTableScalarIndex", "writer", {"column": "x", "index_type": "BTREE"}),
    Case("ListTableIndices", "reader"),
    Case("DescribeTableIndexStats", "reader"),
    Case("DropTableIndex", "writer"),
    Case("ListTableTags", "reader", None),
    Case("GetTableTagVersion", "reader", {"tag": "none"}),
    Case("DeclareTable", "owner"),
    Case("DeclareTable", "root", {"location": "somewhere"}),
    Case("CreateTableTag", "writer", {"tag": "a", "version": 1}),
    Case("DeleteTableTag", "writer", {"tag": "none"}),
    Case("UpdateTableTag", "writer", {"tag": "none", "version": 1}),
    Case("ListTableBranches", "reader"),
    Case("CreateTableBranch", "writer", {"name": "side"}),
    Case("DeleteTableBranch", "writer", {"name": "none"}),
    Case("DescribeTransaction", "reader"),
    Case("AlterTransaction", "owner", {"actions": [{"setPropertyAction": {"key": "a", "value": "b"}}]}),
]
LANCE += [
    Case("UndropTable", "owner"),
    Case("UndropTable", "root", {"as_id": ["anns", "back"]}),
    Case("UndropNamespace", "owner"),
    Case("PurgeTable", "admin"),
    Case("PurgeTables", "root", {"dry_run": True}),
    Case("PurgeTables", "admin", {"ids": [["m", "{table}"]]}),
    Case("PurgeTables", "root", {"ids": [["m", "{table}"], ["anns", "hers"]]}),
    Case("ListDroppedTables", "owner", None),
    Case("ListPurgeableTables", "root", None),
    Case("TableStatus", "reader"),
    Case("SetTableProtection", "admin", {"protected": False}),
    Case("SetNamespaceProtection", "admin", {"protected": False}),
    Case("AlterNamespaceProperties", "owner", {"changes": {"a": "b"}}),
    Case("NewTableLocation", "owner"),
    Case("AdoptTable", "owner", {"location": "x"}),
    Case("RequireNewTableLocation", "owner", {"location": "x"}),
    Case("DiscardTableLocation", "owner", {"location": "x"}),
    Case("LatestTableVersions", "reader", {"ids": [["m", "{table}"]]}),
    Case("LatestTableVersions", "root", {"ids": [["m", "{table}"], ["anns", "hers"]]}),
    Case("RequireCommonCommits", "writer", {"ids": [["m", "{table}"]]}),
    Case("CommitTables", "writer", {"versions": [{"id": ["m", "{table}"], "version": 1, "manifest_path": "x"}]}),
    Case("CommitTables", "owner", {"new_tables": [{"id": ["m", "{table}"], "location": "x"}]}),
    Case("ListProblems", "root", None),
    Case("MigrateToManifest", "root", {"dry_run": True}),
    Case("MigrateMarkers", "root", {"dry_run": True}),
    Case("ManageVersions", "root", {"enabled": True}),
]
BY_ID = {one.id: one for one in (*OPERATIONS, *EXTENSIONS)}
OF_DROPPED = {"UndropTable", "UndropNamespace", "PurgeTable"}
"""Operations that do not find what is not dropped."""
CREATES = {
    "CreateNamespace",
    "RegisterTable",
    "CreateTable",
    "DeclareTable",
    "CreateMaterializedView",
    "NewTableLocation",
    "AdoptTable",
    "RequireNewTableLocation",
    "DiscardTableLocation",
}


def filled(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        return value.format(**names) if "{" in value else value
    if isinstance(value, list):
        return [filled(one, names) for one in value]
    return {key: filled(one, names) for key, one in value.items()} if isinstance(value, dict) else value


def is_denied(status: int, code: int) -> bool:
    return status == 403 and code == 15


def test_every_operation_has_an_entry():
    # ListAllTables is about the root alone: see test_isolation.py. ServerInfo is about no object.
    assert {case.name for case in LANCE} == set(BY_ID) - {"ListAllTables", "ServerInfo"}


@pytest.mark.parametrize("case", LANCE, ids=lambda case: f"{case.name}-{case.least}-{case.body if case.query else ''}")
def test_lance_operation_by_role(secured, secured_catalog, case):
    operation = BY_ID[case.name]
    names: dict[str, str] = {}
    for user in ("nobody", *ROLES, "root"):
        if not names:
            names = {"table": f"t{next(_numbers)}", "new": f"n{next(_numbers)}"}
            create = create_namespace if "/namespace/" in operation.path else create_table
            create(secured_catalog, "m", names["table"])
        name = names["new"] if case.name in CREATES else names["table"]
        identifier = f"m%24{name}%24transaction" if "ransaction" in case.name else f"m%24{name}"
        path = operation.path.replace("{id}", identifier).replace("{index_name}", "none")
        body = case.body if isinstance(case.body, bytes) else filled(case.body, names)
        answer = secured.lance[user].call(operation.method, f"{path}?{case.query}", body)
        code = answer.body["code"] if answer.status >= 400 else None
        if user == "nobody":
            # Everybody sees the root, without the rights on it.
            assert code in {1, 4} or (code == 15 and "{id}" not in operation.path), (case, answer)
        elif user in ABOVE[case.least] or user == "root":
            # What is wrong with a request beyond its form is found after its rights are checked.
            assert code not in {1, 4, 15, 16} or (code in {1, 4} and (user == "root" or case.name in OF_DROPPED)), (
                case,
                user,
                answer,
            )
            # It may be changed now.
            names = {} if operation.changes else names
        else:
            # Of objects elsewhere, somebody with a role here does not even know.
            assert is_denied(answer.status, code) or (case.least == "root" and code in {1, 4}), (case, user, answer)


SET = {"action": "set-properties", "updates": {"a": "b"}}
SCHEMA = {"type": "struct", "fields": []}
ICEBERG = [
    ("GET", "/config", None, "anybody"),
    ("GET", "/namespaces?parent=m", None, "reader"),
    ("POST", "/namespaces", {"namespace": ["m", "{new}"]}, "owner"),
    ("GET", "/namespaces/m", None, "reader"),
    ("HEAD", "/namespaces/m", None, "reader"),
    ("POST", "/namespaces/m/properties", {"updates": {"a": "b"}}, "owner"),
    ("DELETE", namespace_path("m", "{space}"), None, "owner"),
    ("GET", "/namespaces/m/tables", None, "reader"),
    ("POST", "/namespaces/m/tables", {"name": "{new}", "schema": SCHEMA}, "owner"),
    ("POST", "/namespaces/m/tables", {"name": "{new}", "schema": SCHEMA, "location": "{root}/x{new}"}, "root"),
    ("POST", "/namespaces/m/register", {"name": "{new}", "metadata-location": "x"}, "reader"),
    ("GET", table_path("m", "{table}"), None, "reader"),
    ("HEAD", table_path("m", "{table}"), None, "reader"),
    ("POST", table_path("m", "{table}"), {"requirements": [], "updates": []}, "writer"),
    ("POST", table_path("m", "{table}"), {"requirements": [], "updates": [SET]}, "owner"),
    (
        "POST",
        table_path("m", "{table}"),
        {"requirements": [], "updates": [{"action": "remove-snapshots", "snapshot-ids": [77]}]},
        "owner",
    ),
    (
        "POST",
        table_path("m", "{table}"),
        {"requirements": [], "updates": [{"action": "set-location", "location": "{root}/elsewhere"}]},
        "root",
    ),
    ("DELETE", table_path("m", "{table}"), None, "owner"),
    ("DELETE", table_path("m", "{table}") + "?purgeRequested=true", None, "owner"),
    ("DELETE", table_path("m", "{table}") + "?purgeRequested=true&pennon.ttl-ms=0", None, "admin"),
    ("DELETE", table_path("m", "{table}") + "?purgeRequested=true&pennon.purge=true", None, "admin"),
    (
        "POST",
        "/tables/rename",
        {
            "source": {"namespace": ["m"], "name": "{table}"},
            "destination": {"namespace": ["m"], "name": "{new}"},
        },
        "owner",
    ),
    (
        "POST",
        "/tables/rename",
        {
            "source": {"namespace": ["m"], "name": "{table}"},
            "destination": {"namespace": ["anns"], "name": "{new}"},
        },
        "root",
    ),
    (
        "POST",
        "/transactions/commit",
        {
            "table-changes": [
                {"identifier": {"namespace": ["m"], "name": "{table}"}, "requirements": [], "updates": [SET]}
            ]
        },
        "owner",
    ),
    (
        "POST",
        "/transactions/commit",
        {
            "table-changes": [
                {"identifier": {"namespace": ["m"], "name": "{table}"}, "requirements": [], "updates": [SET]},
                {"identifier": {"namespace": ["anns"], "name": "hers"}, "requirements": [], "updates": [SET]},
            ]
        },
        "root",
    ),
]


@pytest.mark.parametrize("request_by_role", ICEBERG, ids=lambda one: f"{one[0]}-{one[1].rpartition('/')[2]}-{one[3]}")
def test_iceberg_operation_by_role(secured, secured_catalog, request_by_role):
    method, path, body, least = request_by_role
    names: dict[str, str] = {}
    for user in ("nobody", *ROLES, "root"):
        if not names:
            names = {"table": f"t{next(_numbers)}", "new": f"n{next(_numbers)}", "space": f"s{next(_numbers)}"}
            create_table(secured_catalog, "m", names["table"])
            create_namespace(secured_catalog, "m", names["space"])
        target = path.replace("%7B", "{").replace("%7D", "}").format(**names)
        answer = secured.iceberg[user].call(method, target, filled(body, {**names, "root": f"file://{secured.root}"}))
        if least == "anybody" or user == "root" or user in ABOVE[least]:
            assert answer.status not in {400, 401, 403, 404}, (user, answer)
            names = {} if method in {"POST", "DELETE"} else names
        elif user == "nobody":
            assert answer.status == 404, (user, answer)
        else:
            assert answer.status == 403 or (least == "root" and answer.status == 404), (user, answer)
