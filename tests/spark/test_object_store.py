"""Spark with an S3 server: every task uses the storage options of the lake."""

from __future__ import annotations

import pytest

from tests.servers import CountingS3
from tests.support import fails

ROWS = 10_000  # more than the driver reads itself


@pytest.fixture
def bucket(spark):
    """Return a lake in a new bucket."""
    from pennon.spark import attach

    with CountingS3() as server:
        properties = {"root": server.endpoint.uri("lake"), **server.endpoint.properties()}
        yield attach(spark, **properties), properties


@pytest.mark.s3
def test_lake_in_a_bucket_is_read_and_written(spark, bucket):
    lake, properties = bucket
    lake.catalog.enable_table_version_management()
    lake.sql("CREATE NAMESPACE prod")
    frame = spark.range(0, ROWS, 1, 2).selectExpr("id", "concat('n', id % 7) AS name")
    assert lake.write(frame, "prod.t", "create").rows == ROWS
    assert lake.table("prod.t").where("id >= 9990").count() == 10
    assert lake.sql("SELECT count(DISTINCT name), sum(id) FROM prod.t").first() == (7, ROWS * (ROWS - 1) // 2)
    changed = spark.range(ROWS - 5, ROWS + 5).selectExpr("id", "'new' AS name")
    assert (lake.merge(changed, "prod.t", on="id").updated, lake.count("prod.t")) == (5, ROWS + 5)
    read = spark.read.format("pennon").options(**properties).load("prod.t")
    assert read.where("name = 'new'").count() == 10
    lake.sql("DROP TABLE prod.t")
    with fails(4):
        lake.table("prod.t")
    lake.sql("UNDROP TABLE prod.t")
    assert lake.count("prod.t", where="name = 'new'") == 10
