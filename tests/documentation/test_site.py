"""The documentation site: it is built without warnings, and its pages ask no other host for anything."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from playwright.sync_api import sync_playwright

TOP = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")

LOADED_FROM_ELSEWHERE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*\b(?:src|data|srcset)=["']?(?:https?:)?//[^>]*>"""
    r"""|<link\b(?![^>]*rel=["']?canonical)[^>]*href=["']?(?:https?:)?//[^>]*>"""
)
STYLE_FROM_ELSEWHERE = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//""")
LARGE_PAGES = (
    "index",
    "comparison",
    "concepts/lifecycle",
    "guides/cookbook/index",
    "guides/cookbook/tables",
    "guides/command-line",
    "guides/pipelines",
    "migration/lancedb",
    "operations/monitor",
    "performance",
    "reference/commands",
    "reference/errors",
    "reference/operations",
    "reference/python",
    "reference/rest-routes",
    "troubleshooting",
)
DIAGRAMS = {
    "life-of-a-table": "concepts/lifecycle",
    "commit": "concepts/versions",
    "pipeline-run": "guides/pipelines",
}
# Elements that are wider than the window and cannot be scrolled by themselves.
TOO_WIDE = """() => [...document.querySelectorAll('article *')].filter(one => {
    const scrolled = one.closest('pre, .md-typeset__scrollwrap, .highlight, .tabbed-labels');
    return !scrolled && one.getClientRects().length && one.getBoundingClientRect().right > window.innerWidth + 1;
}).map(one => one.outerHTML.slice(0, 200))"""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        """Write nothing to stderr."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site, and return its directory."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=TOP, capture_output=True, text=True, env=environment, check=False)
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    return folder


@pytest.fixture(scope="module")
def address(site):
    """Serve the site, and return its address."""
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    """Start Chromium."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def test_no_page_loads_anything_from_other_hosts(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    foreign = {path.name: found for path in pages if (found := LOADED_FROM_ELSEWHERE.findall(path.read_text()))}
    assert foreign == {}
    assert [path.name for path in site.rglob("*.css") if STYLE_FROM_ELSEWHERE.search(path.read_text())] == []


@needs_browser
def test_pages_fit_a_desktop_and_a_phone_and_ask_no_other_host(address, browser):
    page = browser.new_page()
    requests, faults, too_wide = [], [], {}
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    for path in LARGE_PAGES:
        page.goto(f"{address}/{path}.html", wait_until="load")
        assert page.locator("article h1").first.is_visible(), path
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            if found := page.evaluate(TOO_WIDE):
                too_wide[path, width] = found
    page.close()
    assert too_wide == {}
    assert faults == []
    assert [url for url in requests if not url.startswith((address, "data:", "blob:"))] == []


def test_diagrams_describe_themselves_and_need_nothing_else():
    drawings = sorted((TOP / "docs" / "images").glob("*.svg"))
    assert [path.stem for path in drawings] == sorted(DIAGRAMS)
    for path in drawings:
        root = ET.parse(path).getroot()  # noqa: S314 - our own files
        named = {child.get("id"): child.text for child in root if child.get("id")}
        assert root.get("role") == "img"
        assert all(named[name].strip() for name in root.get("aria-labelledby").split())
        assert re.findall(r"(?:href|src|url)[=(][\"']?(?!#)", path.read_text()) == []


@needs_browser
@pytest.mark.parametrize("name", DIAGRAMS)
def test_diagrams_follow_the_colours_of_the_page(address, browser, name):
    page = browser.new_page(color_scheme="light")
    page.goto(f"{address}/{DIAGRAMS[name]}.html")
    picture = page.locator(f"img[src$='/{name}.svg']")
    assert len(picture.get_attribute("alt")) > 50
    light = picture.screenshot()
    page.get_by_title("Switch to dark mode").click()
    page.locator("body[data-md-color-scheme=slate]").wait_for()
    assert picture.screenshot() != light
    page.close()


@needs_browser
def test_search_finds_a_page_and_navigation_leads_to_it(address, browser):
    page = browser.new_page()
    page.goto(f"{address}/index.html")
    page.locator("input[name=query]").fill("ConcurrentModificationError")
    page.locator(".md-search-result__item").first.wait_for()
    page.goto(f"{address}/index.html")
    page.get_by_role("link", name="Concepts").first.click()
    page.get_by_role("link", name="Glossary").first.click()
    page.wait_for_url("**/glossary.html")
    assert page.locator("article h1").inner_text().startswith("Glossary")
    page.close()
