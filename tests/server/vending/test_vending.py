"""Storage credentials of clients: for one table, by the client's right, and renewed before they expire."""

from __future__ import annotations

import json
import time

import lance
import lance_namespace
import pyarrow as pa
import pytest

from pennon import DirectoryNamespace
from pennon.errors import InvalidInputError, ServiceUnavailableError
from pennon.server.permissions.rights import ANONYMOUS, OpenGuard
from pennon.server.vending.aws import RoleVendor, session_policy
from pennon.server.vending.settings import AwsRole, load_settings
from pennon.server.vending.vendor import make_vending
from tests.iceberg.irc_servers import facade
from tests.server.http_client import LanceClient
from tests.server.permissions.policies import write_policy
from tests.server.vending.services import ARN
from tests.support import create_namespace, create_table


@pytest.fixture
def vendor(sts) -> RoleVendor:
    return RoleVendor(AwsRole(role_arn=ARN, region="eu-central-1", sts_endpoint=sts.url))


def statements(sent: dict[str, str]) -> tuple[dict, dict]:
    policy = json.loads(sent["Policy"])
    assert policy["Version"] == "2012-10-17"
    objects, listing = policy["Statement"]
    return objects, listing


def test_the_policy_of_a_reader_allows_reading_of_one_directory(sts, vendor):
    found = vendor.vend("s3://lake/root/ab12_sales%24or%20ders", writes=False, user="corp:ann@example.com")
    (sent,) = sts.sent
    assert (sent["Action"], sent["RoleArn"], sent["DurationSeconds"]) == ("AssumeRole", ARN, "3600")
    assert sent["RoleSessionName"] == "pennon-corp_ann@example.com"
    objects, listing = statements(sent)
    assert objects["Action"] == ["s3:GetObject"]
    assert objects["Resource"] == "arn:aws:s3:::lake/root/ab12_sales${$}or ders/*"
    assert listing["Action"] == "s3:ListBucket"
    assert listing["Resource"] == "arn:aws:s3:::lake"
    prefix = "root/ab12_sales${$}or ders"
    assert listing["Condition"] == {"StringLike": {"s3:prefix": [f"{prefix}/*", f"{prefix}/"]}}
    assert set(found) == {
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "aws_region",
        "expires_at_millis",
    }
    assert 3000 < int(found["expires_at_millis"]) / 1000 - time.time() <= 3601
    assert "the-servers-own" not in str(found)
    assert "secret-of-the-server" not in str(found)


def test_the_policy_of_a_writer_allows_writing_too(sts, vendor):
    vendor.vend("s3://lake/t", writes=True, user="ann")
    objects, _ = statements(sts.sent[0])
    assert {"s3:GetObject", "s3:PutObject", "s3:DeleteObject"} < set(objects["Action"])
    assert not any("*" in action for action in objects["Action"])


def test_names_of_directories_have_no_meaning_in_a_policy():
    objects, listing = session_policy("aws", "lake", "a*/b?/${aws:username}", writes=True)["Statement"]
    assert objects["Resource"] == "arn:aws:s3:::lake/a${*}/b${?}/${$}{aws:username}/*"
    assert listing["Condition"]["StringLike"]["s3:prefix"][1] == "a${*}/b${?}/${$}{aws:username}/"


def test_credentials_are_used_again_by_the_same_user_for_the_same_table(sts, vendor):
    first = vendor.vend("s3://lake/t", writes=False, user="ann")
    assert vendor.vend("s3://lake/t", writes=False, user="ann") == first
    assert len(sts.sent) == 1
    for location, writes, user in (
        ("s3://lake/t", True, "ann"),
        ("s3://lake/u", False, "ann"),
        ("s3://lake/t", False, "bob"),
    ):
        vendor.vend(location, writes=writes, user=user)
    assert len(sts.sent) == 4


