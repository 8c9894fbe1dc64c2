"""Pipelines that run programs or read files by their path: refused if the caller asks for that."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pennon import DirectoryNamespace
from pennon.spark.address import Address
from pennon.spark.pipeline import InvalidPipelineError, Pipeline
from tests.support import create_namespace, create_table, ipc

HARMLESS = """
name: shop
sources:
  orders: {format: csv, path: orders.csv, options: {header: true}}
steps:
  doubled: SELECT transform(array(x), y -> y * 2) AS z, x FROM a.numbers JOIN orders USING (x)
targets:
  - {table: a.out, from: doubled, checks: [{sql: "SELECT x FROM this WHERE x < 0"}]}
spark: {master: "local[2]", conf: {spark.sql.shuffle.partitions: 4}}
"""

QUERIES = {
    "a program": "SELECT TRANSFORM(x) USING 'sh -c id' AS (y) FROM a.numbers",
    "a program in a subquery": "SELECT y FROM (SELECT TRANSFORM(x) USING 'cat' AS (y) FROM a.numbers)",
    "a method of Java": "SELECT reflect('java.lang.Runtime', 'getRuntime') FROM a.numbers",
    "a quoted name": "SELECT `Reflect`('java.lang.System', 'getenv', 'HOME') FROM a.numbers",
    "another name of it": "SELECT java_method('java.lang.System', 'exit', 3) FROM a.numbers",
    "a name that only Spark knows": "SELECT * FROM identifier('text.`/etc/passwd`')",
    "a function of a database": "SELECT default.mine(x) FROM a.numbers",
    "code behind a comment that goes on": "SELECT 1 -- \\ /*\n      , x FROM a.numbers",
    "a file": "SELECT * FROM parquet.`/etc/passwd`",
    "a file of text": "SELECT * FROM a.numbers JOIN text.`/etc/passwd`",
    "a table that Spark knows": "SELECT * FROM somewhere.numbers",
}


@pytest.fixture
def address(tmp_path) -> Address:
    """Create a catalog with one table."""
    root = str(tmp_path / "root")
    with DirectoryNamespace(root=root) as ns:
        create_namespace(ns, "a")
        ns.enable_table_version_management()
        create_table(ns, "a", "numbers", data=ipc({"x": [1, 2]}))
    return Address.of("dir", {"root": root})


def pipeline(query: str) -> Pipeline:
    return Pipeline.from_text(
        f"name: evil\nsteps:\n  step:\n    sql: |\n      {query}\ntargets:\n  - {{table: a.out, from: step}}\n"
    )


@pytest.mark.parametrize("query", list(QUERIES.values()), ids=list(QUERIES))
def test_queries_that_may_run_code_are_refused(address, query):
    with pytest.raises(InvalidPipelineError, match="refused by --no-code"):
        pipeline(query).plan(address, allow_code=False)


def test_checks_are_queries_too(address):
    checked = HARMLESS.replace("SELECT x FROM this WHERE x < 0", "SELECT reflect('a', 'b') FROM this")
    with pytest.raises(InvalidPipelineError, match="calls methods of Java"):
        Pipeline.from_text(checked).plan(address, allow_code=False)


def test_a_column_that_may_be_an_expression_is_refused(address):
    checked = HARMLESS.replace('{sql: "SELECT x FROM this WHERE x < 0"}', "{not_null: [\"x, reflect('a', 'b')\"]}")
    with pytest.raises(InvalidPipelineError, match="may be an expression"):
        Pipeline.from_text(checked).plan(address, allow_code=False)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("format: csv", "format: com.example.Source", "sources.orders.format"),
        ("spark.sql.shuffle.partitions", "spark.jars", "spark.conf"),
        ("spark.sql.shuffle.partitions", "spark.sql.extensions", "spark.conf"),
        ("local[2]", "spark://elsewhere:7077", "spark.master"),
    ],
)
def test_sources_and_settings_that_load_code_are_refused(address, before, after, named):
    with pytest.raises(InvalidPipelineError, match="refused by --no-code") as caught:
        Pipeline.from_text(HARMLESS.replace(before, after)).plan(address, allow_code=False)
    assert named in str(caught.value)


def test_a_pipeline_without_code_is_planned_as_before(address):
    harmless = Pipeline.from_text(HARMLESS)
    assert harmless.plan(address, allow_code=False) == harmless.plan(address)


def test_the_command_refuses_before_spark_starts(address, tmp_path):
    file = tmp_path / "evil.yaml"
    file.write_text(
        "name: evil\nsteps:\n  step: SELECT TRANSFORM(x) USING 'sh' AS (y) FROM a.numbers\n"
        "targets:\n  - {table: a.out, from: step}\n"
    )
    command = [
        sys.executable,
        "-m",
        "pennon",
        "run",
        str(file),
        "--root",
        dict(address.properties)["root"],
        "--no-code",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "evil.yaml:3: steps.step.sql: USING 'sh' starts a program" in ended.stderr
    assert "Spark" not in ended.stderr
