"""A page of another site, in a real browser whose user has signed in, changes and reads nothing."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from pennon import TableStatus
from pennon.server.access import Access
from tests.server.pages.conftest import make_trash
from tests.server.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "a-token-that-nobody-guesses-0123"
FORGERY = """<!doctype html><title>foreign</title>
<form id="forged" method="post" action="{url}/pages/trash/{action}">
<input name="id" value="sales$prey"><input name="confirmation" value="sales.prey"><input name="force" value="yes">
<input name="form_token" value="{form_token}"></form>
<iframe src="{url}/pages/trash"></iframe>
<script>
const body = new URLSearchParams(new FormData(document.getElementById("forged")));
async function attempt(options) {{
  try {{ return (await fetch("{url}/pages/trash/{action}", options)).type; }} catch {{ return "failed"; }}
}}
async function attack() {{
  const send = {{ method: "POST", body, credentials: "include" }};
  const read = {{ credentials: "include" }};
  return [await attempt({{ ...send, mode: "no-cors" }}), await attempt(send), await attempt(read)];
}}
</script>"""


@contextmanager
def serve_page(content: str) -> Iterator[int]:
    """Serve a page at a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


# Another port is the same site for cookies, so the browser sends the cookie of the session.
@pytest.mark.parametrize(("token", "host"), [(None, "localhost"), (TOKEN, "127.0.0.1")], ids=["open", "same-site"])
def test_a_foreign_page_changes_and_reads_nothing(browser, site, token, host):
    make_trash(site.catalog, "sales", "prey")
    context = browser.new_context()
    with served(site.catalog, Access(token)) as url:
        page = context.new_page()
        page.goto(f"{url}/pages/trash")
        if token is not None:
            page.get_by_label("API key or token").fill(token)
            page.get_by_role("button", name="Sign in").click()
        # Even one who knows the token of the session's forms sends them in vain.
        form_token = page.locator('input[name="form_token"]').first.get_attribute("value")
        for action in ("restore", "purge"):
            with serve_page(FORGERY.format(url=url, action=action, form_token=form_token)) as port:
                page.goto(f"http://{host}:{port}/")
                assert page.evaluate("attack()") == ["failed"] * 3
                # Chromium shows an error of its own instead of a page that must not be framed.
                assert page.frames[1].evaluate("document.querySelector('main')") is None
                with page.expect_navigation():
                    page.evaluate("document.getElementById('forged').submit()")
                assert page.get_by_text("Web pages of other origins are not served").is_visible()
            assert site.catalog.table_status(["sales", "prey"]).status is TableStatus.SOFT_DELETED
        # A link from there still leads to the page, with the session.
        with serve_page(f'<a href="{url}/pages/trash">link</a>') as port:
            page.goto(f"http://{host}:{port}/")
            page.get_by_role("link").click()
            page.get_by_role("button", name="Restore sales.prey").click()
            assert page.get_by_text("sales.prey was restored").is_visible()
    context.close()
    site.catalog.drop_table({"id": ["sales", "prey"], "context": {"purge": "true"}})
