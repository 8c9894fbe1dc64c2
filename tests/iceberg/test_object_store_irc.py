"""Tables in a bucket, with Apache's fixture on the same bucket."""

from __future__ import annotations

import time
import uuid

import lance
import pyarrow as pa
import pytest
from lance_namespace import CountTableRowsRequest, ListTableVersionsRequest

from pennon import IcebergNamespace
from tests.iceberg.irc_servers import LossyProxy, Vending, apache_fixture
from tests.servers import CountingS3
from tests.support import create_namespace, create_table, deregister_table, drop_table, ipc, list_tables, register_table


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


@pytest.fixture
def vending(apache_on_s3, bucket):
    """Let the server hand out credentials with each table."""
    with LossyProxy(apache_on_s3.uri) as proxy:
        yield Vending(proxy, bucket)


def signers(bucket, call) -> set[str]:
    bucket.requests.clear()
    call()
    # The server itself has its files in the same bucket; our client does not know its key.
    return {request.signer for request in bucket.requests} - {bucket.endpoint.access_key}


def newest(names: set[str]) -> int:
    assert names
    assert all(name.startswith("handed-out-") for name in names)
    return max(int(name.rpartition("-")[2]) for name in names)


@pytest.mark.s3
@pytest.mark.parametrize("managed_by", ["storage", "impl"])
@pytest.mark.parametrize("valid_for", [None, 3600], ids=["endless", "for an hour"])
def test_credentials_that_are_handed_out_are_all_that_is_needed(vending, bucket, managed_by, valid_for):
    vending.valid_for = valid_for
    space = f"s{uuid.uuid4().hex[:12]}"
    with IcebergNamespace(uri=vending.uri, managed_by=managed_by) as catalog:
        create_namespace(catalog, space)
        name = [space, "t"]
        newest(signers(bucket, lambda: create_table(catalog, space, "t")))
        newest(signers(bucket, lambda: catalog.insert_into_table({"id": name}, ipc({"x": [4]}))))
        newest(signers(bucket, lambda: catalog.update_table({"id": name, "updates": [["x", "x + 1"]]})))
        data = pa.table({"x": [9]})
        newest(
            signers(bucket, lambda: lance.write_dataset(data, namespace_client=catalog, table_id=name, mode="append"))
        )
        assert catalog.count_table_rows(CountTableRowsRequest(id=name)).count == 5


@pytest.mark.s3
@pytest.mark.parametrize("managed_by", ["storage", "impl"])
def test_credentials_that_expire_are_asked_for_anew(vending, bucket, managed_by):
    space = f"s{uuid.uuid4().hex[:12]}"
    with IcebergNamespace(uri=vending.uri, managed_by=managed_by) as catalog:
        create_namespace(catalog, space)
        name = [space, "t"]
        create_table(catalog, space, "t", data=ipc({"x": list(range(1000))}))
        # Lance takes new ones a minute before.
        vending.valid_for = 63
        dataset = catalog._open_table((space, "t"))
        first = newest(signers(bucket, dataset.to_table))
        vending.valid_for = 3600
        deadline = time.monotonic() + 30
        while (last := newest(signers(bucket, dataset.to_table))) == first:
            assert time.monotonic() < deadline
        asked = len(vending.seen)
        assert newest(signers(bucket, dataset.to_table)) == last
        assert len(vending.seen) == asked
        assert catalog.count_table_rows(CountTableRowsRequest(id=name)).count == 1000
