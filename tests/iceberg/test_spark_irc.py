"""Spark on an Iceberg REST catalog: the lake, the data source, what is published together, and pipelines."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3

from pennon.errors import LanceNamespaceError
from pennon.store.root import open_store
from tests.support import declare_table, describe_table, drop_table, fails, list_tables

SECRETS = {
    "token": "hidden-token-7",
    "header.X-Key": "hidden-header-7",
    "storage.aws_secret_access_key": "hidden-key-7",
}


@dataclass
class House:
    """A lake on a server, and one namespace of it."""

    lake: Any
    space: str
    properties: dict[str, str]

    def name(self, table: str) -> str:
        return f"{self.space}.{table}"

    def write(self, table: str, *values: int, **options: Any) -> Any:
        return self.lake.write(self.numbers(*values), self.name(table), **options)

    def numbers(self, *values: int) -> Any:
        rows = [(value, f"name-{value}") for value in values]
        return self.lake.spark.createDataFrame(rows, "id bigint, name string")

    def ids(self, table: str) -> list[int]:
        return sorted(row.id for row in self.lake.table(self.name(table)).select("id").collect())

    def stage(self, table: str, *values: int) -> Any:
        from pennon.spark import tables

        return tables.stage(self.lake.address, self.numbers(*values), (self.space, table))

    def tables(self) -> list[str]:
        return list_tables(self.lake.catalog, self.space)

    def loaded(self, table: str) -> dict[str, Any]:
        """Ask the server itself."""
        url = f"{self.properties['uri']}/v1/namespaces/{self.space}/tables/{table}"
        return urllib3.request("GET", url, timeout=60.0).json()["metadata"]

    def snapshots(self, *tables: str) -> list[int]:
        return [self.loaded(table)["current-snapshot-id"] for table in tables]

    def directories(self) -> list[str]:
        """Name the directories of tables below the root."""
        found = Path(self.properties["root"]).iterdir()
        return sorted(path.name for path in found if path.is_dir() and not path.name.startswith(("__", ".")))


@pytest.fixture
def house(spark, irc, managed_by, space, client_root) -> House:
    """Attach the catalog, with secrets that no server looks at here."""
    from pennon.spark import attach

    Path(client_root).mkdir(parents=True)
    properties = {"uri": irc.uri, "root": client_root, "managed_by": managed_by, **SECRETS}
    return House(attach(spark, impl="iceberg", **properties), space, properties)


@pytest.fixture
def managed_house(house, managed_by) -> House:
    """Leave out tables whose files decide about versions."""
    if managed_by != "impl":
        pytest.skip("one commit for several tables needs managed_by=impl")
    return house


def test_a_table_is_made_and_changed(spark, house, managed_by):
    name, lake = house.name("t"), house.lake
    assert house.write("t", 1, 2).created
    house.write("t", 3)
    assert house.ids("t") == [1, 2, 3]
    lake.merge(house.numbers(3, 4), name, on="id", when_matched="update", when_not_matched="insert")
    lake.update(name, {"name": "'changed'"}, where="id = 1")
    lake.delete(name, "id = 2")
    assert house.ids("t") == [1, 3, 4]
    assert lake.table(name, where="id = 1").first().name == "changed"
    version = describe_table(lake.catalog, house.space, "t", load_detailed_metadata=True).version
    assert [row.version for row in lake.versions(name).collect()] == [5, 4, 3, 2, 1]
    assert version == 5
    if managed_by == "impl":
        assert house.snapshots("t") == [version]
    lake.write(spark.createDataFrame([("x",)], "word string"), name, "overwrite")
    assert [row.word for row in lake.table(name).collect()] == ["x"]
    if managed_by == "impl":
        metadata = house.loaded("t")
        (schema,) = [one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"]]
        assert [field["name"] for field in schema["fields"]] == ["word"]


def test_a_write_with_a_job_is_made_once(house):
    for _ in range(2):
        house.write("t", 1, job_id="first")
        house.write("t", 2, job_id="second")
    assert house.ids("t") == [1, 2]


def test_the_data_source_reads_and_writes(spark, house):
    options = {"impl": "iceberg", **house.properties}
    for values in ((1, 2), (3,)):
        frame = house.numbers(*values)
        frame.write.format("pennon").options(**options).mode("append").save(house.name("t"))
    read = spark.read.format("pennon").options(**options)
    assert sorted(row.id for row in read.load(house.name("t")).where("id > 1").collect()) == [2, 3]
    assert read.option("version", "1").load(house.name("t")).count() == 2


def test_streams_go_from_table_to_table(spark, house, tmp_path):
    source = {"impl": "iceberg", **house.properties}
    house.write("t", 1, 2)

    def follow() -> None:
        stream = spark.readStream.format("pennon").options(**source).load(house.name("t"))
        writer = stream.writeStream.format("pennon").options(**source)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(house.name("copy")).awaitTermination()

    follow()
    house.write("t", 3)
    follow()
    assert house.ids("copy") == [1, 2, 3]


def test_sql_reads_writes_and_manages_tables(house, irc):
    def sql(text: str) -> Any:
        return house.lake.sql(text.replace("$", f"lake.{house.space}"))

    house.write("t", 1, 2)
    sql("CREATE TABLE $.u AS SELECT id * 10 AS id FROM $.t")
    sql("INSERT INTO $.u SELECT 5")
    assert house.ids("u") == [5, 10, 20]
    sql("DROP TABLE $.u")
    assert house.tables() == ["t"]
    if irc.root is not None:
        with fails(0, "dropped"):
            sql("UNDROP TABLE $.u")
        return
    assert [row.tableName for row in sql("SHOW TABLES DROPPED IN $").collect()] == ["u"]
    sql("UNDROP TABLE $.u")
    assert house.ids("u") == [5, 10, 20]
    sql("DROP TABLE $.u")
    assert [row.error for row in sql("PURGE TABLE $.u FORCE").collect()] == [None]
    assert sql("SHOW TABLES DROPPED IN $").collect() == []
    with fails(0, "iceberg"):
        sql("ALTER TABLE $.t SET PROTECTION")


def test_a_declared_table_is_filled(house):
    declare_table(house.lake.catalog, house.space, "t")
    house.write("t", 1)
    assert house.ids("t") == [1]


def test_a_new_table_needs_a_root(spark, house):
    from pennon.spark import attach

    properties = {key: value for key, value in house.properties.items() if key != "root"}
    rootless = House(attach(spark, impl="iceberg", **properties), house.space, properties)
    with fails(13, "root"):
        rootless.write("t", 1)
    assert rootless.tables() == []
    house.write("t", 1)
    rootless.write("t", 2)
    assert house.ids("t") == [1, 2]


def test_jobs_maintain_tables(spark, house, managed_by):
    from pennon.spark import jobs

    lake, name = house.lake, house.name("t")
    declare_table(lake.catalog, house.space, "declared")
    for value in range(4):
        lake.write(house.numbers(value, value + 10).coalesce(1), name)
    lake.delete(name, "id = 3")

    def run(job: Any, *arguments: Any, **options: Any) -> Any:
        found = {outcome.table: outcome for outcome in job(lake, house.space, *arguments, **options)}
        assert found[house.name("declared")]["status"] == "skipped"
        assert found[name]["status"] == "done", found[name]["message"]
        return found[name]

    before = run(jobs.stats)
    assert (before["rows"], before["deleted_rows"], before["fragments"], before["versions"]) == (7, 1, 4, 5)
    built = run(jobs.index, "id", rows_per_task=2)
    assert (built["rows"], built["tasks"], built["version_after"]) == (7, 4, 6)
    compacted = run(jobs.compact)
    assert (compacted["fragments_before"], compacted["fragments_after"]) == (4, 1)
    house.write("t", 99)
    assert run(jobs.optimize_indexes)["index"] == "id_idx"
    filled = run(jobs.backfill, expressions={"twice": "id * 2"}, job_id="night")
    assert (filled["rows_filled"], filled["is_new"]) == (8, True)
    latest = filled["version_after"]
    if managed_by == "impl":
        assert house.snapshots("t") == [latest]
    intact = run(jobs.verify, deep=True)
    assert (intact["rows_read"], intact["missing_files"], intact["recent_files"]) == (8, 0, 0)
    cleaned = run(jobs.cleanup, older_than="0")
    assert (cleaned["versions_removed"], cleaned["versions_left"]) == (latest - 1, 1)
    assert run(jobs.verify)["versions"] == 1
    assert [row.version for row in lake.versions(name).collect()] == [latest]
    lake.delete(name, "id = 99")
    assert house.ids("t") == [0, 1, 2, 10, 11, 12, 13]
    assert lake.table(name, where="id = 12").first().twice == 24
    again = by_status(jobs.backfill(lake, name, expressions={"twice": "id * 2"}, job_id="night"))
    assert list(again) == ["skipped"]
    with fails(4, f"'{house.space}.missing'"):
        jobs.compact(lake, house.name("missing"))
    with fails(0, "iceberg"):
        jobs.migrate(lake)


def by_status(results: Any) -> dict[str, str]:
    """Return the tables of a job by their status."""
    return {outcome.status: outcome.table for outcome in results}


def test_jobs_run_from_the_command_line(house, tmp_path, monkeypatch, capsys):
    from pennon.cli.app import run

    monkeypatch.setenv("HOME", str(tmp_path))
    house.write("t", 1)
    house.write("t", 2)
    given = [f"--property={key}={house.properties[key]}" for key in ("root", "uri", "managed_by")]
    capsys.readouterr()
    assert run(["--impl", "iceberg", *given, "jobs", "compact", house.name("t"), "--json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)["tables"]
    assert (done["id"], done["status"], done["fragments_after"]) == ([house.space, "t"], "done", 1)


def test_jobs_discard_files_of_a_failed_commit(house, monkeypatch):
    import lance.optimize

    from pennon.spark import jobs

    class Failing:
        plan = lance.optimize.Compaction.plan

        @staticmethod
        def commit(*_: Any) -> None:
            raise OSError("connection refused")

    house.write("t", 1)
    house.write("t", 2)
    monkeypatch.setattr(lance.optimize, "Compaction", Failing)
    (failed,) = jobs.compact(house.lake, house.name("t"))
    assert (failed.status, failed.code) == ("failed", 18)
    monkeypatch.undo()
    (intact,) = jobs.verify(house.lake, house.name("t"))
    assert (intact.status, intact["recent_files"]) == ("done", 0)


def test_jobs_purge_tables_that_the_catalog_keeps(house, irc):
    from pennon.spark import jobs

    house.write("t", 1)
    drop_table(house.lake.catalog, house.space, "t", ttl="0")
    if irc.root is not None:
        with fails(0, "purge them there"):
            jobs.purge(house.lake, house.space)
        return
    (planned,) = jobs.purge(house.lake, house.space, dry_run=True)
    assert planned.status == "planned"
    (purged,) = jobs.purge(house.lake, house.space)
    assert (purged.table, purged.status) == (house.name("t"), "done"), purged.message
    assert jobs.purge(house.lake, house.space) == []
    assert house.directories() == []


# Write, audit, publish


def test_several_tables_are_shown_together(managed_house):
    from pennon.spark import tables

    house = managed_house
    house.write("old", 1)
    declare_table(house.lake.catalog, house.space, "declared")
    names = ("old", "new", "declared")
    staged = [house.stage(name, 2) for name in names]
    assert house.tables() == ["declared", "old"]
    for _ in range(2):
        done = tables.publish_together(staged, job_id="night")
        assert [one.version for one in done] == [2, 1, 1]
    assert [house.ids(name) for name in names] == [[1, 2], [2], [2]]
    assert house.snapshots(*names) == [2, 1, 1]


def test_one_that_cannot_be_published_keeps_all_back(managed_house):
    from pennon.spark import tables

    house = managed_house
    house.write("old", 1)
    staged = [house.stage(name, 2) for name in ("old", "new", "late")]
    house.write("late", 9)
    with fails(5, "late"):
        tables.publish_together(staged)
    assert house.tables() == ["late", "old"]
    assert [house.ids("old"), house.ids("late")] == [[1], [9]]
    assert house.snapshots("old", "late") == [1, 1]


def test_what_a_killed_driver_staged_is_found_by_its_notes(house, tmp_path):
    from pennon.pipeline_runs.run_state import RunState
    from pennon.spark import tables
    from pennon.spark.pipeline import cleanup

    state = RunState(open_store(str(tmp_path / "state"), {}), "nightly", "run")
    house.write("old", 1)
    before = house.directories()
    for run in ("dead", "alive"):
        tables.stage(house.lake.address, house.numbers(2), (house.space, "odd name"), run=run)
    assert len(house.directories()) == len(before) + 2
    cleanup.sweep(house.lake.address, state, (house.space, "odd name"), "dead")
    assert len(house.directories()) == len(before) + 1
    cleanup.sweep(house.lake.address, state, (house.space, "odd name"), "alive")
    assert house.directories() == before


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_publishes_once(spark, managed_house, lossy, when):
    from pennon.spark import attach, tables

    house = managed_house
    house.write("old", 1)
    lake = attach(spark, impl="iceberg", **{**house.properties, "uri": lossy.uri})
    through = House(lake, house.space, house.properties)
    staged = [through.stage(name, 2) for name in ("old", "new")]
    lossy.lose("POST", "transactions/commit", when)
    done = tables.publish_together(staged, job_id="night")
    assert len(lossy.lost) == 1
    assert [one.version for one in done] == [2, 1]
    assert [house.ids(name) for name in ("old", "new")] == [[1, 2], [2]]


# Pipelines

PIPELINE = """
name: night
publish: PUBLISH
catalog:
  impl: iceberg
  root: ${root}
  properties: {uri: "${uri}", managed_by: "${managed_by}", token: "${ENV:IRC_TOKEN}"}
