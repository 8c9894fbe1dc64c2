"""Pipeline files: all problems are reported at once with line and key, and secrets are never shown."""

from __future__ import annotations

import textwrap

import pytest
from lance_namespace.errors import InvalidInputError

from pennon.spark.pipeline import document
from pennon.spark.pipeline.problems import InvalidPipelineError
from pennon.spark.pipeline.validation import validate_definition, validate_document

GOOD = """\
name: daily
targets:
  - table: sales.orders
    from: orders
sources:
  orders: {format: csv, path: in.csv}
"""


def load(text, given=(), **environment):
    content = textwrap.dedent(text)
    return validate_document(document.parse_document(content, dict(given), environment, file="p.yaml"))


def load_fails(text, given=(), **environment):
    with pytest.raises(InvalidPipelineError) as caught:
        load(text, given, **environment)
    assert int(caught.value.code) == 13
    return str(caught.value).splitlines()


def test_valid_file_is_loaded():
    made = load(GOOD)
    assert made.name == "daily"
    assert made.targets[0].mode == "append"
    assert made.publish == "atomic"
    assert made.sources["orders"].path == ("in.csv",)


def test_all_problems_are_reported_with_line_and_key():
    messages = load_fails(
        """\
        name: bad name!
        soruces: {}
        sources:
          orders:
            format: csv
            version: 3
          orders: {format: json}
        steps:
          tidy: {sqll: SELECT 1}
        targets:
          - table: sales.orders
            from: tidy
            mode: apend
            checks:
              - not_null: id
                unique: id
              - row_count: {min: 5, max: 2}
              - accepted_values: {status: []}
              - {sql: SELECT 1, severity: eror}
        """
    )
    assert messages[0].startswith("p.yaml:1: name: must be up to 100 letters, digits")
    assert messages[1:] == [
        "p.yaml:2: soruces: unknown key; did you mean 'sources'?",
        "p.yaml:4: sources.orders: 'version' is for tables of the catalog",
        "p.yaml:7: sources.orders: duplicate key (first in line 4)",
        "p.yaml:9: steps.tidy.sql: required key is missing",
        "p.yaml:9: steps.tidy.sqll: unknown key; did you mean 'sql'?",
        (
            "p.yaml:13: targets[0].mode: must be one of 'append', 'overwrite', 'merge', not 'apend'; "
            "did you mean 'append'?"
        ),
        (
            "p.yaml:15: targets[0].checks[0]: a check must be exactly one of not_null, unique, accepted_values, "
            "row_count, sql; got not_null and unique"
        ),
        "p.yaml:17: targets[0].checks[1].row_count: 'min' (5) is larger than 'max' (2)",
        "p.yaml:18: targets[0].checks[2].accepted_values.status: must have at least one entry",
        "p.yaml:19: targets[0].checks[3].severity: must be one of 'error', 'warn', not 'eror'; did you mean 'error'?",
    ]


def test_unknown_keys_hide_no_other_problems():
    messages = load_fails(
        """\
        name: p
        sources:
          orders: {table: orders, format: csv, pathh: x}
        steps: {tidy: SELECT 1 AS x}
        targets:
          - {table: out, from: tydi, mod: append}
        """
    )
    assert messages == [
        "p.yaml:3: sources.orders.pathh: unknown key; did you mean 'path'?",
        "p.yaml:3: sources.orders: name either a 'table' of the catalog or a 'format' that Spark reads",
        "p.yaml:6: targets[0].mod: unknown key; did you mean 'mode'?",
        "p.yaml:6: targets[0].from: there is no source or step 'tydi'; known: 'orders', 'tidy'",
    ]
    messages = load_fails(
        """\
        name: p
        steps: {tidy: SELECT 1 AS x}
        targets:
          - {table: out, from: tydi, mod: append}
        """
    )
    assert messages == [
        "p.yaml:4: targets[0].mod: unknown key; did you mean 'mode'?",
        "p.yaml:4: targets[0].from: there is no source or step 'tydi'; known: 'tidy'",
    ]


