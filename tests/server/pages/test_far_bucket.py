"""Pages of a catalog in a bucket that is far away: what does not depend on each other is requested together."""

from __future__ import annotations

import pyarrow as pa
import pytest
import urllib3

from pennon import DirectoryNamespace
from tests.server.served import served
from tests.servers import CountingS3
from tests.slow_proxy import SlowProxy, longest_chain
from tests.support import create_namespace, create_table, ipc

pytestmark = pytest.mark.s3
EACH_WAY = 0.02
ATTEMPTS = 5
# The longest chain of requests of a page. One after the other, 20 versions or tables would take more than 40.
LONGEST = {
    "/": 6,
    "/pages/namespace/n": 20,
    "/pages/table/n$t00": 22,
    "/pages/table/n$t00/rows": 12,
    "/pages/table/n$t00/versions": 22,
    "/pages/table/n$t00/compare": 18,
    "/pages/search?q=t": 6,
    "/pages/search?q=id&in=columns": 16,
    "/pages/search?q=i&in=properties": 12,
    "/pages/health": 16,
    "/pages/trash": 6,
}


@pytest.fixture(scope="module")
def far_site():
    """Return a bucket behind a proxy, with 20 tables. The first one has 20 versions."""
    with CountingS3() as server, SlowProxy(server.endpoint, delay=0.0) as proxy:
        properties = {"dir_listing_enabled": "false", **proxy.endpoint.properties()}
        root = proxy.endpoint.uri("pages-from-afar")
        with DirectoryNamespace(root=root, **properties) as catalog:
            create_namespace(catalog, "n")
            for number in range(20):
                create_table(catalog, "n", f"t{number:02}", data=ipc({"id": [1, 2]}))
            table = catalog.open_dataset(["n", "t00"])
            for number in range(19):
                table.insert(pa.table({"id": [number]}))
        yield proxy, root, properties


@pytest.mark.parametrize("path", LONGEST)
def test_a_page_waits_for_few_requests_in_turn(far_site, path):
    proxy, root, properties = far_site
    chains = []
    for _ in range(ATTEMPTS):
        with DirectoryNamespace(root=root, **properties) as catalog, served(catalog) as url:
            urllib3.request("GET", f"{url}/", timeout=60.0)
            proxy.clear()
            proxy.set_delay(EACH_WAY)
            try:
                answer = urllib3.request("GET", url + path, timeout=60.0)
            finally:
                proxy.set_delay(0.0)
            assert answer.status == 200
            chains.append(longest_chain(proxy.requests()))
        if len(chains[-1]) <= LONGEST[path]:
            break
    shortest = min(chains, key=len)
    assert len(shortest) <= LONGEST[path], "\n".join(map(str, shortest))
