"""Properties of the directory namespace, and the two ways to connect by name."""

from __future__ import annotations

import pickle
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance_namespace
import pytest
from lance.namespace import DirectoryNamespace as ReferenceNamespace
from lance_namespace.errors import InvalidInputError

import pennon
from pennon import DirectoryNamespace
from tests.support import create_namespace, create_table, describe_table, fails, list_namespaces, list_tables

REFERENCE_PROPERTIES = {
    "inline_optimization_enabled": "true",
    "commit_retries": "5",
    "ops_metrics_enabled": "false",
    "credential_vendor.enabled": "false",
    "credential_vendor.aws_role_arn": "arn:aws:iam::123456789012:role/reader",
    "table_version_tracking_enabled": "false",
    "dir_listing_to_manifest_migration_enabled": "true",
    "vend_input_storage_options": "true",
    "vend_input_storage_options_refresh_interval_millis": "1000",
}


def test_missing_root_is_refused_by_name():
    with fails(13, naming="root"):
        DirectoryNamespace()


@pytest.mark.parametrize("root", ["", "  ", None, "a\0b"])
def test_invalid_root_is_rejected(root):
    with fails(13, naming="root"):
        DirectoryNamespace(root=root)


@pytest.mark.parametrize("root", ["ftp://host/x", "s3://", "file://elsewhere/x", "s3://bucket/a?b", "s3://bucket/a#b"])
def test_root_uri_that_cannot_be_used_is_refused_by_name(root):
    with fails(13, naming=root):
        DirectoryNamespace(root=root)


@pytest.mark.parametrize("key", ["roots", "Root", "manifest-enabled", "storage", "storage.", "delimiter", ""])
def test_unknown_property_is_refused_by_name(tmp_path, key):
    with fails(13, naming=repr(key)):
        DirectoryNamespace(**{"root": str(tmp_path), key: "true"})


@pytest.mark.parametrize(
    "key",
    [
        "manifest_enabled",
        "dir_listing_enabled",
        "legacy_markers",
        "vend_input_storage_options",
        "table_version_tracking_enabled",
        "ops_metrics_enabled",
        "credential_vendor.enabled",
    ],
)
@pytest.mark.parametrize("value", ["tru", "", "2", None, "null"])
def test_bad_boolean_is_refused_by_name(tmp_path, key, value):
    with fails(13, naming=key):
        DirectoryNamespace(**{"root": str(tmp_path), key: value})


@pytest.mark.parametrize("value", ["false", "FALSE", "False", "0", "no", "off", False])
def test_boolean_is_read_in_any_spelling(tmp_path, value):
    with DirectoryNamespace(root=str(tmp_path), manifest_enabled=value) as ns, fails(0):
        create_namespace(ns, "a")


def test_a_catalog_with_neither_manifest_nor_listing_is_refused(tmp_path):
    with fails(13, naming="dir_listing_enabled"):
        DirectoryNamespace(root=str(tmp_path), manifest_enabled="false", dir_listing_enabled="false")


def test_properties_of_the_reference_client_do_no_harm(tmp_path):
    with DirectoryNamespace(root=str(tmp_path), **REFERENCE_PROPERTIES) as ns:
        create_table(ns, "t")
        assert list_tables(ns) == ["t"]


def test_storage_options_are_returned_without_prefix_on_request(tmp_path):
    with DirectoryNamespace(root=str(tmp_path), **{"storage.region": "nowhere-1"}) as ns:
        create_table(ns, "t")
        assert describe_table(ns, "t").storage_options is None
        assert describe_table(ns, "t", vend_credentials=True).storage_options == {"region": "nowhere-1"}


def test_vend_input_storage_options_returns_storage_options_always(tmp_path):
    properties = {"storage.region": "nowhere-1", "vend_input_storage_options": "true"}
    with DirectoryNamespace(root=str(tmp_path), **properties) as ns:
        assert create_table(ns, "t").storage_options == {"region": "nowhere-1"}
        assert describe_table(ns, "t").storage_options == {"region": "nowhere-1"}


def test_returned_storage_options_expire_after_the_refresh_interval(tmp_path):
    properties = {"storage.region": "nowhere-1", "vend_input_storage_options": "true"}
    interval = {"vend_input_storage_options_refresh_interval_millis": "60000"}
    with DirectoryNamespace(root=str(tmp_path), **properties, **interval) as ns:
        create_table(ns, "t")
        before = time.time() * 1000
        options = describe_table(ns, "t").storage_options
        after = time.time() * 1000
    assert options.keys() == {"region", "expires_at_millis"}
    assert int(before) + 60_000 <= int(options["expires_at_millis"]) <= after + 60_000


@pytest.mark.parametrize("value", ["", "0", "-1", "1.5", "1e3", "soon", "9" * 16, None])
def test_bad_refresh_interval_is_refused_by_name(tmp_path, value):
    key = "vend_input_storage_options_refresh_interval_millis"
    with fails(13, naming=key):
        DirectoryNamespace(**{"root": str(tmp_path), key: value})


