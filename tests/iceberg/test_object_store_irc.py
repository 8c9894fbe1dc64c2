"""Tables in a bucket, with Apache's fixture on the same bucket."""

from __future__ import annotations

import uuid

import lance
import pyarrow as pa
import pytest
from irc_servers import apache_fixture
from lance_namespace import CountTableRowsRequest, ListTableVersionsRequest
from servers import CountingS3
from support import create_namespace, create_table, deregister_table, drop_table, list_tables, register_table

from pennon import IcebergNamespace


@pytest.fixture(scope="module")
def bucket():
    with CountingS3() as server:
        yield server


@pytest.fixture(scope="module")
def apache_on_s3(bucket, tmp_path_factory):
    endpoint = bucket.endpoint
    settings = {
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "CATALOG_WAREHOUSE": endpoint.uri("warehouse"),
        "CATALOG_S3_ENDPOINT": endpoint.url,
        "CATALOG_S3_ACCESS__KEY__ID": endpoint.access_key,
        "CATALOG_S3_SECRET__ACCESS__KEY": endpoint.secret_key,
        "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        "CATALOG_CLIENT_REGION": endpoint.region,
        "AWS_REGION": endpoint.region,
    }
    with apache_fixture(tmp_path_factory.mktemp("apache-s3"), settings) as server:
        yield server


@pytest.mark.s3
@pytest.mark.parametrize("managed_by", ["storage", "impl"])
@pytest.mark.parametrize("rooted", [True, False], ids=["root", "no root"])
def test_a_table_lives_in_a_bucket(apache_on_s3, bucket, managed_by, rooted):
    place = {"root": bucket.endpoint.uri(f"lake-{uuid.uuid4().hex}")} if rooted else {}
    properties = {"uri": apache_on_s3.uri, "managed_by": managed_by, **place, **bucket.endpoint.properties()}
    space = f"s{uuid.uuid4().hex[:12]}"
    with IcebergNamespace(**properties) as catalog:
        create_namespace(catalog, space)
        location = create_table(catalog, space, "t").location
        options = bucket.endpoint.storage_options()
        lance.write_dataset(
            pa.table({"x": [4]}),
            namespace_client=catalog,
            table_id=[space, "t"],
            mode="append",
            storage_options=options,
        )
        assert catalog.count_table_rows(CountTableRowsRequest(id=[space, "t"])).count == 4
        found = catalog.list_table_versions(ListTableVersionsRequest(id=[space, "t"])).versions
        assert [one.version for one in found] == [2, 1]
        assert deregister_table(catalog, space, "t").location == location
        assert lance.dataset(location, storage_options=options).count_rows() == 4
        register_table(catalog, space, "u", location=location)
        assert catalog.count_table_rows(CountTableRowsRequest(id=[space, "u"])).count == 4
        drop_table(catalog, space, "u", purge="true")
        assert list_tables(catalog, space) == []
        left = [one.name for one in catalog._places.store(location, options).list_level().files]
        assert left == []
        assert catalog._places.store(location, options).has_files("") is not rooted
