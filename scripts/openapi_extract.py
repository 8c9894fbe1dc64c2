"""Write tests/table/data/openapi.json: the parts of the Lance namespace's OpenAPI file that tests need.

Run it as `python scripts/openapi_extract.py <the file>`. It extracts the operations with the schemas of their requests
and responses, the schemas without descriptions, the examples, and the error codes. URL parameters count as fields of
the request, as they are for every client except a REST client.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parent.parent / "tests" / "table" / "data" / "openapi.json"
_METHODS = ("get", "post", "put", "delete")
_FOR_PEOPLE = {"description", "title", "summary", "deprecated"}
_CODE = re.compile(r"^\s*(\d+) - (\w+):", re.MULTILINE)
_JSON = "application/json"


def extracted(document: dict[str, Any]) -> dict[str, Any]:
    """Return the extract of a parsed file."""
    components = document["components"]
    schemas = {name: _plain(schema) for name, schema in components["schemas"].items()}
    codes = _CODE.findall(components["schemas"]["ErrorResponse"]["properties"]["code"]["description"])
    return {
        "error_codes": {name: int(code) for code, name in codes},
        "operations": dict(sorted(_operations(document))),
        "examples": sorted(_examples(document), key=lambda one: json.dumps(one, sort_keys=True)),
        "schemas": schemas,
    }


def _operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (entry["operationId"], _operation(document, entry))
        for path in document["paths"].values()
        for method, entry in path.items()
        if method in _METHODS
    ]


def _operation(document: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    name = entry["operationId"]
    answers = {str(status): _resolved(document, answer) for status, answer in entry["responses"].items()}
    (success,) = [answer for status, answer in answers.items() if status.startswith("2")]
    body = _resolved(document, entry.get("requestBody") or {}).get("content", {})
    # If a REST client sends something other than JSON, the schema still describes the request of other clients.
    schemas = document["components"]["schemas"]
    by_name = {kind: f"{name}{kind}" if f"{name}{kind}" in schemas else None for kind in ("Request", "Response")}
    return {
        "request": _reference(body.get(_JSON)) or by_name["Request"],
        "answer": _reference(success.get("content", {}).get(_JSON)) or by_name["Response"],
    }


def _reference(content: dict[str, Any] | None) -> str | None:
    """Return the name of a content's schema, or None."""
    found = None if content is None else content["schema"].get("$ref")
    return None if found is None else str(found.rpartition("/")[2])


def _examples(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all examples: of responses, properties and schemas."""
    found: list[dict[str, Any]] = []
    for name, schema in document["components"]["schemas"].items():
        if "example" in schema:
            found.append({"schema": name, "value": schema["example"]})
        for key, field in (schema.get("properties") or {}).items():
            if "example" in field:
                found.append({"schema": name, "property": key, "value": field["example"]})
    for name, answer in document["components"]["responses"].items():
        for content in answer.get("content", {}).values():
            given = [content["example"]] if "example" in content else []
            given += [_resolved(document, one)["value"] for one in content.get("examples", {}).values()]
            found += [{"answer": name, "schema": _reference(content), "value": value} for value in given]
    return found


def _resolved(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference, if it is one."""
    if "$ref" not in part:
        return part
    found: Any = document
    for name in part["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return dict(found)


def _plain(schema: Any, *, names: bool = False) -> Any:
    """Take away what is only for people; `names` are keys that are names of properties."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _plain(value, names=key == "properties" and not names)
        for key, value in schema.items()
        if names or (key not in _FOR_PEOPLE and key != "example")
    }


def main() -> int:
    """Read the file that the argument names, and write the extract."""
    source = Path(sys.argv[1])
    text = json.dumps(extracted(yaml.safe_load(source.read_text())), indent=1, sort_keys=True)
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
