"""Spark on an Iceberg REST catalog: the lake, the data source, what is published together, and pipelines."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import urllib3
from support import declare_table, describe_table, fails, list_tables

SECRETS = {
    "token": "hidden-token-7",
    "header.X-Key": "hidden-header-7",
    "storage.aws_secret_access_key": "hidden-key-7",
}


@pytest.fixture
def properties(apache, managed_by, tmp_path) -> dict[str, str]:
    """Give all that opens the catalog, secrets among it; Apache's fixture looks at none of them."""
    return {"uri": apache.uri, "root": str(tmp_path / "root"), "managed_by": managed_by, **SECRETS}


@pytest.fixture
def lake(spark, properties):
    """Attach the catalog."""
    from pennon.spark import attach  # noqa: PLC0415 (needs pyspark)

    return attach(spark, impl="iceberg", **properties)


@pytest.fixture
def only_impl(managed_by) -> None:
    """Leave out tables whose files decide about versions."""
    if managed_by != "impl":
        pytest.skip("one commit for several tables needs managed_by=impl")


def numbers(spark, *values):
    return spark.createDataFrame([(value, f"name-{value}") for value in values], "id bigint, name string")


def ids(lake, table: str) -> list[int]:
    return sorted(row.id for row in lake.table(table).select("id").collect())


def loaded(apache, space: str, table: str) -> dict:
    """Ask the server itself."""
    return urllib3.request("GET", f"{apache.uri}/v1/namespaces/{space}/tables/{table}").json()["metadata"]


def snapshot(apache, space: str, table: str) -> int | None:
    found = loaded(apache, space, table).get("current-snapshot-id")
    return None if found in {None, -1} else found


def directories(root: str) -> list[str]:
    """Name the directories of tables below the root."""
    return sorted(path.name for path in Path(root).iterdir() if path.is_dir() and not path.name.startswith("__"))


