"""Uses a REST namespace by lance-spark. Run by PySpark 3.5; arguments: the URL, a namespace, the directory of jars."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

# Spark's own are used: they are older, but all that Spark is built with.
FROM_SPARK = ("jackson", "jsr305")


def main(uri: str, space: str, jars: str) -> None:
    """Run statements, and check what they return."""
    paths = sorted(map(str, Path(jars).glob("*.jar")))
    first = ":".join(path for path in paths if not Path(path).name.startswith(FROM_SPARK))
    settings = {
        "spark.driver.extraClassPath": first,
        "spark.jars": ",".join(paths),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "spark.sql.extensions": "org.lance.spark.extensions.LanceSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.lance.spark.LanceNamespaceSparkCatalog",
        "spark.sql.catalog.lake.impl": "rest",
        "spark.sql.catalog.lake.uri": uri,
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()

    def rows(statement: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in spark.sql(statement.format(lake=f"lake.{space}")).collect()]

    rows("CREATE NAMESPACE {lake}.inner")
    assert rows("SHOW NAMESPACES IN {lake}") == [(f"{space}.inner",)]
    rows("CREATE TABLE {lake}.t (id BIGINT, name STRING)")
    rows("INSERT INTO {lake}.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    assert rows("SELECT * FROM {lake}.t WHERE id > 1 ORDER BY id") == [(2, "b"), (3, "c")]
    assert rows("SELECT count(*), max(id) FROM {lake}.t") == [(3, 3)]
    rows("CREATE TABLE {lake}.u AS SELECT id * 2 AS id FROM {lake}.t")
    assert rows("SELECT sum(id) FROM {lake}.u") == [(12,)]
    rows("UPDATE {lake}.t SET name = 'z' WHERE id = 1")
    rows("DELETE FROM {lake}.t WHERE id = 2")
    rows(
        "MERGE INTO {lake}.t AS t USING {lake}.u AS u ON t.id = u.id "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (u.id, 'm')"
    )
    assert rows("SELECT * FROM {lake}.t ORDER BY id") == [(1, "z"), (2, "m"), (3, "c"), (4, "m"), (6, "m")]
    rows("DROP TABLE {lake}.u")
    assert [row[1] for row in rows("SHOW TABLES IN {lake}")] == ["t"]
    spark.stop()
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
