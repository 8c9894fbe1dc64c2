"""Properties of the root namespace are stored in the metadata map of the manifest."""

from __future__ import annotations

import pytest

from tests.directory.on_disk import has_manifest, manifest
from tests.support import (
    create_namespace,
    create_table,
    describe_namespace,
    drop_namespace,
    fails,
    list_namespaces,
    remove_table,
)


@pytest.fixture(params=["v2", "compatibility"])
def ns(request, root, open_namespace):
    """Open a root in a mode that has a manifest."""
    return open_namespace(root, request.param)


def test_empty_root_has_no_properties_and_no_manifest(ns):
    assert describe_namespace(ns).properties == {}
    assert not has_manifest(ns)


def test_root_properties_can_be_set_replaced_and_removed(ns):
    assert ns.alter_namespace_properties([], {"a": "1", "b": "ü'\"", "c": ""}) == {"a": "1", "b": "ü'\"", "c": ""}
    assert ns.alter_namespace_properties([], {"a": "2", "b": None, "absent": None}) == {"a": "2", "c": ""}
    assert describe_namespace(ns).properties == {"a": "2", "c": ""}


def test_root_properties_are_stored_in_the_manifest_metadata(ns):
    ns.alter_namespace_properties([], {"owner": "ann"})
    assert manifest(ns).metadata["owner"] == "ann"
    assert manifest(ns).count_rows() == 0


def test_root_properties_set_by_another_client_are_visible(ns):
    create_namespace(ns, "a")
    assert describe_namespace(ns).properties == {}
    manifest(ns).update_metadata({"owner": "bob"})
    assert describe_namespace(ns).properties == {"owner": "bob"}


def test_root_properties_survive_other_commits(ns):
    ns.alter_namespace_properties([], {"owner": "ann"})
    for number in range(40):
        create_namespace(ns, f"n{number}")
    create_table(ns, "t")
    remove_table(ns, "t")
    for number in range(40):
        drop_namespace(ns, f"n{number}")
    assert describe_namespace(ns).properties == {"owner": "ann"}
    create_namespace(ns, "again")
    assert describe_namespace(ns).properties == {"owner": "ann"}
    assert manifest(ns).metadata["owner"] == "ann"


def test_changing_root_properties_keeps_the_rows(ns):
    create_namespace(ns, "a")
    ns.alter_namespace_properties([], {"owner": "ann"})
    assert list_namespaces(ns) == ["a"]
    create_namespace(ns, "b")
    assert list_namespaces(ns) == ["a", "b"]
    assert describe_namespace(ns, "a").properties == {}


@pytest.mark.parametrize(
    "key",
    [
        "table_version_management",
        "lance.namespace.manifest.reader_feature_flags",
        "lance.namespace.manifest.writer_feature_flags",
        "lance.namespace.manifest.deleted",
        "lance.namespace.manifest.anything",
    ],
)
def test_reserved_root_properties_are_refused_and_hidden(ns, key):
    create_namespace(ns, "a")
    before = manifest(ns).version
    for value in ("true", None):
        with fails(13, naming=key):
            ns.alter_namespace_properties([], {"fine": "1", key: value})
    assert manifest(ns).version == before
    assert describe_namespace(ns).properties == {}


def test_version_management_is_not_a_root_property(ns):
    create_namespace(ns, "a")
    manifest(ns).update_metadata({"table_version_management": "false", "k": "v"})
    assert describe_namespace(ns).properties == {"k": "v"}


def test_reserved_root_properties_are_allowed_in_other_namespaces(ns):
    create_namespace(ns, "a", properties={"table_version_management": "x"})
    assert ns.alter_namespace_properties(["a"], {"lance.namespace.manifest.deleted": "true"}) == {
        "table_version_management": "x",
        "lance.namespace.manifest.deleted": "true",
    }