def test_credential_vendor_is_rejected_with_an_alternative(tmp_path):
    with fails(13, naming="cannot create temporary credentials"):
        DirectoryNamespace(**{"root": str(tmp_path), "credential_vendor.enabled": "true"})


def test_operations_are_counted_as_the_reference_client_does(tmp_path):
    counts = []
    for kind in (DirectoryNamespace, ReferenceNamespace):
        ns = kind(root=str(tmp_path / kind.__module__), ops_metrics_enabled="true")
        create_table(ns, "t")
        with fails(4):
            describe_table(ns, "nothing")
        describe_table(ns, "t")
        list_tables(ns)
        counts.append(ns.retrieve_ops_metrics())
        ns.reset_ops_metrics()
        assert not any(ns.retrieve_ops_metrics().values())
    assert counts[0] == counts[1] == {"create_table": 1, "describe_table": 2, "list_tables": 1}


def test_operations_are_not_counted_unless_asked_for(tmp_path):
    with DirectoryNamespace(root=str(tmp_path)) as ns:
        create_table(ns, "t")
        ns.reset_ops_metrics()
        assert ns.retrieve_ops_metrics() == {}


def test_operations_are_counted_across_threads_and_separately_by_copies(tmp_path):
    with DirectoryNamespace(root=str(tmp_path), ops_metrics_enabled="true") as ns:
        create_table(ns, "t")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: list_tables(ns), range(40)))
        assert ns.retrieve_ops_metrics() == {"create_table": 1, "list_tables": 40}
        with pickle.loads(pickle.dumps(ns)) as copy:
            describe_table(copy, "t")
            assert copy.retrieve_ops_metrics() == {"describe_table": 1}


def test_secrets_are_not_shown(tmp_path):
    with DirectoryNamespace(root=str(tmp_path), **{"storage.aws_secret_access_key": "hush"}) as ns:
        assert str(tmp_path) in repr(ns)
        assert "hush" not in repr(ns) + ns.namespace_id()


def test_the_sdk_connects_by_class_path(tmp_path):
    with lance_namespace.connect("pennon.DirectoryNamespace", {"root": str(tmp_path)}) as ns:
        assert isinstance(ns, DirectoryNamespace)
        create_table(ns, "t")
        assert list_tables(ns) == ["t"]


def test_the_sdk_wraps_a_refused_property_and_keeps_our_error():
    with pytest.raises(ValueError, match="root") as caught:
        lance_namespace.connect("pennon.DirectoryNamespace", {})
    assert isinstance(caught.value.__context__, InvalidInputError)


def test_connect_opens_the_directory_namespace_by_its_short_name(tmp_path):
    with pennon.connect("dir", {"root": str(tmp_path), "manifest_enabled": "false"}) as ns:
        assert isinstance(ns, DirectoryNamespace)
        with fails(0):
            create_namespace(ns, "a")


def test_connect_refuses_an_unknown_implementation_by_name():
    with fails(13, naming="'nothing'"):
        pennon.connect("nothing", {})


def test_connect_refuses_bad_properties():
    with fails(13, naming="root"):
        pennon.connect("dir", {})


def test_relative_root_stays_where_it_was_when_the_working_directory_changes(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with DirectoryNamespace(root="my/../my/root") as ns:
        create_table(ns, "before")
        monkeypatch.chdir(tmp_path / "elsewhere")
        create_table(ns, "after")
        assert Path(describe_table(ns, "after").location) == tmp_path / "my/root/after.lance"
        assert list_tables(ns) == ["after", "before"]
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("prefix", ["file://", "file://localhost"])
def test_file_uri_and_path_are_the_same_root(tmp_path, prefix):
    where = tmp_path / "with space %41"
    uri = prefix + where.as_uri().removeprefix("file://")
    with DirectoryNamespace(root=uri) as by_uri, DirectoryNamespace(root=str(where)) as by_path:
        create_table(by_uri, "t")
        assert list_tables(by_path) == ["t"]
        assert by_uri.namespace_id() == by_path.namespace_id()
        assert describe_table(by_uri, "t").location == str(where / "t.lance")


def test_trailing_slash_of_a_root_makes_no_difference(tmp_path):
    with DirectoryNamespace(root=f"{tmp_path}/") as slash, DirectoryNamespace(root=str(tmp_path)) as plain:
        create_table(slash, "t")
        assert describe_table(slash, "t").location == describe_table(plain, "t").location
        assert slash.namespace_id() == plain.namespace_id()


def test_memory_roots_with_the_same_name_share_a_catalog():
    names = [f"memory://{uuid.uuid4().hex}" for _ in range(2)]
    with (
        DirectoryNamespace(root=names[0]) as first,
        DirectoryNamespace(root=names[0]) as same,
        DirectoryNamespace(root=names[1]) as other,
    ):
        create_namespace(first, "a")
        assert list_namespaces(same) == ["a"]
        assert list_namespaces(other) == []
