"""A pipeline's file: what is wrong is told all at once, with the line and the key; secrets are never shown."""

from __future__ import annotations

import textwrap

import pytest
from lance_namespace.errors import InvalidInputError

from pennon.spark.pipeline import document
from pennon.spark.pipeline.problems import InvalidPipelineError
from pennon.spark.pipeline.validation import defined, validated

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
    return validated(document.parse(content, dict(given), environment, file="p.yaml"))


def refused(text, given=(), **environment):
    with pytest.raises(InvalidPipelineError) as caught:
        load(text, given, **environment)
    assert int(caught.value.code) == 13
    return str(caught.value).splitlines()


def test_a_good_file():
    made = load(GOOD)
    assert made.name == "daily"
    assert made.targets[0].mode == "append"
    assert made.publish == "atomic"
    assert made.sources["orders"].path == ("in.csv",)


def test_many_problems_at_once_with_line_and_key():
    told = refused(
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
    assert told[0].startswith("p.yaml:1: name: it is letters, digits")
    assert told[1:] == [
        "p.yaml:2: soruces: unknown key; did you mean 'sources'?",
        "p.yaml:4: sources.orders: 'version' is for tables of the catalog",
        "p.yaml:7: sources.orders: the key stands here for the second time (first in line 4)",
        "p.yaml:9: steps.tidy.sql: it is missing",
        "p.yaml:9: steps.tidy.sqll: unknown key; did you mean 'sql'?",
        "p.yaml:13: targets[0].mode: it is one of 'append', 'overwrite', 'merge', not 'apend'; did you mean 'append'?",
        (
            "p.yaml:15: targets[0].checks[0]: a check is exactly one of not_null, unique, accepted_values, row_count, "
            "sql; got not_null and unique"
        ),
        "p.yaml:17: targets[0].checks[1].row_count: 'min' (5) is larger than 'max' (2)",
        "p.yaml:18: targets[0].checks[2].accepted_values.status: it needs at least one entry",
        "p.yaml:19: targets[0].checks[3].severity: it is one of 'error', 'warn', not 'eror'; did you mean 'error'?",
    ]


def test_names_that_lead_nowhere():
    told = refused(
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
    assert told[0] == "p.yaml:3: sources.orders.table: Bad identifier 'sales..orders': no name at position 7"
    assert told[1:4] == [
        "p.yaml:5: sources.this: 'this' is what checks call the data that they look at; take another name",
        "p.yaml:6: sources.1x: a name here is letters, digits and '_', and does not begin with a digit",
        "p.yaml:8: steps.early.sql: the step 'late' comes later; steps run in the order of the file",
    ]
    assert told[4] == "p.yaml:9: steps.tidy: the name is taken: sources.Tidy (line 4)"
    assert told[5] == "p.yaml:9: steps.tidy.sql: the step 'tidy' reads itself"
    assert told[6].startswith("p.yaml:13: steps.late.sql: it cannot be read as SQL: ")
    assert told[7:9] == [
        "p.yaml:14: steps.two.sql: it has to be one query",
        "p.yaml:15: steps.insert.sql: it has to be a query (SELECT ...), which changes nothing",
    ]
    assert told[9] == "p.yaml:17: targets[0].from: there is no source or step 'layt'; did you mean 'late'?"
    assert told[10] == "p.yaml:18: targets[1].table: 'a.b' is the table of another target too"
    assert told[11].startswith("p.yaml:19: targets[2].table: Bad name '__x'")
    assert [line.partition(": ")[0] for line in told[12:]] == ["p.yaml:21", "p.yaml:22", "p.yaml:23"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("mode: merge", "a merge needs 'on'"),
        ("on: id", "'on' belongs to 'mode: merge', not to 'append'"),
        ("when_matched: ignore", "'when_matched' belongs to 'mode: merge'"),
        ("merge_schema: maybe", "it has to be a valid boolean, unable to interpret input, not 'maybe'"),
        ("checks: {not_null: id}", "it has to be a list"),
        ("checks: [{not_null: id, expect: empty}]", "'expect' belongs to a check by 'sql'"),
        ("checks: [{}]", "got none"),
    ],
)
def test_targets_that_make_no_sense(lines, expected):
    (told,) = refused(f"name: p\nsources: {{s: {{format: csv}}}}\ntargets:\n  - table: t\n    from: s\n    {lines}\n")
    assert told.startswith("p.yaml:")
    assert expected in told


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
        ("[a]", "it has to be a mapping of keys, not ['a']"),
    ],
)
def test_sources_that_make_no_sense(source, expected):
    (told,) = refused(f"name: p\nsources:\n  s: {source}\ntargets: [{{table: t, from: s}}]\n")
    assert told.startswith("p.yaml:3: sources.s")
    assert expected in told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: [", "p.yaml:1: it is not YAML: "),
        (
            "name: {x: ${y}}",
            "p.yaml:1: it is not YAML: while parsing a flow mapping, expected ',' or '}', but got '{'; between",
        ),
        ("- 1\n", "p.yaml:1: it has to be a mapping"),
        ("", "p.yaml:1: it has to be a mapping"),
        ("name: !!python/object:os.system x\n", "p.yaml:1: the tag 'tag:yaml.org,2002:python/object:os.system'"),
        ("a: 1\n---\nb: 2\n", "it is not YAML: expected a single document"),
        ("a: " + "[" * 40 + "]" * 40, "p.yaml:1: it is nested too deep"),
        ("name: \x00", "it is not YAML"),
        ("name: x\n" + "#" * (1 << 20), "it is larger than"),
        ("? [a]\n: 1\n", "p.yaml:1: a key has to be a text"),
        ("a: &a {x: 1}\nb:\n  <<: *a\n", "p.yaml:3: b: merge keys ('<<') are not supported"),
        ("a: &a [*a]\n", "aliases make it too large"),
    ],
)
def test_what_is_no_pipeline_at_all(text, expected):
    told = refused(text)
    assert any(expected in line for line in told)


