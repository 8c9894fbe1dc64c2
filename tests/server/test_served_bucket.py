"""A catalog in a bucket: served, written through the server, and at a price that versions do not raise."""

from __future__ import annotations

import uuid

import lance
import pyarrow as pa
import pytest

from pennon import DirectoryNamespace, IcebergNamespace
from tests.iceberg.irc_servers import facade
from tests.server.http_client import Client, table_path
from tests.servers import CountingS3
from tests.support import create_namespace, create_table, drop_table, list_tables, wait_for_background_work

pytestmark = pytest.mark.s3


@pytest.fixture(scope="module")
def bucket():
    with CountingS3() as server:
        yield server


@pytest.fixture(params=["impl", "storage"])
def place(request, bucket, tmp_path):
    """Serve a catalog in a bucket; give its properties, the server, and who manages versions."""
    properties = {"root": bucket.endpoint.uri(f"lake-{uuid.uuid4().hex}"), **bucket.endpoint.properties()}
    with facade(tmp_path, managed=request.param == "impl", bucket=properties) as server:
        yield properties, server, request.param


def test_a_table_in_a_bucket_is_written_and_shown(place, bucket):
    properties, server, managed_by = place
    storage = bucket.endpoint.storage_options()
    own = {key: value for key, value in properties.items() if key != "root"}
    with IcebergNamespace(uri=server.uri, managed_by=managed_by, **own) as client:
        create_namespace(client, "a")
        create_table(client, "a", "t")
        data = pa.table({"x": [4]})
        lance.write_dataset(data, namespace_client=client, table_id=["a", "t"], mode="append", storage_options=storage)
        metadata = Client(server.uri).get(table_path("a", "t")).body["metadata"]
        assert metadata["current-snapshot-id"] == 2
        assert metadata["location"].startswith(properties["root"] + "/")
        assert metadata["snapshots"][-1]["manifest-list"].startswith(metadata["location"] + "/_versions/")
        assert lance.dataset(metadata["location"], storage_options=storage).count_rows() == 4
        drop_table(client, "a", "t")
        with DirectoryNamespace(**properties) as catalog:
            catalog.undrop_table(["a", "t"])
            assert list_tables(catalog, "a") == ["t"]


def test_more_versions_cost_no_more_requests(place, bucket):
    properties, server, _ = place
    client = Client(server.uri)
    with DirectoryNamespace(**properties) as catalog:
        create_namespace(catalog, "a")
        create_table(catalog, "a", "t")

        def cost() -> int:
            """Return the requests of a warm server: the fewest of three, because background work of both is counted."""
            wait_for_background_work()
            client.get(table_path("a", "t"))
            counts = []
            for _ in range(3):
                with bucket.count() as count:
                    assert client.get(table_path("a", "t")).status == 200
                counts.append(count.total)
            return min(counts)

        few = cost()
        dataset = catalog._open_table(("a", "t"))
        for number in range(12):
            dataset.update_config({"number": str(number)})
        assert client.get(table_path("a", "t")).body["metadata"]["current-snapshot-id"] == 13
        assert cost() == few
        assert few <= 6
