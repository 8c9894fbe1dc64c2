"""An append to a managed table keeps to its budget of dependent requests, and of requests.

The files are uploaded together, the version row is committed, and the manifest is copied to its final name. Everything
else happens after the append has returned. See `test_operation_depth` for how chains are measured.
"""

from __future__ import annotations

import time

import pytest

from pennon.directory.manifest import manifest
from pennon.directory.versions import base_cache
from tests.slow_proxy import SlowProxy, longest_chain
from tests.support import Root, create_table, ipc

pytestmark = pytest.mark.s3

EACH_WAY = 0.02
ATTEMPTS = 5
CASES = {
    #                   depth, requests
    "after another one": (4, 8),
    "after a while": (5, 10),
}
"""After a while, the catalog's manifest is validated first."""


@pytest.fixture(scope="module")
def proxy(s3):
    with SlowProxy(s3.endpoint, delay=0.0) as proxy:
        yield proxy


def insert(ns):
    ns.insert_into_table({"id": ["t"]}, ipc({"x": [1]}))
    return time.monotonic()


def wait_until_finished(ns):
    """Wait until the rows of earlier versions are finished: the requests for that are not counted."""
    deadline = time.monotonic() + 30
    while ns._catalog.finisher._copied:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def record_append(proxy, ns, case, monkeypatch):
    """Return the requests that an append makes before it returns."""
    ns.enable_table_version_management()
    create_table(ns, "t", data=ipc({"x": [0]}))
    insert(ns)
    wait_until_finished(ns)
    if case == "after a while":
        for module in (base_cache, manifest):
            monkeypatch.setattr(module, "_TRUSTED_SECONDS", 0.0)
    else:
        # The rows of this version are finished later, because others were finished just now.
        insert(ns)
    proxy.clear()
    proxy.set_delay(EACH_WAY)
    try:
        returned = insert(ns)
    finally:
        proxy.set_delay(0.0)
    return [request for request in proxy.requests() if request.end <= returned]


@pytest.mark.parametrize("case", list(CASES))
def test_append_to_a_managed_table_keeps_to_its_depth(case, *, proxy, s3_root, open_namespace, monkeypatch):
    depth, number = CASES[case]
    for attempt in range(ATTEMPTS):
        root = Root(f"{s3_root.uri}-{attempt}", proxy.endpoint.storage_options())
        with monkeypatch.context() as patch:
            requests = record_append(proxy, open_namespace(root, "v2"), case, patch)
        if len(longest_chain(requests)) <= depth and len(requests) <= number:
            break

    assert len(longest_chain(requests)) <= depth, "\n".join(map(str, longest_chain(requests)))
    assert len(requests) <= number, "\n".join(map(str, requests))
