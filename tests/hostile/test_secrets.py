"""Secrets stay out of logs, of `repr` and of messages."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import pkgutil
import re

import pytest

import pennon
from pennon import DirectoryNamespace, IcebergNamespace
from pennon.config import DirectorySettings
from pennon.iceberg.settings import IcebergSettings
from pennon.redaction import hide_secrets
from pennon.spark.address import Address
from pennon.store import open_store
from tests.servers import SeaweedS3
from tests.support import create_table, drop_table

SECRET = "s3cr3t/value+that=shows"
SIGNED = re.compile(r"signature=|X-Amz-Credential|AWSAccessKeyId|X-Amz-Security-Token", re.IGNORECASE)


@pytest.mark.s3
def test_presigned_urls_are_not_logged(caplog):
    """The debug log of a purge, which deletes by signed URLs, holds no signature."""
    with SeaweedS3() as server:
        properties = {**server.endpoint.properties(), "root": server.endpoint.uri("lake")}
        caplog.set_level(logging.DEBUG)
        with DirectoryNamespace(**properties, manifest_enabled="false") as namespace:
            create_table(namespace, "t")
            drop_table(namespace, "t")
            namespace.purge_table(["t"], force=True)
            namespace._catalog.store.now()
    deleted = [one.getMessage() for one in caplog.records if "DELETE" in one.getMessage()]
    assert any("?***" in one for one in deleted), "the log of urllib3 was not seen"
    for record in caplog.records:
        told = f"{record.getMessage()} {record.args}"
        assert not SIGNED.search(told), told


@pytest.mark.s3
def test_error_of_a_signed_request_does_not_contain_the_url():
    options = {
        "aws_access_key_id": "AKIDOFTHEUSER",
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
        "aws_endpoint": "http://127.0.0.1:9",
        "allow_http": "true",
    }
    store = open_store("s3://bucket/lake", options)
    with pytest.raises(Exception, match="got no response") as caught:
        store.delete_if("x", "tag")
    assert not SIGNED.search(str(caught.value))
    assert SECRET not in repr(store)
    store.close()


def test_settings_do_not_show_secrets():
    storage = {"storage.aws_secret_access_key": SECRET, "storage.something": SECRET}
    iceberg = {
        "uri": "http://127.0.0.1:9",
        "token": SECRET,
        "credential": f"id:{SECRET}",
        "header.X-Key": SECRET,
        "client.secret-access-key": SECRET,
        "client.session-token": SECRET,
        **storage,
    }
    shown = [
        repr(DirectorySettings.from_properties({"root": "/r", **storage})),
        repr(IcebergSettings.from_properties(iceberg)),
        repr(Address.of("dir", {"root": "/r", **storage})),
        repr(Address.of("iceberg", iceberg)),
    ]
    with DirectoryNamespace(root="memory://secrets", **storage) as namespace:
        shown += [repr(namespace), repr(namespace._catalog)]
    with IcebergNamespace(**iceberg) as namespace:
        shown += [repr(namespace), repr(namespace._catalog)]
    assert all(SECRET not in one for one in shown)
    assert all(SECRET not in str(one) for one in shown)


SUSPICIOUS = re.compile(r"(^|_)(storage_options|token|credentials?|secrets?|password|environment|hidden)$")
HARMLESS = {
    "_DroppedPage.page_token",  # a place in a listing
    "SearchResult.next_token",  # the same
    "HealthPart.next_token",  # the same
    "TableDirectory.hidden",  # a flag
    "LeaseOwner.token",  # of a lease: it proves nothing to others
    "DirectorySettings.vend_input_storage_options",  # a flag
    "IcebergSettings.vends_credentials",  # a flag
}


def test_repr_of_dataclasses_contains_no_secrets():
    found = []
    for module in pkgutil.walk_packages(pennon.__path__, "pennon."):
        if module.name.endswith("__main__"):
            continue
        for name, kind in vars(importlib.import_module(module.name)).items():
            if not (isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == module.name):
                continue
            # A __repr__ that @dataclass generated is wrapped; this test ignores classes with their own __repr__.
            if hasattr(kind.__repr__, "__wrapped__"):
                shown = [one.name for one in dataclasses.fields(kind) if one.repr and SUSPICIOUS.search(one.name)]
                found += [f"{name}.{one}" for one in shown]
    assert set(found) == HARMLESS


def test_secrets_are_hidden_longest_first_and_in_urls():
    assert hide_secrets(f"a {SECRET} b", {SECRET, SECRET[:6]}) == "a *** b"
    assert hide_secrets("x?k=s3cr3t%2Fvalue%2Bthat%3Dshows", {SECRET}) == "x?k=***"
    assert hide_secrets("abc", {"abc"}) == "abc"
