"""The routes of the client are those of the specification."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pennon.rest import routes

SPECIFICATION = yaml.safe_load((Path(__file__).parent.parent / "specs" / "lance-namespace-openapi.yaml").read_text())
ROUTES = {one.operation: one for one in vars(routes).values() if isinstance(one, routes.Route)}


def resolve(node: dict[str, Any]) -> dict[str, Any]:
    """Follow references."""
    while "$ref" in node:
        found: Any = SPECIFICATION
        for key in node["$ref"].removeprefix("#/").split("/"):
            found = found[key]
        node = found
    return node


def operations() -> dict[str, tuple[str, str, dict[str, Any], list[dict[str, Any]]]]:
    """Return the method, path, definition and parameters of each operation."""
    found = {}
    for path, methods in SPECIFICATION["paths"].items():
        shared = methods.get("parameters", [])
        for method, one in methods.items():
            if method != "parameters":
                name = re.sub(r"(?<!^)(?=[A-Z])", "_", one["operationId"]).lower()
                parameters = [resolve(parameter) for parameter in [*shared, *one.get("parameters", [])]]
                found[name] = (method.upper(), path, one, parameters)
    return found


OPERATIONS = operations()


def test_every_operation_has_a_route():
    assert ROUTES.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("name", sorted(ROUTES))
def test_a_route_is_that_of_the_specification(name):
    route = ROUTES[name]
    method, path, definition, parameters = OPERATIONS[name]
    assert (route.method, f"/v1/{route.path}") == (method, path)
    queried = {one["name"] for one in parameters if one["in"] == "query"} - {"delimiter"}
    assert set(route.query) == queried
    kinds = set(resolve(definition["requestBody"])["content"]) if "requestBody" in definition else {"none"}
    kind = {"request": "application/json", "rows": "application/vnd.apache.arrow.stream", "none": "none"}[route.body]
    assert kinds == {kind}
