"""A page of another origin, in a real browser, cannot change or read a catalog that this machine serves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
import urllib3

from pennon import DirectoryNamespace
from tests.hostile.served import Client, facade, table_path
from tests.support import create_namespace, create_table, list_tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
)

# A page uses `no-cors` to avoid a preflight. A Blob without a type sends no Content-Type.
PAGE = """<!doctype html><title>page</title><script>
(async () => {
  const outcomes = [];
  for (const [method, url, body] of %s) {
    const options = {method, mode: "no-cors"};
    if (body !== null) options.body = new Blob([JSON.stringify(body)]);
    try { await fetch(url, options); outcomes.push("sent"); } catch (error) { outcomes.push(String(error)); }
  }
  await fetch("/report", {method: "POST", body: JSON.stringify(outcomes)});
})();
</script>"""


class Site:
    """A web site with one page, which reports when it is done."""

    def __init__(self, requests: list[tuple[str, str, object]]) -> None:
        self.outcomes: list[str] | None = None
        self.done = threading.Event()
        content, site = (PAGE % json.dumps(requests)).encode(), self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args) -> None:
                pass

            def do_GET(self) -> None:
                self._answer(content if self.path == "/" else b"")

            def do_POST(self) -> None:
                site.outcomes = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(b"")
                site.done.set()

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port

    @contextmanager
    def serving(self) -> Iterator[None]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def visit(url: str, site: Site, directory: Path) -> list[str]:
    """Load a page in Chromium, and return the results of its requests."""
    directory.mkdir()
    command = [CHROMIUM, *OPTIONS, f"--user-data-dir={directory}/profile", url]
    with (directory / "log").open("wb") as log:
        browser = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "HOME": str(directory), "XDG_RUNTIME_DIR": str(directory)},
            start_new_session=True,
        )
    try:
        assert site.done.wait(120), (directory / "log").read_text(errors="replace")[-2000:]
    finally:
        os.killpg(browser.pid, 9)
        browser.wait()
    return site.outcomes


@pytest.fixture
def served(tmp_path):
    with (
        facade(tmp_path / "server", managed=True, arguments=("--log-requests",)) as server,
        DirectoryNamespace(root=str(server.root)) as catalog,
    ):
        create_namespace(catalog, "a")
        create_table(catalog, "a", "t")
        catalog._open_table(("a", "t")).delete("x = 1")
        yield server, catalog


@needs_browser
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"], ids=["same-site", "cross-site"])
def test_a_page_of_another_origin_changes_nothing(served, tmp_path, host):
    server, catalog = served
    table = Client(server.uri).get(table_path("a", "t")).body["metadata"]
    versions = [one["snapshot-id"] for one in table["snapshots"]]
    base = f"{server.uri}/v1"
    renamed = {"source": {"namespace": ["a"], "name": "t"}, "destination": {"namespace": ["a"], "name": "stolen"}}
    removal = {"requirements": [], "updates": [{"action": "remove-snapshots", "snapshot-ids": versions[:1]}]}
    requests = [
        ("POST", f"{base}/namespaces/a/tables/t", removal),
        ("POST", f"{base}/tables/rename", renamed),
        ("POST", f"{base}/namespaces", {"namespace": ["sneaked"]}),
        ("GET", f"{base}/namespaces", None),
    ]
    site = Site(requests)
    with site.serving():
        outcomes = visit(f"http://{host}:{site.port}/", site, tmp_path / "browser")
    assert outcomes == ["sent"] * 4, "the page could not even send its requests"
    assert list_tables(catalog, "a") == ["t"]
    assert catalog.list_namespaces({"id": []}).namespaces == ["a"]
    after = Client(server.uri).get(table_path("a", "t")).body["metadata"]
    assert [one["snapshot-id"] for one in after["snapshots"]] == versions
    log = (tmp_path / "server" / "log").read_text()
    for method, path in (("POST", "/namespaces/a/tables/t"), ("POST", "/tables/rename"), ("POST", "/namespaces")):
        assert f"{method} /iceberg/v1{path} 403" in log
    assert "GET /iceberg/v1/namespaces 403" in log


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "https://{host}"},
        {"Origin": "http://{host}", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "Cross-Site"},
        {"Sec-Fetch-Site": "something-new"},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_headers_of_a_foreign_page_are_refused(local, headers, method):
    host = local.uri.split("/")[2]
    told = {name: value.replace("{host}", host) for name, value in headers.items()}
    body = {"namespace": ["x"]} if method == "POST" else None
    answer = Client(local.uri, **told).call(method, "/namespaces", body)
    assert answer.error == (403, "ForbiddenException")
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [{}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin", "Origin": "{origin}"}, {"Origin": "{origin}"}],
    ids=str,
)
def test_a_page_of_the_server_itself_is_let_in(local, headers):
    told = {name: value.replace("{origin}", local.uri.removesuffix("/iceberg")) for name, value in headers.items()}
    assert Client(local.uri, **told).get("/namespaces").status == 200


def test_a_foreign_page_is_refused_with_a_token_too(tmp_path):
    token = "a-token-that-nobody-guesses-0123"
    with facade(tmp_path, managed=False, environment={"PENNON_SERVER_TOKEN": token}) as server:
        proof = {"Authorization": f"Bearer {token}"}
        assert Client(server.uri, **proof).get("/namespaces").status == 200
        for foreign in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            answer = Client(server.uri, **proof, **foreign).get("/namespaces")
            assert answer.error == (403, "ForbiddenException")


def test_a_body_without_a_type_is_refused(local):
    body = json.dumps({"namespace": ["sneaked"]}).encode()
    for headers in ({}, {"Content-Type": ""}, {"Content-Type": " "}):
        answer = urllib3.request(
            "POST", f"{local.uri}/v1/namespaces", body=body, headers=headers, retries=False, timeout=60.0
        )
        assert (answer.status, json.loads(answer.data)["error"]["type"]) == (415, "BadRequestException")
    assert Client(local.uri).get("/namespaces").body["namespaces"] == []


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Serve an empty catalog to this machine."""
    with facade(tmp_path_factory.mktemp("local"), managed=False) as server:
        yield server
