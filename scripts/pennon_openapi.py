"""Write docs/reference/pennon-openapi.yaml: the operations of the server beyond the specification.

Run `.venv/bin/python scripts/pennon_openapi.py` after a change to `server/lance/extensions.py`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import yaml
from pydantic import TypeAdapter

from pennon import results
from pennon.server.lance import extensions

if TYPE_CHECKING:
    from pennon.server.lance.operations import Operation

FILE = Path(__file__).parent.parent / "docs" / "reference" / "pennon-openapi.yaml"
_REF = "#/components/schemas/{model}"
_ERROR = {
    "type": "object",
    "required": ["code"],
    "properties": {"error": {"type": "string"}, "code": {"type": "integer"}, "instance": {"type": "string"}},
}
_NAMES = {**vars(results), "Namespace": object}


def document() -> dict[str, Any]:
    """Return the document."""
    schemas: dict[str, Any] = {"ErrorResponse": _ERROR}
    paths = {
        f"/v1{operation.path}": {operation.method.lower(): _describe(operation, schemas)}
        for operation in extensions.EXTENSIONS
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pennon extensions of the Lance REST namespace",
            "version": "1",
            "description": "Errors, identifiers, delimiters and authentication are those of the Lance namespace "
            "specification. Each request that changes something may have an `Idempotency-Key` header.",
        },
        "security": [{}, {"BearerAuth": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"BearerAuth": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Error": {
                    "description": "An error",
                    "content": {"application/json": {"schema": {"$ref": _REF.format(model="ErrorResponse")}}},
                }
            },
            "schemas": dict(sorted(schemas.items())),
        },
    }


def _describe(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", operation.id).lower()
    result = get_type_hints(operation.perform, localns=_NAMES)["return"]
    request = _schema(operation.request, schemas)
    fields = {name: one for name, one in request.get("properties", {}).items() if name != "id"}
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": words.capitalize(),
        "parameters": _parameters(operation, fields),
        "responses": {
            str(operation.status): {
                "description": "The result",
                "content": {"application/json": {"schema": _refer(result, schemas)}},
            },
            **{str(status): {"$ref": "#/components/responses/Error"} for status in sorted(operation.errors)},
        },
    }
    if operation.method == "POST":
        required = bool(set(request.get("required", [])) - {"id"})
        described["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": _refer(operation.request, schemas)}},
        }
    return described


def _parameters(operation: Operation, fields: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if "{id}" in operation.path:
        found.append({"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})
        found.append({"name": "delimiter", "in": "query", "schema": {"type": "string", "default": "$"}})
    if operation.changes:
        found.append({"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 255}})
    if operation.method == "GET":
        found += [{"name": name, "in": "query", "schema": schema} for name, schema in fields.items()]
    return found


def _schema(kind: type, schemas: dict[str, Any]) -> dict[str, Any]:
    made = TypeAdapter(kind).json_schema(ref_template=_REF)
    schemas.update(made.pop("$defs", {}))
    return made


def _refer(kind: type, schemas: dict[str, Any]) -> dict[str, str]:
    schemas[kind.__name__] = _schema(kind, schemas)
    return {"$ref": _REF.format(model=kind.__name__)}


def text() -> str:
    """Return the document as it is written."""
    return yaml.safe_dump(document(), sort_keys=False, width=120, allow_unicode=True)


if __name__ == "__main__":
    FILE.write_text(text())