def test_a_table_is_made_and_changed(spark, lake, space, apache, managed_by):
    name = f"{space}.t"
    assert lake.write(numbers(spark, 1, 2), name).created
    lake.write(numbers(spark, 3), name)
    assert ids(lake, name) == [1, 2, 3]
    lake.merge(numbers(spark, 3, 4), name, on="id", when_matched="update", when_not_matched="insert")
    lake.update(name, {"name": "'changed'"}, where="id = 1")
    lake.delete(name, "id = 2")
    assert ids(lake, name) == [1, 3, 4]
    assert lake.table(name, where="id = 1").first().name == "changed"
    assert ids(lake, name) == [1, 3, 4]
    version = describe_table(lake.catalog, space, "t", load_detailed_metadata=True).version
    assert version == 5
    assert [row.version for row in lake.versions(name).collect()] == [5, 4, 3, 2, 1]
    if managed_by == "impl":
        assert snapshot(apache, space, "t") == version
    lake.write(spark.createDataFrame([("x",)], "word string"), name, "overwrite")
    assert [row.word for row in lake.table(name).collect()] == ["x"]
    metadata = loaded(apache, space, "t")
    if managed_by == "impl":
        (schema,) = [one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"]]
        assert [field["name"] for field in schema["fields"]] == ["word"]


def test_a_write_with_a_job_is_made_once(spark, lake, space):
    name = f"{space}.t"
    for table in (name, name):
        lake.write(numbers(spark, 1), table, job_id="first")
        lake.write(numbers(spark, 2), table, job_id="second")
    assert ids(lake, name) == [1, 2]


def test_the_data_source_reads_and_writes(spark, lake, space, properties):
    options = {"impl": "iceberg", **properties}
    numbers(spark, 1, 2).write.format("pennon").options(**options).mode("append").save(f"{space}.t")
    numbers(spark, 3).write.format("pennon").options(**options).mode("append").save(f"{space}.t")
    read = spark.read.format("pennon").options(**options).load(f"{space}.t")
    assert sorted(row.id for row in read.where("id > 1").collect()) == [2, 3]
    assert spark.read.format("pennon").options(**options).option("version", "1").load(f"{space}.t").count() == 2


def test_sql_reads_writes_and_manages_tables(spark, lake, space):
    lake.write(numbers(spark, 1, 2), f"{space}.t")
    lake.sql(f"CREATE TABLE lake.{space}.u AS SELECT id * 10 AS id FROM lake.{space}.t")
    lake.sql(f"INSERT INTO lake.{space}.u SELECT 5")
    assert ids(lake, f"{space}.u") == [5, 10, 20]
    lake.sql(f"DROP TABLE lake.{space}.u")
    assert list_tables(lake.catalog, space) == ["t"]
    assert [row.tableName for row in lake.sql(f"SHOW TABLES DROPPED IN lake.{space}").collect()] == ["u"]
    lake.sql(f"UNDROP TABLE lake.{space}.u")
    assert ids(lake, f"{space}.u") == [5, 10, 20]
    with fails(0, "iceberg"):
        lake.sql(f"PURGE TABLE lake.{space}.u")


def test_a_declared_table_is_filled(spark, lake, space):
    declare_table(lake.catalog, space, "t")
    lake.write(numbers(spark, 1), f"{space}.t")
    assert ids(lake, f"{space}.t") == [1]


def test_a_table_without_a_root_needs_one_to_be_made(spark, apache, space, managed_by):
    from pennon.spark import attach  # noqa: PLC0415 (needs pyspark)

    rootless = attach(spark, impl="iceberg", uri=apache.uri, managed_by=managed_by)
    with fails(13, "root"):
        rootless.write(numbers(spark, 1), f"{space}.t")
    assert list_tables(rootless.catalog, space) == []


# Write, audit, publish


@pytest.mark.usefixtures("only_impl")
def test_several_tables_are_shown_together(spark, lake, space, apache, properties):
    from pennon.spark import writing  # noqa: PLC0415 (needs pyspark)

    lake.write(numbers(spark, 1), f"{space}.old")
    declare_table(lake.catalog, space, "declared")
    names = ("old", "new", "declared")
    staged = [writing.stage(lake, numbers(spark, 2), (space, name)) for name in names]
    assert list_tables(lake.catalog, space) == ["declared", "old"]
    for _ in range(2):
        done = writing.publish_together(lake, staged, job_id="night")
        assert [one.version for one in done] == [2, 1, 1]
    assert [ids(lake, f"{space}.{name}") for name in names] == [[1, 2], [2], [2]]
    assert [snapshot(apache, space, name) for name in names] == [2, 1, 1]


@pytest.mark.usefixtures("only_impl")
def test_one_that_cannot_be_published_keeps_all_back(spark, lake, space, apache):
    from pennon.spark import writing  # noqa: PLC0415 (needs pyspark)

    lake.write(numbers(spark, 1), f"{space}.old")
    staged = [writing.stage(lake, numbers(spark, 2), (space, name)) for name in ("old", "new", "late")]
    lake.write(numbers(spark, 9), f"{space}.late")
    with fails(5, "late"):
        writing.publish_together(lake, staged)
    assert list_tables(lake.catalog, space) == ["late", "old"]
    assert ids(lake, f"{space}.old") == [1]
    assert snapshot(apache, space, "old") == 1
    assert ids(lake, f"{space}.late") == [9]


@pytest.mark.usefixtures("only_impl")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_publishes_once(spark, lake, space, lossy, properties, when):
    from pennon.spark import attach, writing  # noqa: PLC0415 (needs pyspark)

    lake.write(numbers(spark, 1), f"{space}.old")
    through = attach(spark, impl="iceberg", **{**properties, "uri": lossy.uri})
    staged = [writing.stage(through, numbers(spark, 2), (space, name)) for name in ("old", "new")]
    lossy.lose("POST", "transactions/commit", when)
    done = writing.publish_together(through, staged, job_id="night")
    assert len(lossy.lost) == 1
    assert [one.version for one in done] == [2, 1]
    assert [ids(lake, f"{space}.{name}") for name in ("old", "new")] == [[1, 2], [2]]


# Pipelines


def pipeline(space: str, publish: str) -> str:
    return f"""
name: night
publish: {publish}
catalog:
  impl: iceberg
  root: ${{root}}
  properties: {{uri: "${{uri}}", managed_by: "${{managed_by}}", token: "${{ENV:IRC_TOKEN}}"}}
vars: {{root: null, uri: null, managed_by: null}}
sources:
  orders: {{table: {space}.orders}}
steps:
  paid: SELECT id, name FROM orders WHERE id > 1
targets:
  - table: {space}.paid
    from: paid
    checks: [{{unique: id}}]
  - table: {space}.counts
    from: SELECT count(*) AS n FROM paid
"""


@pytest.fixture
def command(spark, lake, space, properties, managed_by, tmp_path, monkeypatch, capsys):
    """Run `pennon run` in this process, on the tests' Spark."""
    from pennon.cli.app import run  # noqa: PLC0415 (slow)

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("IRC_TOKEN", SECRETS["token"])
    monkeypatch.chdir(tmp_path)
    lake.write(numbers(spark, 1, 2, 3), f"{space}.orders")

    def call(publish: str, *arguments: str) -> tuple[int, str, str]:
        Path("night.yaml").write_text(pipeline(space, publish))
        given = [f"--var={key}={properties[key]}" for key in ("root", "uri", "managed_by")]
        capsys.readouterr()
        code = run(["run", "night.yaml", *given, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_pipeline_publishes_its_targets(command, lake, space, apache, managed_by, tmp_path):
    publish = "atomic" if managed_by == "impl" else "per-table"
    code, out, err = command(publish, "--json", "--run-id", "one")
    assert code == 0, err
    assert json.loads(out)["status"] == "published"
    assert ids(lake, f"{space}.paid") == [2, 3]
    assert [row.n for row in lake.table(f"{space}.counts").collect()] == [2]
    if managed_by == "impl":
        assert [snapshot(apache, space, name) for name in ("paid", "counts")] == [1, 1]
    code, out, err = command(publish, "--table", "--run-id", "one")
    assert code == 0, err
    assert "already published" in out
    assert ids(lake, f"{space}.paid") == [2, 3]
    noted = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert noted
    assert not any(secret.encode() in path.read_bytes() for path in noted for secret in SECRETS.values())


def test_a_failing_check_publishes_nothing(spark, command, lake, space, managed_by, properties):
    lake.write(numbers(spark, 3), f"{space}.orders")
    before = directories(properties["root"])
    publish = "atomic" if managed_by == "impl" else "per-table"
    code, out, _ = command(publish, "--table")
    assert code == 9
    assert "nothing was published" in out
    assert list_tables(lake.catalog, space) == ["orders"]
    assert directories(properties["root"]) == before


def test_targets_that_cannot_be_shown_together_are_refused_before_anything_is_done(
    command, lake, space, managed_by, properties
):
    if managed_by == "impl":
        pytest.skip("these can")
    before = directories(properties["root"])
    code, _, err = command("atomic", "--table")
    assert code != 0
    assert "managed_by=impl" in err
    assert "per-table" in err
    assert directories(properties["root"]) == before


# Secrets


def test_secrets_show_nowhere(spark, lake, space, properties, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    options = {"impl": "iceberg", **properties}
    numbers(spark, 1, 2).write.format("pennon").options(**options).mode("append").save(f"{space}.t")
    frames = [
        spark.read.format("pennon").options(**options).load(f"{space}.t").where("id > 1"),
        lake.table(f"{space}.t").where("id > 1"),
        lake.sql(f"SELECT * FROM lake.{space}.t"),
    ]
    texts = [repr(lake), repr(lake.address), repr(lake.catalog), str(frames)]
    for frame in frames:
        frame.explain(extended=True)
        frame.explain(mode="formatted")
        texts += [frame._jdf.queryExecution().toString(), repr(frame)]
    with fails(4) as caught:
        lake.table(f"{space}.missing")
    texts.append(str(caught.value))
    with pytest.raises(Exception, match="missing") as failed:
        spark.read.format("pennon").options(**options).load(f"{space}.missing").collect()
    texts += [str(failed.value), caplog.text, *capfd.readouterr()]
    for secret in SECRETS.values():
        assert not [text for text in texts if secret in text]
