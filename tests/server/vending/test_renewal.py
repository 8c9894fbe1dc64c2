"""Credentials that expire: clients ask the server again, and the storage refuses the old ones."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import lance_namespace
import lancedb
import pyarrow as pa
import pytest
from lance_namespace import CountTableRowsRequest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError

from pennon import DirectoryNamespace, IcebergNamespace, RestNamespace
from tests.iceberg.irc_servers import facade
from tests.server.http_client import Client
from tests.server.permissions.policies import write_policy
from tests.server.vending.services import ARN, Sts, serve_locally
from tests.support import create_namespace, create_table, ipc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.iceberg.irc_servers import Irc
    from tests.servers import CountingS3

pytestmark = pytest.mark.s3


class Vended:
    """A served catalog in a bucket whose credentials come from a role."""

    def __init__(self, server: Irc, sts: Sts, bucket: CountingS3, token: str) -> None:
        self.server = server
        self.token = token
        self.bucket = bucket
        self._sts = sts

    def expire(self) -> None:
        """Refuse all credentials that were handed out."""
        assert self._sts.keys
        self.bucket.refused |= set(self._sts.keys)

    def signers(self) -> set[str]:
        """Return the keys of requests to the bucket that were made for clients."""
        return {one.signer for one in self.bucket.requests} & set(self._sts.keys)


@pytest.fixture(scope="module")
def vended(bucket, tmp_path_factory) -> Iterator[Vended]:
    """Serve a namespace `s`. Credentials are almost over when they are handed out."""
    endpoint, directory = bucket.endpoint, tmp_path_factory.mktemp("vended")
    properties = {"root": endpoint.uri(directory.name), **endpoint.properties()}
    with DirectoryNamespace(**properties) as catalog:
        catalog.enable_table_version_management()
        create_namespace(catalog, "s")
    options = {key: value for key, value in endpoint.storage_options().items() if "key" not in key}
    policy = write_policy(directory / "policy.yaml", ["ann"], "grants: [{role: owner, namespace: s, to: ann}]\n")
    sts = Sts()
    sts.valid_for = timedelta(seconds=30)
    with serve_locally(sts.serve) as url:
        role = {"role_arn": ARN, "region": endpoint.region, "sts_endpoint": url}
        (directory / "vending.yaml").write_text(json.dumps({"aws_role": role, "options": options}))
        arguments = ("--policy", str(policy.file), "--vending", str(directory / "vending.yaml"))
        own = {"AWS_ACCESS_KEY_ID": "the-servers-own", "AWS_SECRET_ACCESS_KEY": "secret-of-the-server"}
        with facade(directory, managed=False, arguments=arguments, bucket=properties, environment=own) as server:
            yield Vended(server, sts, bucket, policy.keys["ann"])


@pytest.fixture
def table(vended) -> str:
    """Create a table of three rows in the namespace `s`."""
    name = f"t{uuid.uuid4().hex[:12]}"
    with RestNamespace(uri=vended.server.lance, token=vended.token) as namespace:
        create_table(namespace, "s", name, data=ipc({"x": [1, 2, 3]}))
    return name


def test_an_open_dataset_of_pylance_gets_new_credentials(vended, table):
    namespace = lance_namespace.connect(
        "rest", {"uri": vended.server.lance, "header.Authorization": f"Bearer {vended.token}"}
    )
    dataset = lance.dataset(namespace_client=namespace, table_id=["s", table])
    for rows in (3, 4, 5):
        assert dataset.count_rows() == rows
        vended.expire()
        assert dataset.to_table().num_rows == rows
        vended.expire()
        dataset.insert(pa.table({"x": [9]}))
    assert vended.signers()


def test_an_open_table_of_lancedb_gets_new_credentials(vended, table):
    headers = {"header.Authorization": f"Bearer {vended.token}"}
    database = lancedb.connect_namespace("rest", {"uri": vended.server.lance, **headers})
    found = database.open_table(table, namespace_path=["s"])
    vended.expire()
    assert found.to_arrow().num_rows == 3
    vended.expire()
    found.add([{"x": 4}])
    vended.expire()
    assert found.search().where("x > 3").to_arrow()["x"].to_pylist() == [4]


def test_tasks_of_spark_get_new_credentials(vended, table, spark):
    from pennon.spark import attach, tables

    lake = attach(spark, impl="rest", uri=vended.server.lance, token=vended.token)
    rows = lake.table(f"s.{table}")
    staged = tables.stage(lake.address, spark.createDataFrame([(4,)], "x bigint"), ("s", table))
    vended.expire()
    assert sorted(row.x for row in rows.collect()) == [1, 2, 3]
    vended.expire()
    tables.publish(staged)
    assert lake.table(f"s.{table}").count() == 4
    assert vended.signers()


def test_iceberg_clients_get_credentials_if_they_ask(vended, table):
    catalog = RestCatalog("c", uri=vended.server.uri, token=vended.token)
    loaded_table = catalog.load_table(("s", table))
    manifest = loaded_table.current_snapshot().manifest_list
    vended.bucket.requests.clear()
    assert loaded_table.io.new_input(manifest).exists()
    assert vended.signers() == {loaded_table.io.properties["s3.access-key-id"]}
    client = Client(vended.server.uri, Authorization=f"Bearer {vended.token}")
    path = f"/namespaces/s/tables/{table}"
    asked = {"X-Iceberg-Access-Delegation": "remote-signing, vended-credentials"}
    assert client.call("GET", path).body["config"] == {}
    loaded: dict[str, Any] = client.call("GET", path, **asked).body
    listed = client.call("GET", f"{path}/credentials").body["storage-credentials"]
    for (found,) in (loaded["storage-credentials"], listed):
        assert found["prefix"] == loaded["metadata"]["location"]
        assert {"s3.session-token", "s3.session-token-expires-at-ms", "client.region"} < found["config"].keys()
    assert loaded["config"].keys() == listed[0]["config"].keys()
    created = {"name": "new", "schema": {"type": "struct", "fields": []}}
    assert (
        client.call("POST", "/namespaces/s/tables", created, **asked).body["config"].keys()
        == listed[0]["config"].keys()
    )
    with pytest.raises(NoSuchTableError):
        RestCatalog("c", uri=vended.server.uri, token=vended.token).load_table(("hidden", "t"))


def test_an_iceberg_namespace_gets_new_credentials(vended, table):
    with IcebergNamespace(uri=vended.server.uri, token=vended.token) as namespace:
        asked = CountTableRowsRequest(id=["s", table])
        assert namespace.count_table_rows(asked).count == 3
        vended.expire()
        assert namespace.count_table_rows(asked).count == 3
    assert vended.signers()
