"""The models of requests next to the schemas of the specification, which scripts/iceberg_schemas.py extracts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from pennon.server.iceberg import models

SPECIFICATION = json.loads((Path(__file__).parent / "data" / "iceberg_schemas.json").read_text())
SCHEMAS = SPECIFICATION["schemas"]
MODELS = {
    name: one
    for name, one in vars(models).items()
    if isinstance(one, type) and issubclass(one, BaseModel) and one.__module__ == models.__name__
}
OURS = {"_Body", "TableChange", "MeaninglessUpdate"}
"""Models that no schema has the name of."""
MAY_BE_MISSING = {
    "ListType": {"element-id", "element-required"},
    "MapType": {"key-id", "value-id", "value-required"},
    "PartitionSpec": {"fields"},
    "Schema": {"type"},
    "SetSnapshotRefUpdate": {"type"},
    "Snapshot": {"timestamp-ms", "manifest-list", "summary"},
    "SortOrder": {"order-id", "fields"},
    "StructField": {"id", "required"},
    "StructType": {"type"},
    "AssertRefSnapshotId": {"snapshot-id"},  # "if `snapshot-id` is `null` or missing, the ref must not already exist"
}
"""Required fields that clients may leave out, because they mean nothing for a Lance table."""
ACTIONS_OF_LATER_VERSIONS = {"add-encryption-key", "remove-encryption-key"}


def document_of(model: type[BaseModel]) -> dict:
    document = model.model_json_schema(by_alias=True)
    name = document.get("$ref", "").rpartition("/")[2]
    return {**document["$defs"][name], "$defs": document["$defs"]} if name else document


def kind_of(schema: dict, definitions: dict) -> str:
    """Return the kind of a field as the extract writes it."""
    if "$ref" in schema:
        return kind_of(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "const" in schema:
        return f"const {schema['const']}"
    choices = [one for one in schema.get("anyOf", []) if one != {"type": "null"}]
    return kind_of(choices[0], definitions) if len(choices) == 1 else schema.get("type", "any")


def test_every_model_is_a_schema_of_the_specification():
    assert MODELS.keys() - OURS == SCHEMAS.keys()


@pytest.mark.parametrize("name", SCHEMAS)
def test_fields_have_the_names_and_kinds_of_the_specification(name):
    document = document_of(MODELS[name])
    kinds = {key: kind_of(one, document.get("$defs", {})) for key, one in document["properties"].items()}
    assert kinds == {key: SCHEMAS[name]["fields"].get(key) for key in kinds}


@pytest.mark.parametrize("name", SCHEMAS)
def test_required_fields_are_those_of_the_specification(name):
    required = set(document_of(MODELS[name]).get("required", []))
    assert required == set(SCHEMAS[name]["required"]) - MAY_BE_MISSING.get(name, set())


def test_every_update_and_requirement_is_known():
    updates, requirements = (get_args(get_args(one)[0]) for one in (models.TableUpdate, models.TableRequirement))
    actions = {one for update in updates for one in get_args(update.model_fields["action"].annotation)}
    assert actions == set(SPECIFICATION["updates"]) | ACTIONS_OF_LATER_VERSIONS
    types = {one for requirement in requirements for one in get_args(requirement.model_fields["type"].annotation)}
    assert types == set(SPECIFICATION["requirements"])
