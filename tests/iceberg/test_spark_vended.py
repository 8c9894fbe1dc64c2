"""Spark and credentials that a server hands out for a short time: every process renews them."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from pennon import IcebergNamespace
from pennon.spark import tables
from pennon.spark.address import Address
from pennon.spark.reading.pinned import pin
from pennon.spark.tables.destination import locate_table
from pennon.spark.tables.prepared_write import prepare_write
from tests.iceberg.irc_servers import LossyProxy, Vending, facade
from tests.servers import CountingS3
from tests.support import create_namespace, create_table, ipc

pytestmark = pytest.mark.s3


@pytest.fixture(params=["storage", "impl"])
def vending(request, tmp_path):
    with CountingS3() as bucket:
        properties = {"root": bucket.endpoint.uri("lake"), **bucket.endpoint.properties()}
        server = facade(tmp_path / "facade", managed=request.param == "impl", bucket=properties)
        with server as irc, LossyProxy(irc.uri) as proxy:
            yield Vending(proxy, bucket, managed_by=request.param)


@pytest.fixture
def table(vending):
    """Make a table of a thousand rows; its credentials are almost over when they are handed out, later ones are not."""
    space = f"s{uuid.uuid4().hex[:12]}"
    with IcebergNamespace(**vending.properties) as catalog:
        create_namespace(catalog, space)
        create_table(catalog, space, "t", data=ipc({"x": list(range(1000))}))
    vending.valid_for = 30
    return space, "t"


def lasting(vending):
    vending.expire()
    vending.valid_for = 3600


def test_a_version_that_was_found_can_be_read_when_its_credentials_are_over(vending, table):
    address = Address.of("iceberg", vending.properties)
    pinned, _ = pin(address, table)
    lasting(vending)
    assert pinned.open().to_table()["x"].to_pylist() == list(range(1000))


def test_a_task_writes_when_credentials_are_over(vending, table):
    from pyspark.sql.types import LongType, StructField, StructType

    address = Address.of("iceberg", vending.properties)
    destination = locate_table(address, table)
    schema = StructType([StructField("x", LongType())])
    found = tables.find_destination(address, table, None)
    task = prepare_write(address, table, found, schema, settings=tables.FileSettings(), run="a-run")
    lasting(vending)
    written = task.write(iter([pa.record_batch({"x": pa.array([1, 2], pa.int64())})]))
    with destination.files() as files:
        assert files.noted_files("a-run") == set(written.files)
    assert destination.latest().count_rows() == 1000


def test_a_lake_is_read_and_changed(spark, vending, table):
    from pennon.spark import attach

    lake = attach(spark, impl="iceberg", **vending.properties)
    name = ".".join(table)
    rows = lake.table(name)
    staged = tables.stage(lake.address, spark.range(1000, 1010).withColumnRenamed("id", "x"), table)
    lasting(vending)
    assert rows.count() == len(rows.collect()) == 1000
    tables.publish(staged)
    changes = spark.range(1005, 1020).withColumnRenamed("id", "x")
    assert lake.merge(changes, name, on="x").inserted == 10
    assert sorted(row.x for row in lake.table(name).collect()) == list(range(1020))
