"""Pipelines on Spark: all targets are staged, checked and published together, or not at all."""

from __future__ import annotations

import json

import pytest

from tests.support import create_table, fails, ipc

SHOP = """
name: shop
vars: {files: null, paid: paid}
sources:
  orders_file:
    format: csv
    path: ${files}/orders.csv
    options: {header: true}
    schema: id BIGINT, customer STRING, amount DOUBLE, status STRING
steps:
  orders: SELECT *, uuid() AS token FROM orders_file  -- all readers must see the same tokens
  sums: SELECT customer, sum(amount) AS total FROM orders WHERE status = '${paid}' GROUP BY customer;
targets:
  - table: shop.orders
    from: orders
    mode: merge
    on: id
    checks:
      - not_null: [id, amount]
      - unique: id
      - accepted_values: {status: [paid, open]}
      - row_count: {min: 1, max: 100, min_ratio: 1}
      - {unique: id, scope: new, name: new ids}
  - table: shop.sums
    from: sums
    mode: overwrite
    checks:
      - {sql: SELECT min(total) > 0 FROM this, expect: true}
  - table: shop.log
    from: orders
    checks:
      - {row_count: {min: 1000}, severity: warn, scope: new}
checks:
  - name: every sum has orders
    sql: SELECT s.customer FROM shop.sums s LEFT ANTI JOIN shop.orders o USING (customer)
  - name: every order is in the log
    sql: SELECT o.id FROM shop.orders o LEFT ANTI JOIN lake.shop.log l ON o.id = l.id AND o.token = l.token
"""


def test_targets_are_published_together_and_once(shop):
    pipeline = shop.pipeline(SHOP)
    before = shop.lake.catalog.latest_table_versions([])
    assert before == []
    report = pipeline.run(shop.lake, run_id="first")
    assert report.status == "published"
    assert shop.versions() == {"log": 1, "orders": 1, "sums": 1}
    assert shop.rows("sums") == [("ada", 15.5)]
    assert shop.rows("orders", "id", "token") == shop.rows("log", "id", "token")
    assert [one.version for one in report.targets] == [1, 1, 1]
    (step,) = [one for one in report.steps if one.staged]
    assert (step.name, step.rows, step.bytes > 0, step.seconds > 0) == ("orders", 4, True, True)
    assert [one.within for one in report.steps if not one.staged] == [("shop.sums",)]
    assert {one.passed for one in report.checks if one.severity == "error"} == {True}
    assert [one.message for one in report.checks if not one.passed] == ["4 rows: fewer than 1,000"]
    assert shop.leftovers() == []

    # The same run again does nothing, even if the input has changed.
    shop.write_orders([(9, "eve", 1.0, "paid")])
    again = pipeline.run(shop.lake, run_id="first")
    assert (again.status, again.targets) == ("already published", report.targets)
    assert shop.versions() == {"log": 1, "orders": 1, "sums": 1}
    with fails(19, "another definition or other variables"):
        shop.pipeline(SHOP, paid="open").run(shop.lake, run_id="first")

    # Another run merges, overwrites and appends; the merge updates an old row.
    shop.write_orders([(2, "bob", 30.0, "paid"), (9, "eve", 1.0, "paid")])
    second = pipeline.run(shop.lake)
    assert second.run_id != "first"
    assert [(one.rows, one.base_version, one.version) for one in second.targets] == [(2, 1, 2), (2, 1, 2), (2, 1, 2)]
    assert [row[0] for row in shop.rows("orders", "id")] == [1, 2, 3, 4, 9]
    assert shop.rows("sums") == [("bob", 30.0), ("eve", 1.0)]
    assert len(shop.rows("log")) == 6
    assert shop.leftovers() == []


def test_failing_check_publishes_nothing_and_deletes_staged_data(shop, tmp_path):
    pipeline = shop.pipeline(SHOP)
    pipeline.run(shop.lake, run_id="good")
    good = shop.versions(), shop.rows("orders"), shop.rows("log"), shop.rows("sums")
    shop.write_orders([(1, "ada", None, "piad"), (8, "cy", 1.0, "paid"), (8, "cy", 2.0, "paid")])
    # Merging a new key twice creates two rows.
    report = pipeline.run(shop.lake, run_id="bad")
    assert report.status == "checks failed"
    assert not report.succeeded
    assert {(one.name, one.failing) for one in report.failures} == {
        ("not_null(id, amount)", 1),
        ("unique(id)", 1),
        ("new ids", 1),
        ("accepted_values(status)", 1),
    }
    by_name = {one.name: one for one in report.checks}
    assert by_name["accepted_values(status)"].samples == ({"status": "piad"},)
    assert by_name["unique(id)"].samples == ({"id": 8, "count": 2},)
    assert (shop.versions(), shop.rows("orders"), shop.rows("log"), shop.rows("sums")) == good
    assert shop.leftovers() == []
    report.save(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text()) == report.document()

    # The id can be used again, with corrected data and even with another definition.
    shop.write_orders([(8, "cy", 1.0, "paid")])
    assert shop.pipeline(SHOP.replace("max: 100", "max: 200")).run(shop.lake, run_id="bad").status == "published"


