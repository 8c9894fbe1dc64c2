"""What pages need before their blocks run, and the blocks that cannot run, each with the reason."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

import pennon
from tests.documentation.code_blocks import CodeBlock, read_blocks
from tests.iceberg.irc_servers import apache_fixture, seaweed
from tests.servers import SeaweedS3
from tests.support import ipc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.documentation.page_runner import PageRun

OWN_TEST = {"docs/tutorial.md": "test_tutorial.py"}
"""Pages that a test of their own follows."""

NOT_RUN = {
    ("README.md", "make demo"): ("make sets up an environment, and runs all tests"),
    ("README.md", "pip install ."): (
        "the test of the tutorial installs from a clone, and `make release-check` each extra"
    ),
    ("docs/index.md", "pip install 'pennon[spark,server]'"): "`make release-check` installs wheels with each extra",
    ("docs/architecture.md", "src/pennon/"): "a tree of files; test_architecture_page.py compares it",
    ("docs/performance.md", "python benchmarks/cold.py"): "benchmarks run for half an hour",
    (
        "docs/guides/jobs.md",
        "spark-submit --master yarn",
    ): ("it needs a cluster with YARN"),
    ("docs/guides/deploy.md", "scrape_configs:"): "a configuration of Prometheus",
    ("docs/operations/monitor.md", "groups:"): "rules of Prometheus; test_monitor_page.py checks their metrics",
    (
        "docs/guides/command-line.md",
        "pennon sql\n",
    ): "a shell waits for a person; the tests of `pennon sql` type into it",
    ("docs/guides/testing.md", "pip install"): "`make release-check` installs wheels with each extra",
    ("docs/guides/serve.md", "pip install 'pennon[server]'"): "`make release-check` installs wheels with each extra",
    ("docs/guides/serve.md", "PENNON_SERVER_TOKEN="): ("it listens on all addresses"),
    (
        "docs/guides/secure.md",
        "pennon serve --root s3://bucket/lake",
    ): ("it listens on all addresses, and needs a certificate"),
    (
        "docs/guides/cookbook/operate.md",
        "15 2 * * *",
    ): ("a line for cron"),
    (
        "docs/guides/cookbook/operate.md",
        "pennon serve --root s3://bucket/lake",
    ): ("it listens on all addresses, and needs a certificate"),
    ("docs/migration/lance-spark.md", "-- spark.sql.catalog.lance = "): (
        "statements of lance-spark, which needs a Spark of its own; long tests run that"
    ),
    ("docs/migration/lance-spark.md", "-- spark.sql.catalog.lance.impl = rest"): "the same",
    ("docs/operations/upgrade.md", "curl "): ("it asks a server that is not here"),
}
"""Blocks that cannot run, by page and beginning. Those of Python, YAML and commands of `pennon` are still parsed."""


@dataclass(frozen=True)
class PageSettings:
    """How a page is prepared. Pages without an entry need nothing."""

    prepare: Callable[[PageRun], object] | None = None
    spark: bool = False
    long: bool = False
    """Whether only `make soak` runs it: its blocks start several programs on Spark, which other tests do as well."""
    before: Mapping[str, Callable[[PageRun], object]] = field(default_factory=dict)
    """What happens before the block that begins with this text."""


def find_settings(page: str) -> PageSettings:
    """Return the settings of a page."""
    return PAGES.get(page, PageSettings())


def start_server(run: PageRun) -> None:
    """Serve the catalog of a page."""
    start_catalog(run)
    code = f"pennon serve --root {run.root} --port {run.port}\n"
    run.reader.run_commands(CodeBlock("its server", 1, "sh", None, code, "serving …\n…\n"))


def start_catalog(run: PageRun) -> None:
    """Create a catalog at the root."""
    with pennon.open(run.root) as lake:
        lake.create_namespace("first")


def _manage(run: PageRun) -> None:
    with pennon.open(run.root) as lake:
        lake.manage_versions()


def _for_commands(run: PageRun) -> None:
    with pennon.open(run.root) as lake:
        lake.create_namespace("prod")
        lake.create_table("prod.events", {"id": [1, 2], "amount": [5.0, 20.0]})
        lake.create_namespace("web")
        lake.create_table("web.clicks", {"day": [1, 1, 2]})
    (run.home / "report.sql").write_text("SELECT count(*) AS clicks FROM web.clicks;")
    run.variables |= {"PENNON_ROOT": run.root}


def _for_doctor(run: PageRun) -> None:
    start_catalog(run)
    run.variables |= {"PENNON_ROOT": run.root}


def _for_deploy(run: PageRun) -> None:
    token = run.home / "token"
    token.write_text("t" * 16)
    start_catalog(run)
    run.replacements |= {"/run/secrets/pennon": str(token), "0.0.0.0": "127.0.0.1"}  # noqa: S104 - what it replaces


def _for_secure(run: PageRun) -> None:
    run.replacements |= {"sha256:…": f"sha256:{'0' * 32}:{'0' * 64}"}
    (policy,) = (one for one in read_blocks("docs/guides/secure.md") if one.code.startswith("keys:"))
    (run.home / "policy.yaml").write_text(policy.code.replace("sha256:…", f"sha256:{'0' * 32}:{'0' * 64}"))


def _for_operate(run: PageRun) -> None:
    run.replacements |= {"sha256:…": f"sha256:{'0' * 32}:{'0' * 64}", 'id: "…"': 'id: "0123456789abcdef"'}
    run.variables |= {"PENNON_ROOT": run.root}


def _for_stores(run: PageRun) -> None:
    endpoint = run.opened.enter_context(SeaweedS3()).endpoint
    run.replacements = {
        '"http://127.0.0.1:8333"': f'"{endpoint.url}"',
        '"access_key_id": "key"': f'"access_key_id": "{endpoint.access_key}"',
        '"secret_access_key": "secret"': f'"secret_access_key": "{endpoint.secret_key}"',
        "s3://bucket/": endpoint.uri(),
    }


def _for_rest(run: PageRun) -> None:
    start_server(run)
    run.replacements |= {"http://server:8181": f"http://127.0.0.1:{run.port}"}
    run.names["token"] = "t" * 16


def _frame_for_rest(run: PageRun) -> None:
    run.names |= {"spark": run.spark, "frame": run.spark.createDataFrame([(4, "oil")], "id bigint, item string")}


def _for_versions(run: PageRun) -> None:
    _manage(run)
    catalog = pennon.connect("dir", {"root": run.root})
    catalog.create_namespace({"id": ["sales"]})
    rows = pa.table({"id": [1, 2]})
    for name in ("orders", "lines"):
        catalog.create_table({"id": ["sales", name]}, rows)
    run.names |= {"catalog": catalog, "rows": rows}


def _for_migration_from_iceberg(run: PageRun) -> None:
    server = run.opened.enter_context(apache_fixture(run.home))
    run.replacements = {"http://127.0.0.1:8181": server.uri}


def _for_migration_from_lance_spark(run: PageRun) -> None:
    with pennon.open(run.root) as lake:
        lake.create_namespace("sales")
        lake.create_table("sales.orders", {"id": [1, 2], "name": ["a", "b"]})


# Spark


def _lake(run: PageRun) -> object:
    from pennon.spark import attach

    lake = attach(run.spark, root=run.root)
    run.names |= {"spark": run.spark, "lake": lake}
    return lake


def _for_spark(run: PageRun) -> None:
    lake = _lake(run)
    lake.sql("CREATE NAMESPACE prod")
    rows = "SELECT * FROM VALUES (7, 'a', TIMESTAMP '2026-01-01 00:00:00'), (8, 'b', NULL) AS t(id, kind, at)"
    df = run.spark.sql(rows)
    for _ in range(12):
        lake.write(df, "prod.events")
    soon = (dt.datetime.now(dt.timezone.utc) + dt.timedelta(days=1)).isoformat()
    run.replacements |= {"2026-03-01T00:00:00Z": soon, ', **{"storage.region": "eu-west-1"}': ""}
    run.names["df"] = df


def _for_merge(run: PageRun) -> None:
    lake = _lake(run)
    lake.sql("CREATE NAMESPACE prod")
    columns = "(id BIGINT, name STRING, visits INT, active BOOLEAN, last_seen DATE)"
    lake.sql(f"CREATE TABLE prod.customers {columns}")
    lake.sql("INSERT INTO prod.customers VALUES (1, ' ann', 1, true, DATE '2019-01-01'), (2, 'bob', 1, true, NULL)")
    first = "SELECT * FROM VALUES (2, 'bo', 2, true, DATE '2026-01-01') AS t(id, name, visits, active, last_seen)"
    run.names["changes"] = run.spark.sql(first)


def _closed_customers(run: PageRun) -> None:
    rows = [(2, "Bob", 2, False), (3, "cy", 1, False), (4, "di", 1, True)]
    run.names["changes"] = run.spark.createDataFrame(rows, "id bigint, name string, visits int, closed boolean")


def _for_sql(run: PageRun) -> None:
    lake = _lake(run)
    lake.sql("CREATE NAMESPACE prod")
    _create_events(run, {"x": 5, "cid": 1})
    lake.catalog.create_table_tag({"id": ["prod", "events"], "tag": "release", "version": 2})
    lake.sql("CREATE TABLE prod.customers AS SELECT 1L AS cid, 'ann' AS name")
    lake.sql("ALTER TABLE prod.customers RENAME COLUMN cid TO id")
    lake.sql("CREATE TABLE prod.late AS SELECT 1L AS id")
    run.spark.sql("SELECT 9L AS id, 'staged' AS name").createOrReplaceTempView("staging")
    now = dt.datetime.now(dt.timezone.utc)
    run.replacements |= {
        "'2026-01-31 12:00:00'": f"'{now:%Y-%m-%d %H:%M:%S.%f}'",
        "`@20260131120000000`": f"`@{now:%Y%m%d%H%M%S}000`",
        "- INTERVAL 1 DAY AS": "- INTERVAL 0 DAY AS",
    }


def _remove(lake: pennon.LakeCatalog, name: str) -> None:
    if name in lake:
        lake.drop(name, purge=True)


def _create_events(run: PageRun, more: Mapping[str, object]) -> None:
    """Create the table `prod.events` with three versions and further columns, and replace the one that is there."""
    with pennon.open(run.root) as lake:
        _remove(lake, "prod.events")
        for number in (1, 2, 3):
            row = {"id": number, "name": f"n{number}", "day": dt.date(2026, 1, number), **more}
            lake.create_table("prod.events", [row], mode="exist_ok") if number == 1 else lake["prod.events"].append(
                [row]
            )


def _create_changes(run: PageRun) -> None:
    _create_events(run, {})
    with pennon.open(run.root) as lake:
        lake.create_table("prod.changes", {"id": [2, 4], "name": ["B", "d"], "gone": [True, False]})


def _create_docs(run: PageRun, width: int = 2) -> None:
    """Create the table `prod.docs`, and replace the one that is there."""
    numbers = pa.array(range(300 * width), pa.float32())
    columns = {
        "id": range(300),
        "year": [2026] * 300,
        "title": ["lance tables"] * 300,
        "body": [f"text {number}" for number in range(300)],
        "embedding": pa.FixedSizeListArray.from_arrays(numbers, width),
    }
    with pennon.open(run.root) as lake:
        _remove(lake, "prod.docs")
        docs = lake.create_table("prod.docs", pa.table(columns))
        docs.create_index("title", "FTS")
        docs.create_index("body", "FTS")


def _remove_docs(run: PageRun) -> None:
    with pennon.open(run.root) as lake:
        _remove(lake, "prod.docs")


def _remove_papers(run: PageRun) -> None:
    with pennon.open(run.root) as lake:
        lake.drop("prod.papers", purge=True, force=True)


def _drop_docs(run: PageRun) -> None:
    """Drop a table `prod.docs`, whose id the page leaves out, and create another one."""
    _create_events(run, {})
    _create_docs(run)
    with pennon.open(run.root) as lake:
        lake.drop("prod.docs")
        (dropped,) = lake.trash()
    run.replacements |= {"WITH ID '...'": f"WITH ID '{dropped.deletion_id}'"}
    _create_docs(run)


def _for_streaming(run: PageRun) -> None:
    lake = _lake(run)
    lake.sql("CREATE NAMESPACE prod")
    lake.sql("CREATE TABLE prod.events AS SELECT * FROM VALUES (1L, 'a'), (2L, 'b') AS t(id, kind)")
    run.replacements |= {"s3://bucket/checkpoints": str(run.home / "checkpoints")}
    run.names |= {"root": run.root, "handle": lambda batch, _epoch: batch.count()}
    run.opened.callback(_finish_streams, run)


def _finish_streams(run: PageRun) -> None:
    """Wait until the streams of a page have read everything, and stop them. Raises the error of a stream."""
    try:
        for query in run.spark.streams.active:
            query.processAllAvailable()
    finally:
        for query in run.spark.streams.active:
            query.stop()


def _for_types(run: PageRun) -> None:
    columns = ("array(1.0f) AS embedding", "binary('x') AS picture", "binary('0123456789abcdef') AS id")
    run.names["df"] = run.spark.range(1).selectExpr(*columns)


def _for_jobs(run: PageRun) -> None:
    with pennon.open(run.root) as lake:
        lake.create_namespace("prod")
        now = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
        events = pa.table({"event_id": [1, 2], "user_id": [7, 8], "at": [now, now]})
        lake.create_table("prod.events", events).append(events.slice(0, 0))
        numbers = pa.array(range(96 * 300), pa.float32())
        vectors = pa.FixedSizeListArray.from_arrays(numbers, 96)
        lake.create_table("prod.docs", pa.table({"text": [f"text {n}" for n in range(300)], "embedding": vectors}))
    run.replacements |= {"/var/lib/pennon": str(run.home)}
    run.variables |= {"PENNON_ROOT": run.root}
    run.names |= {"spark": run.spark, "scores": run.spark.sql("SELECT 1L AS event_id, 0.5D AS score")}


def _for_pipelines(run: PageRun) -> None:
    with pennon.open(run.root) as lake:
        lake.create_namespace("shop")
        lake.create_table("shop.customers", {"customer_id": [1, 2], "country": ["DE", "FR"]})
        lake.manage_versions()
    inbox = run.home / "inbox" / "2026-03-01"
    inbox.mkdir(parents=True)
    (inbox / "orders.csv").write_text("order_id,customer_id,amount,status\n1,1,9.50,paid\n2,2,3.25,open\n")
    run.replacements |= {"s3a://inbox": str(inbox.parent)}
    run.names["spark"] = run.spark


def _for_iceberg(run: PageRun) -> None:
    server = run.opened.enter_context(seaweed(run.opened.enter_context(SeaweedS3(iceberg=True))))
    storage = {key: value for key, value in server.properties.items() if key.startswith("storage.")}
    assert server.bucket
    run.replacements = {
        '"https://catalog.example"': f'"{server.uri}"',
        '"warehouse": "prod"': '"warehouse": "lake"',
        "client-id:client-secret": server.properties["credential"],
        "access-key:secret-key": server.properties["credential"],
        "s3://bucket/lance": "s3://lake/lance",
        '"storage.aws_region": "eu-west-1",': f"**{storage},",
        'managed_by="impl")': f'managed_by="impl", **{server.properties})',
        "http://localhost:8181": server.uri,
        "http://localhost:8333": server.bucket.url,
        '"access-key"': f'"{server.bucket.access_key}"',
        '"secret-key"': f'"{server.bucket.secret_key}"',
    }
    rows = pa.table({"id": [1, 2]})
    orders = "SELECT * FROM VALUES (1L, 'a'), (2L, 'b') AS t(id, name)"
    run.names |= {
        "arrow_ipc_bytes": ipc(rows),
        "more": rows,
        "spark": run.spark,
        "df": run.spark.sql(orders),
        "changes": run.spark.sql("SELECT 2L AS id, 'c' AS name"),
        "properties": {**server.properties, "uri": server.uri, "root": "s3://lake/lance", "managed_by": "impl"},
    }


PAGES = {
    "README.md": PageSettings(spark=True, prepare=lambda run: run.names.update(spark=run.spark)),
    "docs/concepts/versions.md": PageSettings(_for_versions),
    "docs/guides/command-line.md": PageSettings(_for_commands, spark=True, long=True),
    "docs/guides/cookbook/operate.md": PageSettings(_for_operate, spark=True, long=True),
    "docs/guides/cookbook/stores.md": PageSettings(_for_stores),
    "docs/guides/deploy.md": PageSettings(_for_deploy),
    "docs/guides/doctor.md": PageSettings(_for_doctor),
    "docs/guides/iceberg.md": PageSettings(_for_iceberg, spark=True),
    "docs/guides/jobs.md": PageSettings(_for_jobs, spark=True, long=True),
    "docs/guides/pipelines.md": PageSettings(_for_pipelines, spark=True, long=True),
    "docs/guides/rest.md": PageSettings(
        _for_rest, spark=True, before={"from pennon.spark import attach": _frame_for_rest}
    ),
    "docs/guides/secure.md": PageSettings(_for_secure),
    "docs/guides/serve.md": PageSettings(_manage),
    "docs/guides/spark.md": PageSettings(_for_spark, spark=True),
    "docs/guides/spark-merge.md": PageSettings(
        _for_merge, spark=True, before={"from pennon.spark import Delete, Insert, Update": _closed_customers}
    ),
    "docs/guides/spark-sql.md": PageSettings(
        _for_sql,
        spark=True,
        before={
            "SELECT id, _distance FROM vector_search(": (_create_docs),
            "INSERT INTO prod.events VALUES": lambda run: _create_events(run, {}),
            "UPDATE prod.events AS e": (lambda run: _create_events(run, {"info": {"a": 1}})),
            "MERGE INTO prod.events t USING prod.changes s ON t.id = s.id": _create_changes,
            "CREATE TABLE prod.docs (id BIGINT NOT NULL": (_remove_docs),
            "DROP TABLE IF EXISTS prod.docs": (_drop_docs),
            "CREATE NAMESPACE IF NOT EXISTS prod COMMENT": _remove_papers,
            "CREATE INDEX by_id ON prod.docs": lambda run: _create_docs(run, 16),
        },
    ),
    "docs/guides/streaming.md": PageSettings(
        # Both streams would create the table at the same time.
        _for_streaming,
        spark=True,
        before={"from pennon.spark.streaming import merge_batches": _finish_streams},
    ),
    "docs/migration/iceberg.md": PageSettings(_for_migration_from_iceberg),
    "docs/migration/lance-spark.md": PageSettings(_for_migration_from_lance_spark),
    "docs/reference/rest.md": PageSettings(start_server),
    "docs/reference/spark-types.md": PageSettings(_for_types, spark=True),
}
