"""Requests, responses and errors match the OpenAPI file of the interface. data/openapi.json is an extract of it."""

from __future__ import annotations

import inspect
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance_namespace
import pytest
from jsonschema import Draft202012Validator
from lance_namespace.errors import ErrorCode, LanceNamespaceError

from pennon import DirectoryNamespace
from tests.support import (
    MODES,
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    drop_table,
    ipc,
)

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from operation_calls import Subject, answered, operations
from operation_cases import CASES

FILE = json.loads((Path(__file__).parent / "data" / "openapi.json").read_text())
WITHOUT_PATH = {"namespace_id", "create_empty_table"}
"""Methods of the interface that are not operations of the file: one is for clients, the other is deprecated."""
TEXTS = {"AnalyzeTableQueryPlanResponse", "ExplainTableQueryPlanResponse"}
"""Responses that are a text in the SDK, without a model."""
REFUSED = {"create_materialized_view", "refresh_materialized_view"}


def method(operation_id: str) -> str:
    """Return the method of an operation."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", operation_id).lower()


OPERATIONS = {method(name): entry for name, entry in FILE["operations"].items()}
# It has only URL parameters, which are fields of this model.
OPERATIONS["list_all_tables"]["request"] = "ListTablesRequest"


def faults(value: Any, schema: str, field: str | None = None) -> list[str]:
    """Return how a value violates a schema of the file, or the schema of one of its properties."""
    path = f"#/components/schemas/{schema}" + (f"/properties/{field}" if field else "")
    validator = Draft202012Validator({"$ref": path, "components": {"schemas": FILE["schemas"]}})
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


@dataclass(frozen=True)
class Call:
    """A request with its response or error."""

    operation: str
    request: dict[str, Any]
    answer: Any = None
    error: LanceNamespaceError | None = None


class Watched(Subject):
    """A namespace that records its calls."""

    calls: list[Call]

    def ask(self, operation: str, *data: bytes, **fields: Any) -> Any:
        """Call an operation and record it."""
        try:
            answer = super().ask(operation, *data, **fields)
        except LanceNamespaceError as error:
            self.calls.append(Call(operation, fields, error=error))
            raise
        self.calls.append(Call(operation, fields, answer))
        return answer


@pytest.fixture(scope="module", params=["V1", "V2", "managed"])
def calls(request, tmp_path_factory) -> list[Call]:
    """Call every operation in all of its cases, each in its own root."""
    noted: list[Call] = []
    folder = tmp_path_factory.mktemp("openapi")
    for operation in operations():
        Watched.calls = noted
        subject = Watched(request.param, folder / operation)
        for case in CASES[operation]:
            answered(subject, case)
        subject.close()
    return noted


def test_operations_of_the_openapi_file_and_methods_match():
    assert set(OPERATIONS) | WITHOUT_PATH == set(operations())
    for name, entry in OPERATIONS.items():
        assert inspect.isfunction(getattr(DirectoryNamespace, name)), name
        assert entry["request"] is not None, name


def test_error_codes_match_the_openapi_file():
    ours = {code.name.replace("_", "").lower(): int(code) for code in ErrorCode}
    assert ours == {name.lower(): code for name, code in FILE["error_codes"].items()}


def test_responses_match_the_openapi_file(calls):
    answers = set()
    for call in calls:
        schema = OPERATIONS.get(call.operation, {}).get("answer")
        if call.error is None and schema is not None:
            assert faults(told(call), schema) == [], call
            answers.add(call.operation)
    expected = {name for name, entry in OPERATIONS.items() if entry["answer"] is not None} - REFUSED
    in_v1_only = {name for name in expected - answers if any(int(call.error.code) == 0 for call in of(calls, name))}
    assert answers == expected - in_v1_only


def told(call: Call) -> dict[str, Any]:
    """Return a response as JSON. The SDK has a text for a plan, and bytes for rows."""
    if isinstance(call.answer, str):
        return {"analysis" if call.operation.startswith("analyze") else "plan": call.answer}
    if call.operation == "query_table":
        return {"data": call.answer.data.decode("latin-1")}
    return call.answer.model_dump(mode="json", by_alias=True, exclude_none=True)


def of(calls, operation):
    return [call for call in calls if call.operation == operation and call.error is not None]


def test_accepted_requests_match_the_openapi_file(calls):
    taken = [call for call in calls if call.error is None and call.operation in OPERATIONS]
    assert len({call.operation for call in taken}) > 45
    for call in taken:
        request = call.request
        if call.operation == "merge_insert_into_table":
            # The SDK has a list of columns where the file has one column.
            (on,) = request["on"]
            request = {**request, "on": on}
        assert faults(request, OPERATIONS[call.operation]["request"]) == [], call


def test_errors_match_the_openapi_file(calls):
    errors = [call.error for call in calls if call.error is not None]
    assert len({int(error.code) for error in errors}) > 10
    for error in errors:
        assert faults({"code": int(error.code), "error": str(error)}, "ErrorResponse") == []
        assert int(error.code) in FILE["error_codes"].values()
        assert int(error.code) != FILE["error_codes"]["Internal"], error


# Fields of requests

WRONG = {
    "string": {"wrong": 1},
    "integer": "wrong",
    "number": "wrong",
    "boolean": "wrong",
    "array": "wrong",
    "object": "wrong",
}


def kinds(schema: dict[str, Any]) -> set[str]:
    """Return the types that a property may have."""
    if "$ref" in schema:
        return kinds(FILE["schemas"][schema["$ref"].rpartition("/")[2]])
    found = schema.get("type", [])
    inner = [kind for part in ("oneOf", "anyOf", "allOf") for one in schema.get(part, []) for kind in kinds(one)]
    return {*([found] if isinstance(found, str) else found), *inner}


def example(operation: str) -> tuple[dict[str, Any], list[bytes]]:
    """Return a request of the operation with all required fields."""
    data = [ipc({"x": [1]})] if operation in {"insert_into_table", "merge_insert_into_table", "create_table"} else []
    fields: dict[str, Any] = {"id": ["t"]}
    schema = FILE["schemas"][OPERATIONS[operation]["request"]]
    for name in schema.get("required", []):
        (kind,) = kinds(schema["properties"][name]) - {"null"}
        fields[name] = {"string": "x", "integer": 1, "array": [], "object": {}, "boolean": True}[kind]
    return {**fields, **GIVEN.get(operation, {})}, data


GIVEN: dict[str, dict[str, Any]] = {
    "alter_transaction": {"actions": [{"setStatusAction": {"status": "Succeeded"}}]},
    "analyze_table_query_plan": {"k": 1, "vector": {}},
    "create_table_index": {"index_type": "BTREE"},
    "create_table_scalar_index": {"index_type": "BTREE"},
    "delete_from_table": {"predicate": "x = 1"},
    "explain_table_query_plan": {"query": {"k": 1, "vector": {}}},
    "merge_insert_into_table": {"on": ["x"], "when_not_matched_insert_all": True},
    "query_table": {"k": 1, "vector": {}},
}
PROPERTIES = [
    (operation, name, schema)
    for operation, entry in OPERATIONS.items()
    for name, schema in FILE["schemas"][entry["request"]]["properties"].items()
]


@pytest.fixture
def ns(tmp_path):
    """Open a catalog with a table `t`."""
    with DirectoryNamespace(root=str(tmp_path / "root"), **MODES["v2"]) as opened:
        create_table(opened, "t", data=ipc({"x": [1, 2, 3]}))
        yield opened


def state(ns):
    """Return the content of each file in the root."""
    root = Path(ns._properties["root"])
    return sorted((str(path), path.stat().st_size) for path in root.rglob("*") if path.is_file())


def refused(ns, operation, fields, data) -> int:
    """Return the error code of a refused request, which must change nothing."""
    before = state(ns)
    with pytest.raises(LanceNamespaceError) as told:
        getattr(ns, operation)(fields, *data)
    assert state(ns) == before
    return int(told.value.code)


def test_a_field_of_another_type_raises_invalid_input(ns):
    asked = 0
    for operation, name, schema in PROPERTIES:
        allowed = kinds(schema) - {"null"}
        if not allowed or allowed == set(WRONG):
            continue
        fields, data = example(operation)
        wrong = next(WRONG[kind] for kind in sorted(allowed))
        if faults(wrong, OPERATIONS[operation]["request"], name) == []:
            continue
        assert refused(ns, operation, {**fields, name: wrong}, data) == 13, (operation, name)
        asked += 1
    assert asked > 150


def test_a_request_without_a_required_field_raises_invalid_input(ns):
    asked = 0
    for operation, entry in OPERATIONS.items():
        fields, data = example(operation)
        for name in FILE["schemas"][entry["request"]].get("required", []):
            without = {key: value for key, value in fields.items() if key != name}
            assert refused(ns, operation, without, data) == 13, (operation, name)
            asked += 1
    assert asked > 30


def limits():
    """Yield each number, text and list of a request that has a minimum, with a value below it."""
    for operation, name, schema in PROPERTIES:
        if "minimum" in schema:
            yield pytest.param(operation, name, schema["minimum"] - 1, id=f"{operation}-{name}")
        elif "minLength" in schema:
            yield pytest.param(operation, name, "", id=f"{operation}-{name}")
        elif "minItems" in schema:
            yield pytest.param(operation, name, [], id=f"{operation}-{name}")


@pytest.mark.parametrize(("operation", "name", "less"), list(limits()))
def test_values_below_the_minimum_are_refused(ns, operation, name, less):
    fields, data = example(operation)
    assert refused(ns, operation, {**fields, name: less}, data) in {11, 13}


# Examples

EXAMPLES = [
    pytest.param(one, id=f"{one['schema']}.{one.get('property') or one.get('answer', '')}") for one in FILE["examples"]
]


@pytest.mark.parametrize("given", EXAMPLES)
def test_an_example_fits_its_schema(given):
    found = faults(given["value"], given["schema"], given.get("property"))
    if given.get("answer", "").endswith("ErrorResponse"):
        # The examples of errors have an older form, without the code that the schema requires.
        assert found == ["$: 'code' is a required property"]
    else:
        assert found == []


def given(schema, field=None):
    return next(one["value"] for one in FILE["examples"] if one["schema"] == schema and one.get("property") == field)


def test_the_examples_of_lists_of_namespaces(ns):
    some, none = [one["value"] for one in FILE["examples"] if one["schema"] == "ListNamespacesResponse"]
    if not some["namespaces"]:
        some, none = none, some
    assert ns.list_namespaces({"id": []}).model_dump(exclude_none=True) == none
    for name in reversed(some["namespaces"]):
        create_namespace(ns, name)
    assert ns.list_namespaces({"id": []}).model_dump(exclude_none=True) == some


def test_the_examples_of_properties(ns):
    properties = given("DescribeNamespaceResponse", "properties")
    assert create_namespace(ns, "n", properties=properties).properties == properties
    assert ns.describe_namespace({"id": ["n"]}).properties == properties
    properties = given("CreateTableResponse", "properties")
    assert create_table(ns, "n", "a", properties=properties).properties == properties
    assert describe_table(ns, "n", "a").properties == given("DescribeTableResponse", "properties")
    assert declare_table(ns, "n", "b", properties=properties).properties == given("DeclareTableResponse", "properties")
    assert drop_table(ns, "n", "b").properties == given("DropTableResponse", "properties")
    assert deregister_table(ns, "n", "a").properties == given("DeregisterTableResponse", "properties")


def test_the_example_of_an_error(ns):
    create_namespace(ns, "production")
    with pytest.raises(LanceNamespaceError) as told:
        describe_table(ns, "production", "users")
    assert int(told.value.code) == given("ErrorResponse", "code")
    assert "users" in str(told.value)


def test_the_example_of_a_naming_scheme(ns):
    latest = ns.describe_table_version({"id": ["t"]}).version
    assert latest.manifest_path.rpartition("/")[2] == f"{(1 << 64) - 1 - latest.version:020}.manifest"
    assert given("ManifestNamingScheme") == "V2"


@pytest.mark.parametrize("on", ["x", ["x"]])
def test_a_merge_accepts_one_column_or_several(ns, on):
    request = {"id": ["t"], "on": on, "when_not_matched_insert_all": True}
    assert ns.merge_insert_into_table(request, ipc({"x": [3, 4]})).num_inserted_rows == 1


def test_models_of_the_sdk_have_every_field_of_the_openapi_file():
    for entry in OPERATIONS.values():
        for schema in (entry["request"], entry["answer"]):
            if schema is None or schema in TEXTS:
                continue
            model = getattr(lance_namespace, schema)
            names = {field.alias or name for name, field in model.model_fields.items()}
            assert set(FILE["schemas"][schema].get("properties", {})) <= names, schema