def test_steps_are_checked_before_anything_is_written(shop):
    shop.write_orders([(1, "ada", -5.0, "paid")])
    pipeline = shop.pipeline(
        """
        name: early
        vars: {files: null}
        sources:
          f:
            format: csv
            path: ${files}/orders.csv
            options: {header: true}
            schema: id INT, c STRING, amount DOUBLE
        steps:
          kept:
            sql: SELECT * FROM f
            checks: [{sql: SELECT id FROM this WHERE amount < 0}, {not_null: id}]
          fleeting:
            sql: SELECT * FROM kept
            stage: never
            checks: [{sql: SELECT count(*) = 1 FROM this, expect: true}]
        targets:
          - {table: shop.t, from: fleeting}
        """
    )
    report = pipeline.run(shop.lake)
    assert report.status == "checks failed"
    assert [(one.on, one.passed) for one in report.checks] == [("steps.kept", False), ("steps.kept", True)]
    assert report.checks[0].samples == ({"id": 1},)
    assert report.targets == ()
    assert shop.versions() == {}
    assert shop.leftovers() == []
    shop.write_orders([(1, "ada", 5.0, "paid")])
    report = pipeline.run(shop.lake)
    assert [(one.on, one.passed) for one in report.checks] == [
        ("steps.kept", True),
        ("steps.kept", True),
        ("steps.fleeting", True),
    ]
    assert shop.rows("t") == [(1, "ada", 5.0)]


BAD = """
name: bad
vars: {files: null}
sources:
  f: {format: csv, path: "${files}/orders.csv", options: {header: true}}
  gone: {format: parquet, path: "${files}/nothing"}
  ice: {format: iceberg, path: db.t}
steps:
  wrong: SELECT nope FROM f
  behind: SELECT * FROM wrong
  missing: SELECT * FROM shop.nothing
  fine: SELECT id FROM f
targets:
  - {table: shop.a, from: behind}
  - {table: shop.b, from: missing}
  - {table: shop.c, from: gone}
  - {table: shop.d, from: ice}
  - table: shop.e
    from: fine
    mode: merge
    on: customer
    checks: [{not_null: amount}]
  - table: shop.g
    from: fine
    checks: [{unique: [id, nope]}, {sql: SELECT amount FROM this}, {sql: SELECT 1, expect: true}]
"""


def test_all_problems_are_reported_before_any_work(shop):
    from pennon.spark.pipeline import InvalidPipelineError

    with pytest.raises(InvalidPipelineError) as caught:
        shop.pipeline(BAD).run(shop.lake, run_id="r")
    messages = str(caught.value).splitlines()
    places = [line.partition(": ")[2].partition(": ")[0] for line in messages]
    assert places == [
        "sources.gone",
        "sources.ice",
        "steps.wrong.sql",
        "steps.missing.sql",
        "targets[4]",
        "targets[5].checks[0].unique",
        "targets[5].checks[1].sql",
        "targets[5].checks[2].sql",
    ]
    assert "there is nothing at" in messages[0]
    assert "spark.jars.packages=org.apache.iceberg" in messages[1]
    assert "nope" in messages[2]
    assert "shop" in messages[3]
    assert "the merge key 'customer' is not a column of 'fine', which has id" in messages[4]
    assert "names the column 'nope', but the columns are id" in messages[5]
    assert shop.versions() == {}
    assert shop.lake.spark.catalog.listTables() == []
    assert not list(shop.files.glob("root/__pennon/runs/*/*/*"))


def test_unmanaged_catalog_publishes_table_by_table(lake, tmp_path):
    pipeline = {
        "name": "single",
        "steps": {"s": "SELECT 1 AS x"},
        "targets": [{"table": "t", "from": "s"}, {"table": "u", "from": "s", "checks": [{"unique": "x"}]}],
    }
    from pennon.spark.pipeline import Pipeline

    with fails(0, "enable_table_version_management"):
        Pipeline(pipeline).run(lake)
    assert not (tmp_path / "root").exists()
    report = Pipeline({**pipeline, "publish": "per-table"}).run(lake, run_id="r")
    assert [one.version for one in report.targets] == [1, 1]
    assert lake.count("t") == lake.count("u") == 1
    assert Pipeline({**pipeline, "publish": "per-table"}).run(lake, run_id="r").status == "already published"


def test_staged_steps_and_checks_can_aggregate(shop):
    create_table(shop.lake.catalog, "shop", "orders", data=ipc({"k": [1, 1, 2], "v": [10, 20, 5]}))
    pipeline = shop.pipeline(
        """
        name: sums
        vars: {files: null}
        sources:
          orders: {table: shop.orders}
        steps:
          sums: {sql: "SELECT k, sum(v) AS total, count(*) AS n FROM shop.orders WHERE v > 5 GROUP BY k", stage: always}
          most:
            sql: SELECT max(v) AS v FROM orders
            stage: always
            checks: [{sql: SELECT sum(v) AS s FROM this HAVING sum(v) <> 20}]
        targets:
          - table: shop.sums
            from: sums
            mode: overwrite
            checks:
              - sql: SELECT k, count(*) AS n FROM this GROUP BY k HAVING 1 < count(*)
              - {sql: SELECT min(total) AS low FROM this HAVING min(total) < 30, scope: new}
          - {table: shop.most, from: most}
        checks:
          - sql: SELECT sum(total) AS s FROM shop.sums HAVING sum(total) <> 30
          - sql: SELECT max(v) AS most FROM shop.orders HAVING max(v) <> 20
        """
    )
    report = pipeline.run(shop.lake)
    assert report.status == "published", report.failures
    assert (shop.rows("sums"), shop.rows("most")) == ([(1, 30, 2)], [(20,)])
