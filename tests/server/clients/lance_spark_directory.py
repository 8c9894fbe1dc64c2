"""Creates a catalog by lance-spark with `impl=dir`, or extends it.

Run by PySpark 3.5; arguments: the root, the directory of jars, and `create` or `extend`.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

# Spark's own are used: they are older, but all that Spark is built with.
FROM_SPARK = ("jackson", "jsr305")


def main(root: str, jars: str, step: str) -> None:
    """Run the statements of a step."""
    paths = sorted(map(str, Path(jars).glob("*.jar")))
    settings = {
        "spark.driver.extraClassPath": ":".join(one for one in paths if not Path(one).name.startswith(FROM_SPARK)),
        "spark.jars": ",".join(paths),
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "spark.sql.extensions": "org.lance.spark.extensions.LanceSparkSessionExtensions",
        "spark.sql.catalog.lance": "org.lance.spark.LanceNamespaceSparkCatalog",
        "spark.sql.catalog.lance.impl": "dir",
        "spark.sql.catalog.lance.root": root,
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if step == "create":
        spark.sql("CREATE NAMESPACE lance.sales")
        for table in ("lance.sales.orders", "lance.default.orders"):
            spark.sql(f"CREATE TABLE {table} (id BIGINT, name STRING)")
            spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")  # noqa: S608 - a name from above
    else:
        spark.sql("INSERT INTO lance.sales.orders VALUES (4, 'd')")
    print([tuple(row) for row in spark.sql("SELECT * FROM lance.sales.orders ORDER BY id").collect()])
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