vars: {root: null, uri: null, managed_by: null}
sources:
  orders: {table: SPACE.orders}
steps:
  paid: SELECT id, name FROM orders WHERE id > 1
  counted: SELECT count(*) AS n FROM paid
targets:
  - table: SPACE.paid
    from: paid
    checks: [{unique: id}]
  - table: SPACE.counts
    from: counted
"""


@pytest.fixture
def command(house, tmp_path, monkeypatch, capsys):
    """Run `pennon run` in this process, on the tests' Spark."""
    from pennon.cli.app import run

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("IRC_TOKEN", SECRETS["token"])
    monkeypatch.chdir(tmp_path)
    house.write("orders", 1, 2, 3)

    def call(publish: str, *arguments: str) -> tuple[int, str, str]:
        Path("night.yaml").write_text(PIPELINE.replace("PUBLISH", publish).replace("SPACE", house.space))
        given = [f"--var={key}={house.properties[key]}" for key in ("root", "uri", "managed_by")]
        capsys.readouterr()
        code = run(["run", "night.yaml", *given, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def publish(managed_by) -> str:
    """Name how a pipeline's targets can be published."""
    return "atomic" if managed_by == "impl" else "per-table"


def test_a_pipeline_publishes_its_targets(command, house, publish):
    code, out, err = command(publish, "--json", "--run-id", "one")
    assert code == 0, err
    assert json.loads(out)["status"] == "published"
    assert house.ids("paid") == [2, 3]
    assert [row.n for row in house.lake.table(house.name("counts")).collect()] == [2]
    if publish == "atomic":
        assert house.snapshots("paid", "counts") == [1, 1]
    code, out, err = command(publish, "--table", "--run-id", "one")
    assert code == 0, err
    assert "already published" in out
    assert house.ids("paid") == [2, 3]
    noted = [path for path in Path(house.properties["root"]).rglob("*") if path.is_file()]
    assert [path for path in noted if "__pennon" in path.parts]
    assert not any(secret.encode() in path.read_bytes() for path in noted for secret in SECRETS.values())


def test_a_failing_check_publishes_nothing(command, house, publish):
    house.write("orders", 3)
    before = house.directories()
    code, out, _ = command(publish, "--table")
    assert code == 9
    assert "nothing was published" in out
    assert house.tables() == ["orders"]
    assert house.directories() == before


def test_targets_that_cannot_be_shown_together_are_refused_before_anything_is_done(command, house, managed_by):
    if managed_by == "impl":
        pytest.skip("these can")
    before = house.directories()
    code, _, err = command("atomic", "--table")
    assert code != 0
    assert "managed_by=impl" in err
    assert "per-table" in err
    assert house.directories() == before


# Secrets


def test_secrets_show_nowhere(spark, house, caplog, capfd):
    # Py4J writes down all that goes to Java if it is asked to.
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, logger="py4j")
    name, lake = house.name("t"), house.lake
    source = {"impl": "iceberg", **house.properties}
    house.numbers(1, 2).write.format("pennon").options(**source).mode("append").save(name)
    frames = [
        spark.read.format("pennon").options(**source).load(name).where("id > 1"),
        lake.table(name).where("id > 1"),
        lake.sql(f"TABLE lake.{name}"),
    ]
    texts = [repr(lake), repr(lake.address), repr(lake.catalog), str(frames)]
    for frame in frames:
        frame.explain(extended=True)
        frame.explain(mode="formatted")
        texts += [frame._jdf.queryExecution().toString(), repr(frame)]
    with pytest.raises(LanceNamespaceError, match="missing") as caught:
        lake.table(house.name("missing"))
    with pytest.raises(Exception, match="missing") as failed:
        spark.read.format("pennon").options(**source).load(house.name("missing")).collect()
    texts += [str(caught.value), str(failed.value), caplog.text, *capfd.readouterr()]
    assert "Physical Plan" in "".join(texts)
    for secret in SECRETS.values():
        assert not [text for text in texts if secret in text]