def test_other_stores_get_nothing_and_a_failure_is_told(sts, vendor):
    for location in ("/data/t", "file:///data/t", "gs://lake/t", "s3://lake", "s3://lake/"):
        assert vendor.vend(location, writes=False, user="ann") is None
    assert sts.sent == []
    sts.is_down = True
    with pytest.raises(ServiceUnavailableError) as caught:
        vendor.vend("s3://lake/t", writes=False, user="ann")
    assert "secret-of-the-server" not in str(caught.value)


def test_settings_are_checked_and_not_shown(tmp_path):
    file = tmp_path / "vending.yaml"
    fixed = "fixed: {read: {key: hidden-value}, write: {key: hidden-value}}"
    for text in (
        "{}",
        "fixed: {read: {key: hidden-value}}",
        "aws_role: {role_arn: hidden-value, region: x}",
        "a: 1",
        "azure_account: {account_name: Hidden-value}",
        f"google_boundary: {{}}\n{fixed}",
    ):
        file.write_text(text)
        with pytest.raises(InvalidInputError, match=r"vending\.yaml") as caught:
            load_settings(file)
        assert "hidden-value" not in str(caught.value)
    file.write_text(fixed)
    assert "hidden-value" not in repr(load_settings(file))
    assert make_vending(load_settings(file)).options(OpenGuard(), ANONYMOUS, ("t",), "/data/t") is None


@pytest.mark.s3
def test_clients_without_keys_read_and_write_by_their_right(bucket, tmp_path):
    endpoint = bucket.endpoint
    written = write_policy(
        tmp_path / "policy.yaml",
        ["ann", "bob"],
        "grants: [{role: reader, table: s.t, to: ann}, {role: owner, namespace: s, to: bob}]\n",
    )
    shared = {key: value for key, value in endpoint.storage_options().items() if "key" not in key}
    vending = {
        "fixed": {
            right: {"aws_access_key_id": f"{right}-key", "aws_secret_access_key": "x"} for right in ("read", "write")
        },
        "options": shared,
    }
    vending["fixed"]["duration_seconds"] = 86400
    (tmp_path / "vending.yaml").write_text(json.dumps(vending))
    properties = {"root": endpoint.uri("vended"), **endpoint.properties()}
    with DirectoryNamespace(**properties) as catalog:
        catalog.enable_table_version_management()
        create_namespace(catalog, "s")
        create_table(catalog, "s", "t")
    arguments = ("--policy", str(written.file), "--vending", str(tmp_path / "vending.yaml"))
    with facade(tmp_path, managed=False, arguments=arguments, bucket=properties) as server:
        clients = {user: LanceClient(server.lance, Authorization=f"Bearer {key}") for user, key in written.keys.items()}

        def handed(user: str, **asked: bool) -> str | None:
            options = clients[user].call("POST", "/table/s%24t/describe", asked).body.get("storage_options")
            return None if options is None else options["aws_access_key_id"]

        assert (handed("ann"), handed("ann", vend_credentials=True)) == ("read-key", "read-key")
        assert (handed("bob"), handed("bob", vend_credentials=False)) == ("write-key", None)
        declared = clients["bob"].call("POST", "/table/s%24new/declare", {"vend_credentials": True}).body
        assert declared["storage_options"]["aws_access_key_id"] == "write-key"
        assert int(declared["storage_options"]["expires_at_millis"]) > time.time() * 1000
        spaces = {
            user: lance_namespace.connect(
                "rest", {"uri": server.lance, "header.Authorization": f"Bearer {written.keys[user]}"}
            )
            for user in ("ann", "bob")
        }
        bucket.requests.clear()
        assert lance.dataset(namespace_client=spaces["ann"], table_id=["s", "t"]).to_table().num_rows == 3
        assert "read-key" in {one.signer for one in bucket.requests}
        assert "write-key" not in {one.signer for one in bucket.requests}
        data = pa.table({"x": [4]})
        lance.write_dataset(data, namespace_client=spaces["bob"], table_id=["s", "t"], mode="append")
        assert "write-key" in {one.signer for one in bucket.requests if one.method == "PUT"}
        with DirectoryNamespace(**properties) as catalog:
            assert catalog._open_table(("s", "t")).count_rows() == 4