def test_bad_names_and_queries_are_reported():
    messages = load_fails(
        """\
        name: p
        sources:
          orders: {table: "sales..orders"}
          Tidy: {format: csv, path: x}
          this: {format: csv, path: x}
          1x: {format: csv, path: x}
        steps:
          early: SELECT * FROM late
          tidy: SELECT * FROM tidy
          late: |
            SELECT *
            FROM orders
            WHERE AND
          two: SELECT 1; SELECT 2
          insert: INSERT INTO x SELECT 1
        targets:
          - {table: a.b, from: layt}
          - {table: a.b, from: late, mode: merge, on: id}
          - {table: __x, from: late}
        checks:
          - not_null: id
          - sql: SELECT * FROM this
            scope: new
        """
    )
    assert messages[0] == "p.yaml:3: sources.orders.table: Bad identifier 'sales..orders': no name at position 7"
    assert messages[1:4] == [
        "p.yaml:5: sources.this: 'this' is reserved for the data that a check reads; choose another name",
        "p.yaml:6: sources.1x: a name must consist of letters, digits and '_', and must not begin with a digit",
        "p.yaml:8: steps.early.sql: the step 'late' comes later; steps run in the order of the file",
    ]
    assert messages[4] == "p.yaml:9: steps.tidy: the name is taken: sources.Tidy (line 4)"
    assert messages[5] == "p.yaml:9: steps.tidy.sql: the step 'tidy' reads itself"
    assert messages[6].startswith("p.yaml:13: steps.late.sql: it cannot be parsed as SQL: ")
    assert messages[7:9] == [
        "p.yaml:14: steps.two.sql: it must be one query",
        "p.yaml:15: steps.insert.sql: it must be a query (SELECT ...) that changes nothing",
    ]
    assert messages[9] == "p.yaml:17: targets[0].from: there is no source or step 'layt'; did you mean 'late'?"
    assert messages[10] == "p.yaml:18: targets[1].table: 'a.b' is also the table of another target"
    assert messages[11].startswith("p.yaml:19: targets[2].table: Bad name '__x'")
    assert [line.partition(": ")[0] for line in messages[12:]] == ["p.yaml:21", "p.yaml:22", "p.yaml:23"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("mode: merge", "a merge needs 'on'"),
        ("on: id", "'on' belongs to 'mode: merge', not to 'append'"),
        ("when_matched: ignore", "'when_matched' belongs to 'mode: merge'"),
        ("merge_schema: maybe", "must be a valid boolean, unable to interpret input, not 'maybe'"),
        ("checks: {not_null: id}", "must be a list"),
        ("checks: [{not_null: id, expect: empty}]", "'expect' belongs to a check by 'sql'"),
        ("checks: [{}]", "got none"),
    ],
)
def test_invalid_targets_are_reported(lines, expected):
    (messages,) = load_fails(
        f"name: p\nsources: {{s: {{format: csv}}}}\ntargets:\n  - table: t\n    from: s\n    {lines}\n"
    )
    assert messages.startswith("p.yaml:")
    assert expected in messages


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{}", "name either a 'table' of the catalog or a 'format' that Spark reads"),
        ("{table: a, format: csv}", "name either a 'table'"),
        ("{table: a, version: 1, tag: x}", "only one of version, tag and as_of"),
        ("{table: a, tag: x, branch: y}", "give a tag or a branch"),
        ("{table: a, path: x}", "'path' is for a 'format'"),
        ("{format: csv, branch: x}", "'branch' is for tables of the catalog"),
        ("{table: a, version: 0}", "greater than or equal to 1"),
        ("[a]", "must be a mapping, not ['a']"),
    ],
)
def test_invalid_sources_are_reported(source, expected):
    (messages,) = load_fails(f"name: p\nsources:\n  s: {source}\ntargets: [{{table: t, from: s}}]\n")
    assert messages.startswith("p.yaml:3: sources.s")
    assert expected in messages


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: [", "p.yaml:1: it is not YAML: "),
        (
            "name: {x: ${y}}",
            "p.yaml:1: it is not YAML: while parsing a flow mapping, expected ',' or '}', but got '{'; quote",
        ),
        ("- 1\n", "p.yaml:1: it must be a mapping"),
        ("", "p.yaml:1: it must be a mapping"),
        ("name: !!python/object:os.system x\n", "p.yaml:1: the tag 'tag:yaml.org,2002:python/object:os.system'"),
        ("a: 1\n---\nb: 2\n", "it is not YAML: expected a single document"),
        ("a: " + "[" * 40 + "]" * 40, "p.yaml:1: it is nested too deep"),
        ("name: \x00", "it is not YAML"),
        ("name: x\n" + "#" * (1 << 20), "it is larger than"),
        ("? [a]\n: 1\n", "p.yaml:1: a key must be a text"),
        ("a: &a {x: 1}\nb:\n  <<: *a\n", "p.yaml:3: b: merge keys ('<<') are not supported"),
        ("a: &a [*a]\n", "aliases make it too large"),
    ],
)
def test_malformed_yaml_is_reported(text, expected):
    messages = load_fails(text)
    assert any(expected in line for line in messages)


