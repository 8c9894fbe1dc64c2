"""What is found in a pipeline before Spark starts, all at once, and what is left to Spark."""

from __future__ import annotations

import pytest

from pennon.errors import InvalidInputError, TableNotFoundError
from pennon.spark.address import Address
from pennon.spark.pipeline import InvalidPipelineError, Pipeline
from pennon.spark.types.column_text import read_columns
from tests.support import create_table, ipc

STEP = """\
name: p
publish: per-table
sources: {{t: {{table: t}}}}
steps:
  a: >-
    {}
targets: [{{table: out, from: a}}]
"""


@pytest.fixture
def address(tmp_path, monkeypatch):
    # It may lead to settings of Hadoop, and then only Spark knows where a path leads.
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    found = Address.of("dir", {"root": str(tmp_path / "root")})
    create_table(found.connect(), "t", data=ipc({"id": [1], "name": ["x"], "s": [{"year": 1}]}))
    return found


def test_all_mistakes_are_reported_at_once(address, tmp_path):
    text = f"""\
name: p
publish: per-table
sources:
  o: {{format: csv, path: {tmp_path}/gone.csv, schema: "id BIGNT, s STRUCT<a: INT, b: foo>, d INT COMMENT 'x, y z'"}}
  gone: {{table: gone}}
  old: {{table: t, version: 99}}
steps:
  a: SELECT id, nam FROM t
  b: SELECT t.idd, x.id FROM t JOIN a x ON t.id = x.id
  c: SELECT * FROM a, o, gone, old
targets:
  - {{table: no.x, from: b, mode: merge, on: [id, key], checks: [{{not_null: no}}, {{sql: SELECT bad FROM this}}]}}
  - {{table: y, from: c, create: false}}
"""
    with pytest.raises(InvalidPipelineError) as caught:
        Pipeline.from_text(text).plan(address)
    assert str(caught.value).splitlines() == [
        f"pipeline:4: sources.o.path: There is nothing at '{tmp_path}/gone.csv'",
        "pipeline:4: sources.o.schema: Spark has no type 'BIGNT'",
        "pipeline:4: sources.o.schema: Spark has no type 'foo'",
        "pipeline:5: sources.gone.table: Table not found: 'gone'",
        "pipeline:6: sources.old: Table 't' has no version 99",
        "pipeline:8: steps.a.sql: There is no column 'nam'; did you mean 'name'?",
        "pipeline:9: steps.b.sql: There is no column 'idd'; did you mean 'id'?",
        "pipeline:12: targets[0].table: Namespace not found: 'no'",
        "pipeline:12: targets[0].on: There is no column 'key'; known: 'id', 'name', 's', 'year'",
        "pipeline:12: targets[0].checks[0].not_null: There is no column 'no'; known: 'id', 'name', 's', 'year'",
        "pipeline:12: targets[0].checks[1].sql: There is no column 'bad'; known: 'id', 'name', 's', 'year'",
        "pipeline:13: targets[1].table: Table 'y' does not exist, and 'create' is false",
    ]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("SELECT id FROM t", "SELECT idd FROM t", InvalidPipelineError),
        ("{table: t}", "{table: u}", TableNotFoundError),
        ("{table: t}", "{format: json, path: /nothing/here.json}", TableNotFoundError),
    ],
)
def test_a_single_mistake_keeps_its_class(address, old, new, error):
    text = STEP.format("SELECT id FROM t")
    Pipeline.from_text(text).plan(address)
    with pytest.raises(error, match=r"^pipeline:\d: "):
        Pipeline.from_text(text.replace(old, new)).plan(address)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s.year, n AS y, y + 1, _metadata.x FROM (SELECT *, upper(name) AS n FROM t)",
        "SELECT year FROM (SELECT s.year FROM t) WHERE year > 1",
        "SELECT col + 1, k, v FROM (SELECT explode(array(id)) FROM t) LATERAL VIEW explode(map(1, 2)) e AS k, v",
        "SELECT q.x, z FROM t JOIN (SELECT named_struct('x', 1) AS q, 2 AS z) ON q.x = t.id",
        "SELECT col1, x.col2 FROM VALUES (1, 2) AS x WHERE col1 IN (SELECT id FROM t)",
        "SELECT transform(array(id), e -> e + 1), filter(array(id), (e, i) -> i > 0), current_user FROM t",
        "WITH c(u) AS (SELECT id FROM t) SELECT u, (SELECT max(t.id) FROM t WHERE t.id = c.u) AS m FROM c ORDER BY m",
        "SELECT * FROM t PIVOT (count(id) FOR name IN ('x' AS ex)) WHERE ex > 0",
        "SELECT ID, T.Name FROM t GROUP BY ALL HAVING s.year > 0 AND date_add(MONTH, 1, current_date) > DATE'2000-1-1'",
        "SELECT id FROM range(10)",
        "SELECT anything FROM view_of_spark",
    ],
)
def test_what_may_be_right_is_left_to_spark(address, sql):
    Pipeline.from_text(STEP.format(sql)).plan(address)


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("s3://bucket/x.csv", {}),
        ("/nothing/*.csv", {}),
        ("/nothing/x.csv", {"spark.hadoop.fs.defaultFS": "hdfs://host"}),
    ],
)
def test_paths_that_only_spark_can_follow_are_left_to_it(address, path, settings):
    text = STEP.format("SELECT id FROM t").replace("{table: t}", f'{{format: csv, path: "{path}"}}')
    Pipeline.from_text(text).plan(address, spark_settings=settings)


