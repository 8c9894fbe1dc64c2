"""The pages in a real browser."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe

from pennon import TableStatus
from pennon.server.access import Access
from tests.server.pages.conftest import make_trash, screenshot, watch
from tests.server.served import served
from tests.support import list_tables

if TYPE_CHECKING:
    from playwright.sync_api import Page

ORDERS = "/pages/table/sales$orders"
PAGES = {
    "start": "/",
    "namespace": "/pages/namespace/sales",
    "table": ORDERS,
    "old-version": f"{ORDERS}?version=2",
    "rows": "/pages/table/ml$pictures/rows",
    "versions": f"{ORDERS}/versions",
    "compare": f"{ORDERS}/compare?before=3&after=4&key=id",
    "code": f"{ORDERS}/code",
    "search": "/pages/search?q=or",
    "search-columns": "/pages/search?q=amount&in=columns",
    "trash": "/pages/trash",
    "health": "/pages/health",
    "pipelines": "/pages/runs",
    "runs": "/pages/runs/nightly",
    "run": "/pages/runs/nightly/2026-03-01",
    "failed-run": "/pages/runs/nightly/2026-03-02",
    "cut-off-run": "/pages/runs/nightly/2026-03-03",
}
INJECTED = """() => [
  document.scripts.length,
  document.querySelectorAll("main :is(img, iframe, object, embed, base, meta, style, link, i, b, u)").length,
  [...document.querySelectorAll("*")].filter(one => [...one.attributes].some(given =>
    given.name.startsWith("on") || given.value.trim().toLowerCase().startsWith("javascript:"))).length,
]"""
TURNED = """() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const parent = texts.currentNode.parentElement;
    if (!texts.currentNode.data.includes("\u202e") || parent.closest("svg")) continue;
    const style = getComputedStyle(parent);
    const own = parent.textContent === texts.currentNode.data && style.display !== "inline";
    if (!own && !style.unicodeBidi.includes("isolate")) found.push(parent.outerHTML.slice(0, 200));
  }
  return found;
}"""
SERIOUS = {"serious", "critical"}
PAUSE_SECONDS = 3.0
"""More than a page takes on a busy machine, and less than one that reads every table."""


def test_browse_to_a_table(view):
    page = view.open("/")
    page.get_by_role("navigation", name="Namespaces").get_by_role("link", name="sales").click()
    page.get_by_role("main").get_by_role("link", name="orders").click()
    assert page.get_by_role("heading", level=1).inner_text() == "orders"
    main = page.get_by_role("main")
    assert main.get_by_text("protected", exact=True).is_visible()
    assert main.get_by_role("row", name="amount double allowed").is_visible()
    assert main.get_by_role("row", name="owner shop-team").is_visible()
    assert main.get_by_role("row", name="id_idx BTree").is_visible()
    assert main.get_by_role("link", name="release").is_visible()
    assert main.get_by_text("trial").is_visible()
    page.get_by_role("link", name="Versions").click()
    assert page.get_by_role("listitem").filter(has_text="Version 3").get_by_text("203").is_visible()


def test_the_tree_opens_by_keyboard(view):
    page = view.open("/")
    button = page.get_by_role("button", name="Namespaces in ml")
    button.focus()
    page.keyboard.press("Enter")
    tree = page.get_by_role("navigation", name="Namespaces")
    tree.get_by_role("link", name="daily").wait_for()
    assert button.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Enter")
    assert tree.get_by_role("link", name="daily").is_hidden()


def test_a_table_is_restored_by_keyboard_alone(view, site):
    make_trash(site.catalog, "sales", "by_keys")
    page = view.open("/pages/trash")
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.locator(":focus").get_attribute("id") == "main"
    button = page.get_by_role("button", name="Restore sales.by_keys")
    for _ in range(20):
        page.keyboard.press("Tab")
        if button.evaluate("one => one === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.get_by_role("status").filter(has_text="sales.by_keys was restored").wait_for()


def test_vectors_pictures_and_sounds_are_shown(view):
    page = view.open("/pages/table/ml$pictures/rows")
    assert page.get_by_role("img", name="vector of 64 numbers").count() == 5
    photos = page.get_by_role("img", name="image/png")
    assert photos.count() == 4
    for number in range(4):
        photos.nth(number).scroll_into_view_if_needed()
        assert photos.nth(number).evaluate("one => one.decode().then(() => one.naturalWidth)") == 32
    sound = page.locator("audio").first
    seconds = "one => new Promise(done => { one.onloadedmetadata = () => done(one.duration); one.load(); })"
    assert sound.evaluate(f"one => {{ one.preload = 'auto'; return ({seconds})(one); }}") == pytest.approx(0.1)


def test_compare_two_versions(view):
    page = view.open(f"{ORDERS}/compare?before=1&after=5")
    main = page.get_by_role("main")
    assert main.get_by_role("row", name="net does not exist double").is_visible()
    page.get_by_label("Match rows by").select_option("id")
    page.get_by_role("button", name="Compare").click()
    figures = dict(
        zip(page.locator(".facts dt").all_inner_texts(), page.locator(".facts dd").all_inner_texts(), strict=True)
    )
    assert figures == {"Added": "5", "Changed": "3", "Deleted": "2"}
    row = page.get_by_role("region", name="Changed rows").get_by_role("row").nth(1)
    before, after = float(row.locator("del").inner_text()), float(row.locator("ins").inner_text())
    assert after == pytest.approx(before + 1000)


def test_search(view):
    page = view.open("/")
    page.get_by_role("searchbox", name="Search tables and namespaces").fill("Orde")
    page.keyboard.press("Enter")
    page.get_by_role("main").get_by_role("link", name="sales.orders").click()
    assert page.get_by_role("heading", level=1).inner_text() == "orders"
    for subject, text, reason in (("columns", "amou", "amount: double"), ("properties", "SHOP-", "owner = shop-team")):
        page = view.open("/pages/search")
        page.get_by_label("Text").fill(text)
        page.get_by_label("in", exact=True).select_option(subject)
        page.get_by_role("main").get_by_role("button", name="Search").click()
        assert page.get_by_role("listitem").filter(has_text="sales.orders").get_by_text(reason).is_visible()


def test_restore_a_table(view, site):
    make_trash(site.catalog, "sales", "lost")
    make_trash(site.catalog, "sales", "moved", ttl="7d")
    page = view.open("/pages/namespace/sales")
    page.get_by_role("link", name="Tables that were dropped from here").click()
    assert page.get_by_role("row", name="sales.moved").get_by_text("6 d 23 h").is_visible()
    screenshot(page, "trash-full")
    page.get_by_role("button", name="Restore sales.lost").click()
    assert page.get_by_role("status").filter(has_text="sales.lost was restored").is_visible()
    page.get_by_label("Restore sales.moved as").fill("ml.found")
    page.get_by_role("button", name="Restore sales.moved").click()
    page.get_by_role("link", name="ml.found").click()
    assert page.get_by_role("heading", level=1).inner_text() == "found"
    assert {"lost", "orders"} <= set(list_tables(site.catalog, "sales"))
    assert "found" in list_tables(site.catalog, "ml")


def test_purge_a_table_after_confirmation(view, site):
    make_trash(site.catalog, "sales", "gone")
    page = view.open("/pages/trash")
    page.get_by_role("link", name="Purge… sales.gone").click()
    screenshot(page, "purge")
    page.get_by_label("Purge it although").check()
    confirmation = page.get_by_label("Type sales.gone to confirm")
    confirmation.fill("sales.gone")
    page.get_by_role("button", name="Purge").click()
    assert page.get_by_role("status").filter(has_text="sales.gone was purged").is_visible()
    assert site.catalog.table_status(["sales", "gone"]).status is TableStatus.NOT_FOUND


def test_hostile_names_and_data_run_nothing(browser, hostile_site):
    one = hostile_site
    table = quote(f"/pages/table/{one.space}${one.name}")
    for view in watch(browser, one.url):
        page = view.open("/")
        page.get_by_role("main").get_by_role("link", name=one.space).click()
        page.get_by_role("link", name=one.name).click()
        assert page.get_by_role("heading", level=1).inner_text() == one.name
        assert page.get_by_role("cell", name="</td><script>alert(5)</script>").first.is_visible()
        assert page.get_by_role("cell", name="javascript:alert(9)").is_visible()
        paths = [table, *(f"{table}/{part}" for part in ("rows", "versions", "compare", "code"))]
        paths += [f"{table}/compare?before=1&after=2&key=id", f"/pages/table/{one.long}", "/"]
        paths += [quote(f"/pages/namespace/{one.space}"), "/pages/trash"]
        paths += ["/pages/search?q=%22%3E%3Cscript%3Ealert(7)%3C/script%3E&in=properties", "/pages/health"]
        paths += ["/pages/runs", "/pages/runs/nightly", "/pages/runs/nightly/hostile", "/pages/runs/nightly/cut"]
        for path in paths:
            page = view.open(path)
            assert page.get_by_role("heading", level=1).count() == 1, path
            # The page has its own script, and nothing that a name or a value has made.
            assert page.evaluate(INJECTED) == [1, 0, 0], path
            # Marks that turn the direction of text around end with the name that has them.
            assert page.evaluate(TURNED) == [], path
            assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), path
        view.open("/pages/trash")
        assert page.get_by_role("rowheader", name=f"{one.name}2").is_visible()
        view.open("/pages/runs/nightly/hostile")
        assert page.get_by_role("region", name="Failing rows").get_by_text("<script>").first.is_visible()
    # A page of an error, whose message quotes the request.
    context = browser.new_context()
    page = context.new_page()
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto(f"{one.url}/pages/table/%3Cimg%20src=x%20onerror=alert(8)%3E")
    assert page.get_by_text("<img src=x onerror=alert(8)>").is_visible()
    assert dialogs == []
    context.close()


def test_pages_work_without_javascript(browser, site):
    for view in watch(browser, site.url, java_script_enabled=False):
        page = view.open("/")
        page.get_by_role("main").get_by_role("link", name="ml").click()
        page.get_by_role("main").get_by_role("link", name="daily").click()
        assert page.get_by_text("There are no tables here yet").is_visible()
        assert page.get_by_role("button", name="Namespaces in ml").count() == 0


def test_100_000_tables_without_a_pause(large_view):
    times = {}

    def open_page(path: str):
        started = time.monotonic()
        page = large_view.open(path)
        times[path] = time.monotonic() - started
        return page

    page = open_page("/")
    assert page.get_by_role("main").get_by_role("listitem").count() > 0
    open_page("/pages/search?q=warm")  # the first search reads all names
    del times["/pages/search?q=warm"]
    page = open_page("/pages/namespace/ns")
    assert page.get_by_role("main").get_by_role("row").count() == 51
    page.get_by_role("link", name="Next page of tables").click()
    assert page.get_by_role("rowheader", name="t000050").is_visible()
    page = open_page("/pages/search?q=t099")
    assert page.get_by_role("link", name="ns.t099000").is_visible()
    page.get_by_role("link", name="Next page").click()
    assert page.get_by_role("link", name="ns.t099050").is_visible()
    page = open_page("/pages/search?q=x&in=columns")
    assert page.get_by_text("tables are left").is_visible()
    page = open_page("/pages/health")
    assert page.get_by_text("tables are left").is_visible()
    open_page("/pages/trash")
    assert max(times.values()) < PAUSE_SECONDS, times


@pytest.mark.parametrize(
    ("device", "width", "schemes"),
    [("screen", 1280, ("light", "dark")), ("phone", 390, ("dark",))],
    ids=["screen", "phone"],
)
def test_accessibility_and_fit(browser, site, device, width, schemes):
    make_trash(site.catalog, "sales", f"for_{device}")
    problems = {}
    for view in watch(browser, site.url, viewport={"width": width, "height": 800}):
        purge = {"purge": f"/pages/trash/purge?id=sales$for_{device}"}
        for name, path in {**PAGES, **purge}.items():
            problems |= find_problems(view.open(path), f"{name}-{device}", schemes)
    assert problems == {}


def test_accessibility_of_the_search_of_the_root(view):
    page = view.open("/pages/health/entries")
    page.get_by_role("button", name="Search the root").click()
    page.get_by_role("button", name="Search again").wait_for()
    assert find_problems(page, "health-entries-screen") == {}


def test_accessibility_of_signing_in_and_of_errors(browser, site):
    with served(site.catalog, Access("a-token-that-nobody-guesses-0123")) as url:
        for view in watch(browser, url):
            page = view.open("/")
            assert find_problems(page, "sign-in") == {}
            page.get_by_label("API key or token").fill("wrong")
            page.get_by_role("button", name="Sign in").click()
            assert page.get_by_role("alert").inner_text() == "This is not the token of this server."
            assert find_problems(page, "sign-in-refused") == {}
            view.open("/pages/table/sales$nothing")
            page.get_by_label("API key or token").fill("a-token-that-nobody-guesses-0123")
            page.get_by_role("button", name="Sign in").click()
            assert page.get_by_role("heading", name="This did not work").is_visible()
            assert find_problems(page, "error") == {}
            # Browsers note the status of each answer that is an error.
            assert [one for one in view.faults if "status of 40" not in one] == []
            view.faults.clear()


def find_problems(page: Page, name: str, schemes: tuple[str, ...] = ("light", "dark")) -> dict[str, object]:
    """Return what axe finds serious on a page in each scheme of colours, and whether it is wider than the window."""
    problems: dict[str, object] = {}
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        screenshot(page, f"{name}-{scheme}")
        # The schemes differ in nothing but colours.
        options = {} if scheme == schemes[0] else {"runOnly": ["color-contrast"]}
        found = Axe().run(page, options=options).response["violations"]
        serious = [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in SERIOUS]
        if serious:
            problems[f"{name}-{scheme}"] = serious
    if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        problems[f"{name} (width)"] = page.evaluate("document.documentElement.scrollWidth")
    return problems


def test_the_pictures_of_the_readme_are_of_pages_that_exist(browser, tmp_path):
    root = Path(__file__).parents[3]
    command = [sys.executable, root / "scripts" / "page-pictures", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    names = sorted(one.name for one in tmp_path.iterdir())
    assert len(names) == 3
    readme = (root / "README.md").read_text()
    shown = re.findall(r"!\[[^\]]{20,}\]\(docs/images/(pages-.*?\.png)\)", readme)
    assert sorted(shown) == names
    assert all((root / "docs" / "images" / one).stat().st_size < 150_000 for one in names)
