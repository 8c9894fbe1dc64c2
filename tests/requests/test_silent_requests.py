"""Opening asks nothing of the store, and reading writes nothing to it."""

from __future__ import annotations

import contextlib
import os
import pickle
from pathlib import Path

import lance
import obstore
import pytest
from lance.namespace import DirectoryNamespace as ReferenceNamespace
from lance_namespace.errors import LanceNamespaceError
from obstore.store import S3Store

from pennon import DirectoryNamespace, connect
from tests.support import (
    MODES,
    Root,
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_namespace,
    describe_table,
    list_all_tables,
    list_namespaces,
    list_tables,
    namespace_exists,
    table_exists,
)

pytestmark = pytest.mark.s3

READS = {
    "list_tables": list_tables,
    "list_tables without declared": lambda ns: list_tables(ns, include_declared=False),
    "list_tables of a child": lambda ns: list_tables(ns, "n"),
    "list_tables of a missing namespace": lambda ns: list_tables(ns, "missing"),
    "list_all_tables": list_all_tables,
    "list_namespaces": list_namespaces,
    "describe_namespace": lambda ns: describe_namespace(ns, "n"),
    "describe_namespace of the root": describe_namespace,
    "namespace_exists": lambda ns: namespace_exists(ns, "n"),
    "table_exists": lambda ns: table_exists(ns, "t"),
    "table_exists, missing": lambda ns: table_exists(ns, "missing"),
    "table_exists, deregistered": lambda ns: table_exists(ns, "gone"),
    "describe_table": lambda ns: describe_table(ns, "t", load_detailed_metadata=True, check_declared=True),
    "describe_table, declared": lambda ns: describe_table(ns, "d", load_detailed_metadata=True, check_declared=True),
    "describe_table of a child": lambda ns: describe_table(ns, "n", "t", version=1),
    "describe_table, missing version": lambda ns: describe_table(ns, "t", version=99),
    "migrate_to_manifest, dry run": lambda ns: ns.migrate_to_manifest(dry_run=True),
    "migrate_markers, dry run": lambda ns: ns.migrate_markers(dry_run=True),
}


def writing(count):
    return [str(request) for request in count.requests if request.method not in {"GET", "HEAD"}]


def test_constructing_pickling_and_closing_make_no_request(mode, s3, s3_root):
    properties = {**s3_root.properties, **MODES[mode]}

    with s3.count() as count:
        ns = DirectoryNamespace(**properties)
        other = connect("dir", properties)
        copy = pickle.loads(pickle.dumps(ns))
        assert repr(copy) == repr(ns)
        assert ns.namespace_id() == other.namespace_id()
        for opened in (ns, other, copy):
            opened.close()

    assert count.total == 0, count.summary()


@pytest.mark.parametrize("read", READS)
def test_reading_an_empty_root_writes_nothing(read, mode, s3, s3_root, open_namespace):
    ns = open_namespace(s3_root, mode)

    with s3.count() as count, contextlib.suppress(LanceNamespaceError):
        READS[read](ns)

    assert not writing(count)


@pytest.fixture(scope="module")
def filled_root(s3):
    """Return a root with objects for every read operation."""
    root = Root(s3.endpoint.uri("filled"), s3.endpoint.storage_options())
    with DirectoryNamespace(**root.properties) as ns:
        create_namespace(ns, "n")
        create_table(ns, "t")
        create_table(ns, "n", "t")
        declare_table(ns, "d")
        create_table(ns, "gone")
        deregister_table(ns, "gone")
    return root


@pytest.mark.parametrize("read", READS)
def test_reading_a_filled_root_writes_nothing(read, mode, s3, filled_root, open_namespace):
    ns = open_namespace(filled_root, mode)

    with s3.count() as count, contextlib.suppress(LanceNamespaceError):
        READS[read](ns)
        READS[read](ns)

    assert count.total > 0 or mode == "v1"
    assert not writing(count)


@pytest.mark.interop
def test_reading_what_the_reference_client_wrote_writes_nothing(s3, s3_root, open_namespace):
    reference = ReferenceNamespace(**s3_root.properties)
    create_namespace(reference, "n")
    create_table(reference, "t")
    create_table(reference, "n", "t")
    ns = open_namespace(s3_root)

    with s3.count() as count:
        for read in READS.values():
            with contextlib.suppress(LanceNamespaceError):
                read(ns)

    assert not writing(count)


def test_a_manifest_of_more_than_a_thousand_versions_is_still_checked_by_one_request(
    s3, tmp_path, s3_root, open_namespace
):
    # Clients that never clean up leave many versions. Local commits are fast; the copy is measured.
    create_namespace(open_namespace(tmp_path), "n")
    dataset = lance.dataset(tmp_path / "__manifest")
    for number in range(1050):
        dataset.update_metadata({"k": str(number)})
    store = S3Store(s3.endpoint.bucket, config=s3.endpoint.storage_options())
    prefix = s3_root.uri.partition("://")[2].partition("/")[2]
    for folder, _, names in os.walk(tmp_path / "__manifest"):
        for name in names:
            path = Path(folder, name)
            if path.parent.name != "_transactions":
                obstore.put(store, f"{prefix}/{path.relative_to(tmp_path).as_posix()}", path.read_bytes())
    ns = open_namespace(s3_root, "v2")
    namespace_exists(ns, "n")

    with s3.count() as count:
        namespace_exists(ns, "n")

    assert count.total <= 1, count.summary()