def test_aliases_are_limited_in_size():
    made = load(GOOD.replace("{format: csv, path: in.csv}", "&o {format: csv, path: in.csv}") + "  more: *o\n")
    assert made.sources["more"] == made.sources["orders"]
    bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for level in range(1, 9):
        bomb += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n"
    (messages,) = load_fails(bomb)
    assert "aliases make it too large" in messages


def test_scalars_follow_the_core_schema():
    made = load(
        GOOD
        + """\
steps:
  a:
    sql: SELECT 1
    checks:
      - accepted_values: {x: [yes, no, on, 2026-01-01, 007, 1, 1.5, true, "1", 1e3]}
"""
    )
    values = made.steps["a"].checks[0].accepted_values["x"]
    assert values == ("yes", "no", "on", "2026-01-01", "007", 1, 1.5, True, "1", 1000.0)


def test_missing_file_raises_invalid_input(tmp_path):
    with pytest.raises(InvalidInputError, match="Cannot read the pipeline"):
        document.load_document(tmp_path / "none.yaml", {})


# Variables and secrets

SECRET = "hunter2-and-more"
WITH_VARIABLES = """\
name: p
vars:
  day: "2026-01-01"
  rows: 5
  token: {default: "${ENV:TOKEN}", secret: true}
  region: null
sources:
  orders:
    format: jdbc
    path: in/${day}/${region}.csv
    options: {password: "${ENV:PASSWORD:-none}", token: "${token}", odd: "$${day}"}
targets:
  - table: t
    from: orders
    checks: [{row_count: {min: "${rows}"}}]
"""


def test_variables_are_filled_in():
    made = load(WITH_VARIABLES, {"region": "eu", "rows": "7"}, TOKEN=SECRET)
    source = made.sources["orders"]
    assert source.path == ("in/2026-01-01/eu.csv",)
    assert source.options == {"password": "none", "token": SECRET, "odd": "${day}"}
    assert made.targets[0].checks[0].row_count.min == 7


def test_masked_document_contains_no_secret():
    read = document.parse_document(WITH_VARIABLES, {"region": "eu"}, {"TOKEN": SECRET, "PASSWORD": "pass-word"})
    assert read.secrets == {SECRET, "pass-word"}
    masked = str(read.masked)
    assert SECRET not in masked
    assert "pass-word" not in masked
    assert read.masked["sources"]["orders"]["options"] == {
        "password": "${ENV:PASSWORD}",
        "token": "${token}",
        "odd": "${day}",
    }


def test_missing_variables_are_reported():
    messages = load_fails(WITH_VARIABLES.replace("${day}/", "${dya}/${"), {"regoin": "eu"})
    assert messages == [
        "p.yaml:2: vars.regoin: it is set, but the file does not declare it; did you mean 'region'?",
        "p.yaml:5: vars.token: the environment variable 'TOKEN' is not set",
        "p.yaml:6: vars.region: it has no default: set it with --var region=...",
        "p.yaml:10: sources.orders.path: the variable 'dya' is not declared in 'vars'; did you mean 'day'?",
        "p.yaml:10: sources.orders.path: a '${' has no '}'; write '$${' for a literal '${'",
    ]


def test_messages_do_not_contain_secret_values():
    text = GOOD.replace("{format: csv, path: in.csv}", "{table: x, version: '${ENV:TOKEN}'}")
    (messages,) = load_fails(text, TOKEN=SECRET)
    assert messages == (
        "p.yaml:6: sources.orders.version: must be a valid integer, unable to parse string as an integer, "
        "not '${ENV:TOKEN}'"
    )


# Definitions in Python


def test_definitions_can_be_python_dicts():
    values = {"name": "p", "sources": {"s": {"format": "csv"}}, "targets": [{"table": "t", "from": "s"}]}
    assert validate_definition(values).targets[0].from_ == "s"
    assert validate_definition(validate_definition(values)) == validate_definition(values)
    values["targets"][0]["form"] = 1
    with pytest.raises(InvalidPipelineError, match=r"pipeline: targets\[0\].form: unknown key; did you mean 'from'"):
        validate_definition(values)