def test_columns_of_a_text_are_read():
    text = "`a b` array<map<string, struct<x int, y: timestamp_ntz>>> NOT NULL, c interval day to second, d varchar(3)"
    found = read_columns(text)
    assert found is not None
    assert (found.names, found.unknown_types) == ({"a b", "c", "d", "x", "y"}, [])
    assert read_columns("a int, b") is None
    assert read_columns('{"type": "struct"}') is None


SELECTED = """\
name: p
sources: {o: {format: csv, path: o.csv}, u: {table: u}}
steps:
  a: {sql: SELECT * FROM o, checks: [{not_null: id}]}
  b: {sql: SELECT * FROM u, checks: [{not_null: id}]}
  c: SELECT * FROM a JOIN b USING (id)
  d: SELECT 1 AS x
targets:
  - {table: first, from: a}
  - {table: n.second, from: c}
  - {table: third, from: b}
checks:
  - {sql: SELECT * FROM d WHERE x > 1}
"""


@pytest.mark.parametrize(
    ("only", "starting_from", "targets", "steps"),
    [
        (["first"], [], ["first"], ["a", "d"]),
        (["A"], [], ["first"], ["a", "d"]),
        (["`n`.second"], [], ["n.second"], ["a", "b", "c", "d"]),
        ([], ["u"], ["n.second", "third"], ["a", "b", "c", "d"]),
        (["a"], ["c"], ["first", "n.second"], ["a", "b", "c", "d"]),
    ],
)
def test_a_part_of_a_pipeline_is_selected(only, starting_from, targets, steps):
    whole = Pipeline.from_text(SELECTED)
    part = whole.select(only, starting_from=starting_from)
    assert [one.table for one in part.definition.targets] == targets
    assert list(part.definition.steps) == steps
    assert part.fingerprint != whole.fingerprint
    assert whole.select() is whole


def test_a_name_that_selects_nothing_is_refused():
    pipeline = Pipeline.from_text(SELECTED)
    with pytest.raises(InvalidInputError, match=r"'frist' selects nothing of pipeline 'p'.*did you mean 'first'"):
        pipeline.select(["frist"])
    with pytest.raises(InvalidInputError, match="'d' selects nothing"):
        pipeline.select(["d"])
    with pytest.raises(InvalidInputError, match="'first' selects nothing"):
        pipeline.select(starting_from=["first"])


def test_problems_of_a_part_have_the_lines_of_the_file(address):
    text = SELECTED.replace("{table: u}", "{table: t}").replace("from: b}", "from: b, mode: merge, on: nope}")
    with pytest.raises(InvalidPipelineError, match=r"pipeline:11: targets\[0\]\.on: There is no column 'nope'"):
        Pipeline.from_text(text + "publish: per-table\n").select(["third"]).plan(address)
