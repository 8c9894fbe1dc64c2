"""Write tests/server/data/iceberg_schemas.json: the schemas of the Iceberg REST specification that the server reads.

Run it as `python scripts/iceberg_schemas.py <the OpenAPI file>`. For each model in `server/iceberg/models.py` with the
name of a schema it keeps the fields with their kind, and which of them are required; and the names of all updates and
requirements.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parent.parent / "tests" / "server" / "data" / "iceberg_schemas.json"


def extracted(document: dict[str, Any]) -> dict[str, Any]:
    """Return the extract of a parsed file."""
    from pennon.server.iceberg import models

    schemas = document["components"]["schemas"]
    names = sorted(name for name, one in vars(models).items() if isinstance(one, type) and name in schemas)
    return {
        "version": document["info"]["version"],
        "updates": sorted(schemas["BaseUpdate"]["discriminator"]["mapping"]),
        "requirements": sorted(schemas["TableRequirement"]["discriminator"]["mapping"]),
        "schemas": {name: _flat(schemas, schemas[name]) for name in names},
    }


def _flat(schemas: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a schema and of those that it extends."""
    flat: dict[str, Any] = {"fields": {}, "required": []}
    for part in [*(_resolved(schemas, one) for one in schema.get("allOf", [])), schema]:
        inner = _flat(schemas, part) if part is not schema else part
        found = inner.get("fields") or {name: _kind(schemas, one) for name, one in inner.get("properties", {}).items()}
        flat["fields"] |= found
        flat["required"] = sorted({*flat["required"], *inner.get("required", [])})
    return flat


def _kind(schemas: dict[str, Any], schema: dict[str, Any]) -> str:
    schema = _resolved(schemas, schema)
    if "const" in schema:
        return f"const {schema['const']}"
    return str(schema.get("type", "object" if "allOf" in schema else "any"))


def _resolved(schemas: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


if __name__ == "__main__":
    content = extracted(yaml.safe_load(Path(sys.argv[1]).read_text()))
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