def test_aliases_work_but_do_not_explode():
    made = load(GOOD.replace("{format: csv, path: in.csv}", "&o {format: csv, path: in.csv}") + "  more: *o\n")
    assert made.sources["more"] == made.sources["orders"]
    bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for level in range(1, 9):
        bomb += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n"
    (told,) = refused(bomb)
    assert "aliases make it too large" in told


def test_plain_texts_stay_texts():
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


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InvalidInputError, match="Cannot read the pipeline"):
        document.read(tmp_path / "none.yaml", {})


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


def test_what_is_shown_has_no_secret():
    read = document.parse(WITH_VARIABLES, {"region": "eu"}, {"TOKEN": SECRET, "PASSWORD": "pass-word"})
    assert read.secrets == {SECRET, "pass-word"}
    shown = str(read.shown)
    assert SECRET not in shown
    assert "pass-word" not in shown
    assert read.shown["sources"]["orders"]["options"] == {
        "password": "${ENV:PASSWORD}",
        "token": "${token}",
        "odd": "${day}",
    }


def test_variables_that_are_missing():
    told = refused(WITH_VARIABLES.replace("${day}/", "${dya}/${"), {"regoin": "eu"})
    assert told == [
        "p.yaml:2: vars.regoin: it is given, but the file declares no such variable; did you mean 'region'?",
        "p.yaml:5: vars.token: the environment variable 'TOKEN' is not set",
        "p.yaml:6: vars.region: it has no default, so it has to be given: --var region=...",
        "p.yaml:10: sources.orders.path: the variable 'dya' is not declared in 'vars'; did you mean 'day'?",
        "p.yaml:10: sources.orders.path: a '${' has no '}'; write '$${' for the characters themselves",
    ]


def test_a_bad_value_is_not_shown_if_it_is_a_secret():
    text = GOOD.replace("{format: csv, path: in.csv}", "{table: x, version: '${ENV:TOKEN}'}")
    (told,) = refused(text, TOKEN=SECRET)
    assert told == (
        "p.yaml:6: sources.orders.version: it has to be a valid integer, unable to parse string as an integer, "
        "not '${ENV:TOKEN}'"
    )


# The same from Python


def test_definitions_made_by_python():
    values = {"name": "p", "sources": {"s": {"format": "csv"}}, "targets": [{"table": "t", "from": "s"}]}
    assert defined(values).targets[0].from_ == "s"
    assert defined(defined(values)) == defined(values)
    values["targets"][0]["form"] = 1
    with pytest.raises(InvalidPipelineError, match=r"pipeline: targets\[0\].form: unknown key; did you mean 'from'"):
        defined(values)
