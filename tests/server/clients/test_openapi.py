"""Requests that schemathesis makes from the specifications: each is answered as documented, and nothing breaks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import status_code_conformance

from tests.iceberg.irc_servers import facade
from tests.support import create_table, ipc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis.specs.openapi.schemas import OpenApiSchema

    from tests.iceberg.irc_servers import Irc

ROOT = Path(__file__).parents[3]
SPECIFICATIONS = (ROOT / "tests/specs/lance-namespace-openapi.yaml", ROOT / "docs/reference/pennon-openapi.yaml")
CHECKS = [not_a_server_error, status_code_conformance]
ROWS = [ipc({"id": [1, 2]}), ipc({"id": ["x"]}), ipc({"other": [None]}), b"", b"no Arrow"]
TABLE = "fuzzed"

schemathesis.openapi.media_type("application/vnd.apache.arrow.stream", st.sampled_from(ROWS))
DOCUMENTS = [yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader) for path in SPECIFICATIONS]
OPERATIONS = [
    (number, operation["operationId"])
    for number, document in enumerate(DOCUMENTS)
    for methods in document["paths"].values()
    for method, operation in methods.items()
    if method != "parameters"
]
each_operation = pytest.mark.parametrize(("document", "operation"), OPERATIONS)


@pytest.fixture(scope="module")
def specifications() -> list[OpenApiSchema]:
    return [schemathesis.openapi.from_dict(document) for document in DOCUMENTS]


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Irc]:
    """Serve a catalog of its own: requests turn version management off, and purge what is dropped."""
    with facade(tmp_path_factory.mktemp("fuzzed"), managed=True) as server:
        yield server


@pytest.fixture
def names(catalog, space) -> list[str]:
    """Return the identifiers of objects that exist: a namespace, a table and something inside it."""
    create_table(catalog, space, TABLE, data=ipc({"id": [1, 2, 3]}))
    return [space, f"{space}${TABLE}", f"{space}${TABLE}$1"]


def send(case: schemathesis.Case, uri: str, names: list[str]) -> None:
    """Send a request as it is, then to each object that exists."""
    case.call_and_validate(base_url=uri, checks=CHECKS)
    if "id" not in case.path_parameters:
        return
    if isinstance(case.body, dict):
        case.body.pop("id", None)
    case.query.pop("delimiter", None)
    for name in names:
        case.path_parameters["id"] = name
        case.call_and_validate(base_url=uri, checks=CHECKS)


def send_examples(
    specification: OpenApiSchema, operation: str, uri: str, names: list[str], *, examples: int, derandomize: bool
) -> None:
    @settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=examples, derandomize=derandomize)
    @given(case=specification.find_operation_by_id(operation).as_strategy())
    def send_each(case: schemathesis.Case) -> None:
        send(case, uri, names)

    send_each()


@each_operation
def test_answers_are_documented(specifications, document, operation, server, names):
    send_examples(specifications[document], operation, server.lance, names, examples=3, derandomize=True)


@pytest.mark.soak
@each_operation
def test_many_answers_are_documented(specifications, document, operation, server, names):
    send_examples(specifications[document], operation, server.lance, names, examples=200, derandomize=False)
