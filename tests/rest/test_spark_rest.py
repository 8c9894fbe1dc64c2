"""Spark on a catalog behind a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support import create_namespace, declare_table, fails, list_tables

managed_only = pytest.mark.parametrize("lake", ["managed"], indirect=True)


@pytest.fixture(params=["plain", "managed"])
def lake(request, spark, root, open_namespace) -> Any:
    """Attach a served catalog with a namespace."""
    from pennon.spark import attach

    client = open_namespace(root, "v2")
    if request.param == "managed":
        client._directory.enable_table_version_management()
    create_namespace(client, "a")
    properties = {"uri": client._settings.uri, "token": "hidden-token-7", "header.x-key": "hidden-key-7"}
    return attach(spark, impl="rest", **properties)


def numbers(lake: Any, *values: int) -> Any:
    return lake.spark.createDataFrame([(value, f"n{value}") for value in values], "id bigint, name string")


def ids(lake: Any, table: str) -> list[int]:
    return sorted(row.id for row in lake.table(table).select("id").collect())


def test_tables_are_made_changed_and_read(lake):
    assert lake.write(numbers(lake, 1, 2), "a.t").created
    for _ in range(2):
        lake.write(numbers(lake, 3), "a.t", job_id="night")
    assert ids(lake, "a.t") == [1, 2, 3]
    lake.merge(numbers(lake, 3, 4), "a.t", on="id", when_matched="update", when_not_matched="insert")
    lake.update("a.t", {"name": "'changed'"}, where="id = 1")
    lake.delete("a.t", "id = 2")
    assert ids(lake, "a.t") == [1, 3, 4]
    assert lake.table("a.t", version=1).count() == 2
    declare_table(lake.catalog, "a", "declared")
    lake.write(numbers(lake, 9), "a.declared")
    assert ids(lake, "a.declared") == [9]
    assert "hidden" not in repr(lake)


@managed_only
def test_sql_and_the_data_source_reach_the_server(lake):
    lake.write(numbers(lake, 1, 2), "a.t")
    lake.sql("CREATE TABLE lake.a.u AS SELECT id * 10 AS id FROM lake.a.t")
    lake.sql("INSERT INTO lake.a.u SELECT 5")
    assert ids(lake, "a.u") == [5, 10, 20]
    lake.sql("ALTER TABLE lake.a.u SET PROTECTION")
    with fails(19, "protected"):
        lake.sql("DROP TABLE lake.a.u")
    lake.sql("ALTER TABLE lake.a.u UNSET PROTECTION")
    lake.sql("DROP TABLE lake.a.u")
    assert list_tables(lake.catalog, "a") == ["t"]
    lake.sql("UNDROP TABLE lake.a.u")
    options = {"impl": "rest", **dict(lake.address.properties)}
    numbers(lake, 7).write.format("pennon").options(**options).mode("append").save("a.t")
    read = lake.spark.read.format("pennon").options(**options).load("a.t")
    assert sorted(row.id for row in read.where("id > 1").collect()) == [2, 7]


@managed_only
def test_every_job_maintains_tables_of_a_server(lake):
    from pennon.spark import jobs

    for value in range(3):
        lake.write(numbers(lake, value), "a.t")

    def run_job(job: Any, *arguments: Any, **options: Any) -> Any:
        done = job(lake, "a.t", *arguments, **options).only()
        assert done.status == "done", done.message
        return done

    assert run_job(jobs.index, "id")["rows"] == 3
    lake.write(numbers(lake, 3), "a.t")
    assert run_job(jobs.optimize_indexes)["index"] == "id_idx"
    assert run_job(jobs.backfill, expressions={"twice": "id * 2"})["rows_filled"] == 4
    assert run_job(jobs.verify, deep=True)["missing_files"] == 0
    assert run_job(jobs.cleanup, older_than="0")["versions_left"] == 1
    assert jobs.stats(lake, "a").to_df().select("table", "rows", "versions").collect() == [("a.t", 4, 1)]


@managed_only
def test_jobs_and_pipelines_of_the_command_line_reach_a_server(lake, tmp_path, monkeypatch, capsys):
    from pennon.cli.app import run

    monkeypatch.setenv("HOME", str(tmp_path))
    lake.write(numbers(lake, 1), "a.t")
    lake.write(numbers(lake, 2), "a.t")
    given = ["--impl", "rest", *(f"--property={key}={value}" for key, value in lake.address.properties), "--json"]
    capsys.readouterr()
    assert run(["jobs", "compact", "a.t", *given]) == 0, capsys.readouterr().err
    (done,) = json.loads(capsys.readouterr().out)["tables"]
    assert (done["id"], done["fragments_after"]) == (["a", "t"], 1)
    (tmp_path / "p.yaml").write_text(
        "name: p\nsources: {t: {table: a.t}}\nsteps: {s: 'SELECT id + 10 AS id, name FROM t'}\n"
        "targets: [{table: a.t, from: s, checks: [{unique: id}]}]\n"
    )
    assert run(["run", str(tmp_path / "p.yaml"), *given]) == 2
    assert "'rest' cannot record runs: pass a location" in capsys.readouterr().err
    assert run(["run", str(tmp_path / "p.yaml"), "--state", str(tmp_path), *given]) == 0, capsys.readouterr().err
    assert run(["test", str(tmp_path / "p.yaml"), *given]) == 0, capsys.readouterr().err
    assert ids(lake, "a.t") == [1, 2, 11, 12]


@managed_only
def test_jobs_maintain_tables_and_several_are_published_together(lake):
    from pennon.spark import jobs, tables

    for value in range(3):
        lake.write(numbers(lake, value), "a.t")
    lake.write(numbers(lake, 7), "a.u")
    (done,) = jobs.compact(lake, "a.t")
    assert (done.status, done["fragments_after"]) == ("done", 1), done.message
    staged = [tables.stage(lake.address, numbers(lake, 9), ("a", name)) for name in ("t", "u")]
    for _ in range(2):
        tables.publish_together(staged, job_id="night")
    assert (ids(lake, "a.t"), ids(lake, "a.u")) == ([0, 1, 2, 9], [7, 9])
    staged = [tables.stage(lake.address, numbers(lake, 1), ("a", name)) for name in ("t", "new")]
    assert list_tables(lake.catalog, "a") == ["t", "u"]
    for _ in range(2):
        tables.publish_together(staged, job_id="morning")
    assert (ids(lake, "a.t"), ids(lake, "a.new")) == ([0, 1, 1, 2, 9], [1])
