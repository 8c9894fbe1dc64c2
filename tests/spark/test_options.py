"""Options of the data source are parsed strictly and documented completely."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import pennon.spark
from pennon.spark import tables
from pennon.spark.lake import Lake
from pennon.spark.merging import merge, mutation
from pennon.spark.merging.clauses import MergeSpec
from pennon.spark.options import OPTIONS, PLAN, SourceOptions
from pennon.spark.reading.splits import MAX_SPLIT_BYTES
from pennon.spark.streaming import merge_batches
from pennon.spark.tables import FileSettings
from tests.support import fails

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "spark-options.md"


def test_every_option_is_documented_with_its_default():
    text = REFERENCE.read_text(encoding="utf-8")
    for name, (default, meaning) in OPTIONS.items():
        if name != PLAN:
            assert f"| `{name}` | {default or 'none'} | {meaning} |" in text


def test_documented_defaults_are_those_in_use():
    defaults = {name: default for name, (default, _) in OPTIONS.items()}
    files = FileSettings()
    assert defaults["splits"] == str(SourceOptions.of({"path": "t"}).splits)
    assert defaults["splitBytes"] == str(MAX_SPLIT_BYTES)
    assert defaults["maxRowsPerFile"] == str(files.max_rows_per_file)
    assert defaults["maxBytesPerFile"] == str(files.max_bytes_per_file)


@pytest.mark.parametrize(
    ("method", "function"),
    [
        (Lake.write, tables.write),
        (Lake.merge, merge.merge),
        (Lake.update, mutation.update),
        (Lake.delete, mutation.delete),
        (merge_batches, merge.merge),
    ],
)
def test_public_functions_name_every_option(method, function):
    offered = inspect.signature(method).parameters
    assert not [one for one in offered.values() if one.kind is inspect.Parameter.VAR_KEYWORD]
    accepted = inspect.signature(function).parameters
    named = {name for name, one in accepted.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}
    if function is tables.write:
        named = named - {"settings"} | set(FileSettings.__dataclass_fields__)
    if function is merge.merge:
        named |= set(MergeSpec.__dataclass_fields__)
    if method is merge_batches:
        # Each epoch is a job, and rows are matched by keys.
        named -= {"job_id", "on_condition"}
    assert named <= set(offered)
    for name in named & set(accepted):
        assert offered[name].default == accepted[name].default


def test_the_package_lists_its_public_names():
    assert set(pennon.spark.__all__) <= set(dir(pennon.spark))


def test_options_are_separated_from_properties_case_insensitively():
    asked = SourceOptions.of({"ROOT": "/r", "path": "a.b", "MERGEschema": "TRUE", "Version": "3", "impl": "dir"})
    assert asked.identifier == ("a", "b")
    assert asked.flag("mergeSchema")
    assert asked.number("version") == 3
    assert dict(asked.address.properties) == {"ROOT": "/r"}


@pytest.mark.parametrize(
    "options",
    [{}, {"path": ""}, {"path": "a..b"}, {"path": "a$b"}, {"path": "`a"}, {"path": ".a"}, {"path": "a."}],
)
def test_missing_table_name_raises_invalid_input(options):
    with fails(13):
        SourceOptions.of({"root": "/r", **options})


@pytest.mark.parametrize(
    ("name", "value", "ask"),
    [
        ("version", "one", lambda asked: asked.number("version")),
        ("splits", "0", lambda asked: asked.number("splits", least=1)),
        ("limit", "-1", lambda asked: asked.number("limit")),
        ("mergeSchema", "perhaps", lambda asked: asked.flag("mergeSchema")),
    ],
)
def test_invalid_option_values_are_refused_by_name(name, value, ask):
    asked = SourceOptions.of({"root": "/r", "path": "t", name: value})
    with fails(13, name):
        ask(asked)


def test_repr_contains_no_secrets():
    asked = SourceOptions.of({"root": "/r", "path": "t", "storage.aws_secret_access_key": "hidden"})
    assert "hidden" not in repr(asked)
