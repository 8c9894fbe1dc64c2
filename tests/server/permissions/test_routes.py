"""Every route has a rule, and the server keeps its own credentials to itself."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import urllib3

from pennon import DirectoryNamespace
from pennon.errors import PermissionDeniedError
from pennon.server import app as application
from pennon.server import running
from pennon.server.access import Access
from pennon.server.iceberg.routes import ENDPOINTS
from pennon.server.lance.extensions import EXTENSIONS
from pennon.server.lance.operations import OPERATIONS
from pennon.server.lance.streams import STREAM
from pennon.server.pages.paths import is_page
from pennon.server.pages.routes import PAGES
from tests.iceberg.irc_servers import facade
from tests.server.http_client import Client, LanceClient
from tests.server.permissions.test_matrix import ICEBERG, LANCE
from tests.server.served import served
from tests.support import create_namespace, create_table

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN = {"/health", "/ready", "/healthz", "/readyz", "/livez", "/metrics", "/iceberg/v1/config", "/v1/pennon"}
"""Routes that say nothing about objects."""


class Nobody:
    """A guard that allows nothing, and counts who asked."""

    def __init__(self):
        self.asked = 0

    def require(self, *_, **__):
        self.asked += 1
        raise PermissionDeniedError("nobody may do anything")

    def visible(self, *_, **__):
        return []


@contextlib.contextmanager
def serving(app) -> Iterator[str]:
    """Serve an application in a thread."""
    taken = running.listening("127.0.0.1", 0)
    with taken:
        server = running.server(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            yield running.address(taken)
        finally:
            server.should_exit = True
            thread.join()


def walk(routes, prefix: str = "") -> Iterator[tuple[str, set[str]]]:
    """Yield the path and the methods of each route, also of those in routers."""
    for route in routes:
        if hasattr(route, "original_router"):
            yield from walk(route.original_router.routes, prefix + route.include_context.prefix)
        else:
            yield prefix + route.path, route.methods


def test_no_route_does_anything_without_a_right(tmp_path):
    guard, checked = Nobody(), 0
    cases = {case.name: case.body for case in reversed(LANCE)}
    bodies = {("POST", f"/v1{one.path}"): cases.get(one.id) for one in (*OPERATIONS, *EXTENSIONS)}
    bodies |= {(method, f"/iceberg/v1{_template(path)}"): body for method, path, body, _ in reversed(ICEBERG)}
    with DirectoryNamespace(root=str(tmp_path)) as namespace:
        app = application.build(namespace, Access(), catalog=namespace.catalog, guard=guard)
        with serving(app) as url:
            for template, methods in walk(app.routes):
                if template in OPEN or is_page(template):
                    continue
                path = template.replace("{namespace}", "m").replace("{table}", "t")
                path = path.replace("{id}", "m%24t").replace("{index_name}", "i")
                for method in sorted(methods - ({"HEAD"} if "GET" in methods else set())):
                    body = bodies.get((method, template), {}) if method == "POST" else None
                    is_lance = template.startswith("/v1/")
                    client = LanceClient(url) if is_lance else Client(url + application.ICEBERG)
                    before = guard.asked
                    answer = client.call(method, path.partition("/v1")[2], body)
                    assert answer.status == 403, (method, template, answer)
                    assert guard.asked == before + 1, (method, template)
                    checked += 1
    assert checked >= len(OPERATIONS) + len(EXTENSIONS) + len(ENDPOINTS) - 3


def test_no_page_is_shown_without_a_right(tmp_path):
    guard = Nobody()
    with DirectoryNamespace(root=str(tmp_path)) as namespace, served(namespace, guard=guard) as url:
        for page in PAGES:
            before = guard.asked
            path = page.path.replace("{id}", "m$t").replace("{pipeline}", "p").replace("{run}", "r")
            kind = {"Content-Type": "application/x-www-form-urlencoded"} if page.changes else {}
            body = "id=m%24t" if page.changes else None
            query = "" if page.changes or "{id}" in page.path else "?id=m%24t"
            answer = urllib3.request(
                page.method, url + path + query, body=body, headers=kind, retries=False, timeout=60.0
            )
            assert answer.status == 403, page.id
            assert answer.headers["content-type"].startswith("text/html")
            assert guard.asked == before + 1, page.id


def _template(path: str) -> str:
    for written, name in (("%1F{space}", ""), ("{table}", "{table}"), ("%7Btable%7D", "{table}")):
        path = path.replace(written, name)
    path = path.partition("?")[0].replace("%1F%7Bspace%7D", "")
    return path.replace("/namespaces/m", "/namespaces/{namespace}")


@pytest.mark.parametrize("vend", [True, False])
def test_the_server_keeps_its_own_credentials(tmp_path, vend):
    secret = "a-secret-of-the-server"
    properties = {"storage.aws_secret_access_key": secret, "vend_input_storage_options": "true"}
    with facade(tmp_path, managed=True, bucket=properties) as server:
        with DirectoryNamespace(root=str(server.root)) as catalog:
            create_namespace(catalog, "s")
            create_table(catalog, "s", "t")
        client = LanceClient(server.lance)
        answers = [
            client.call("POST", "/table/s%24t/describe", {"vend_credentials": vend}),
            client.call("POST", "/table/s%24new/declare", {"vend_credentials": vend}),
        ]
        assert [one.status for one in answers] == [200, 200]
        assert secret not in json.dumps([one.body for one in answers])
        assert all(not one.body.get("storage_options") for one in answers)


@pytest.mark.parametrize(("user", "status"), [("nobody", 404), ("reader", 403)])
@pytest.mark.parametrize("operation", ["create", "insert", "merge_insert"])
def test_rows_are_refused_before_they_are_sent(secured, operation, user, status):
    client = secured.lance[user]
    address = urlsplit(client._base)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
    with contextlib.closing(connection):
        connection.putrequest("POST", f"{address.path}/table/m%24t/{operation}?on=x")
        for name, value in {**client._headers, "Content-Type": STREAM, "Content-Length": str(1 << 30)}.items():
            connection.putheader(name, value)
        # The body is announced, and not sent.
        connection.endheaders()
        assert connection.getresponse().status == status
