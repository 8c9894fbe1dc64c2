"""On stores that ignore conditional requests, only the purge of a root table is refused."""

from __future__ import annotations

import pytest

from tests.servers import CountingS3
from tests.support import Root, create_namespace, create_table, describe_table, drop_table, fails, ipc, list_tables

pytestmark = pytest.mark.s3

FAULTS = {
    "put-if-absent": [("PUT", "If-None-Match")],
    "compare-and-swap": [("PUT", "If-Match")],
    "conditional deletion": [("DELETE", "If-Match")],
}


@pytest.fixture(scope="module", params=list(FAULTS))
def unsafe(request):
    """Yield the endpoint of a server with one fault, and the name of the fault."""
    with CountingS3(ignoring=FAULTS[request.param]) as server:
        yield server.endpoint, request.param


@pytest.fixture(params=["v1", "compatibility"])
def catalog(request, unsafe, open_namespace):
    endpoint, fault = unsafe
    ns = open_namespace(
        Root(endpoint.uri(f"{request.param}-{request.node.name}"), endpoint.storage_options()), request.param
    )
    create_table(ns, "t", data=ipc({"x": [1, 2]}))
    return ns, fault


def test_root_table_can_be_dropped_and_restored_but_not_purged(catalog):
    ns, fault = catalog
    drop_table(ns, "t", ttl="0")
    with fails(0, naming=fault):
        ns.purge_table(["t"])
    (refused,) = ns.purge_tables().tables
    assert fault in refused.error
    assert list_tables(ns) == []
    ns.undrop_table(["t"])
    assert describe_table(ns, "t", load_detailed_metadata=True).version == 1


def test_drop_with_purge_is_refused_and_drops_nothing(catalog):
    ns, fault = catalog
    with fails(0, naming=fault):
        drop_table(ns, "t", purge="true")
    assert list_tables(ns) == ["t"]


def test_manifest_table_is_purged(unsafe, open_namespace):
    endpoint, _ = unsafe
    ns = open_namespace(Root(endpoint.uri("hashed"), endpoint.storage_options()), "v2")
    create_namespace(ns, "a", mode="exist_ok")
    for names in (["t"], ["a", "t"]):
        create_table(ns, *names)
        drop_table(ns, *names, ttl="0")
    assert [table.error for table in ns.purge_tables().tables] == [None, None]
    assert ns.table_status(["a", "t"]).status == "NotFound"
