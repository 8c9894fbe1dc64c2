"""Catalogs whose pages are looked at, and a browser. Each worker has one of each."""

from __future__ import annotations

import math
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from playwright.sync_api import sync_playwright

from benchmarks.seeding import write_indexes, write_manifest
from pennon import DirectoryNamespace
from pennon.pipeline_runs.report import CheckReport, RunReport, SourceReport, StepReport, TargetReport
from pennon.pipeline_runs.run_state import RunState
from tests.hostile.test_web_pages import CHROMIUM
from tests.pipeline_runs.runs import record_runs
from tests.server.pages.media_files import make_png, make_wav
from tests.server.served import served
from tests.support import create_namespace, create_table, drop_table, ipc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

SCREENSHOTS = "PENNON_SCREENSHOTS"
"""The variable with the directory of screenshots; `build/screenshots` if it is not set."""
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
TABLES = 100_000


@dataclass
class Site:
    """A served catalog."""

    url: str
    catalog: DirectoryNamespace


@dataclass
class View:
    """A page in the browser, and what went wrong on it."""

    page: Page
    url: str
    faults: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page


def orders(count: int) -> pa.Table:
    rng = random.Random(1)
    return pa.table(
        {
            "id": list(range(count)),
            "customer": [f"c{rng.randrange(300):03}" for _ in range(count)],
            "amount": [round(rng.random() * 200, 2) for _ in range(count)],
        }
    )


def pictures(count: int) -> pa.Table:
    fields = [
        pa.field("id", pa.int64()),
        pa.field("embedding", pa.list_(pa.float32(), 64)),
        pa.field("photo", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        pa.field("sound", pa.binary()),
    ]
    rows = {
        "id": list(range(count)),
        "embedding": [[math.sin(number + place / 6) for place in range(64)] for number in range(count)],
        "photo": [None if number == 3 else make_png(number * 30) for number in range(count)],
        "sound": [make_wav()] * count,
    }
    return pa.table(rows, schema=pa.schema(fields))


def fill(catalog: DirectoryNamespace) -> None:
    """Create namespaces and tables of many kinds."""
    for names in (["sales"], ["sales", "eu"], ["ml"], ["ml", "daily"]):
        create_namespace(catalog, *names)
    create_table(catalog, "sales", "orders", data=ipc(orders(200)), properties={"owner": "shop-team"})
    table = catalog.open_dataset(["sales", "orders"])
    table.insert(orders(205).slice(200))
    table.delete("id IN (7, 8)")
    table.update({"amount": "amount + 1000"}, where="id < 3")
    table.add_columns({"net": "amount * 0.5"})
    catalog.create_table_tag({"id": ["sales", "orders"], "tag": "release", "version": 2})
    catalog.create_table_branch({"id": ["sales", "orders"], "name": "trial", "from_version": 2})
    catalog.create_table_scalar_index({"id": ["sales", "orders"], "column": "id", "index_type": "BTREE"})
    catalog.set_table_protection(["sales", "orders"], True)
    create_table(catalog, "ml", "pictures", data=ipc(pictures(5)))
    create_table(catalog, "sales", "returns")


@dataclass
class HostileSite(Site):
    """A served catalog with hostile content. The names are those of a namespace, and of a table in it."""

    space: str = "'><b onmouseover=alert(3)>"
    name: str = "{{7*7}}\"'><svg onload=alert(4)>\u202eabc"
    column: str = "<i>a</i>"
    text: str = "</td><script>alert(5)</script>\0\u202etxt"
    long: str = "l" * 200


def fill_hostile(catalog: DirectoryNamespace) -> None:
    """Create hostile objects of every kind that a page shows."""
    given = HostileSite("", catalog)
    attack = '"><img src=x onerror=alert(1)><script>alert(2)</script></style><style>*{display:none}</style>'
    properties = {attack: f"javascript:{attack}", "link": "javascript:alert(9)", "long": "l" * 10_000}
    properties |= {"look": "red;background:url(//evil.example/x)", "quotes": "'\"`\\{{config}}{% raw %}"}
    create_namespace(catalog, given.space, properties=properties)
    values = [given.text, given.text + "2"]
    rows = pa.table({"id": [1, 2], given.column: values, "bytes": [b"<html><script>alert(6)</script>", b"\0"]})
    rows = rows.append_column("long", pa.array(["l" * 10_000, attack])).append_column("c" * 10_000, pa.array([1, 2]))
    metadata = {attack: attack}
    fields = [field.with_metadata(metadata) for field in rows.schema]
    rows = rows.cast(pa.schema(fields, metadata))
    create_table(catalog, given.space, given.name, data=ipc(rows), properties=properties)
    table = catalog.open_dataset([given.space, given.name])
    table.insert(rows)
    table.delete("id = 2")
    make_trash(catalog, given.space, f"{given.name}2")
    create_table(catalog, given.long, data=ipc(rows))
    store = catalog.catalog.store
    state = RunState(store, "nightly", "hostile")
    state.begin(attack, {})
    state.finish(make_hostile_report(attack).document())
    cut = RunState(store, "nightly", "cut")
    cut.begin("f", {})
    cut.record(attack.replace("/", ""), {})
    cut.note_error(attack, attack)
    store.put(f"{attack.replace('/', '')}.deleted", attack.encode())


def make_hostile_report(attack: str) -> RunReport:
    """Return a report of which every text is hostile."""
    samples = ({attack: attack, "n": [1, {attack: None}], "r": "\u202e\0", "long": "l" * 100_000},)
    return RunReport(
        attack,
        attack,
        attack,
        attack,
        attack,
        1e300,
        resumed=True,
        sources=(SourceReport(attack, attack, -1, attack), SourceReport("l" * 10_000, "javascript:", 1, "a.b")),
        steps=(
            StepReport("s", staged=True, rows=-(10**30), bytes=10**30, seconds=-1.0, reads=(attack,), tables=("l",)),
        ),
        targets=(TargetReport(attack, attack, 10**30, -1, 1e300, -1, 10**30, source="s"),),
        checks=(CheckReport(attack, attack, attack, passed=False, failing=-1, message=attack, samples=samples),),
    )


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Iterator[Site]:
    """Serve a small catalog that manages versions."""
    root = tmp_path_factory.mktemp("pages")
    with DirectoryNamespace(root=str(root), dir_listing_enabled="false") as catalog:
        catalog.enable_table_version_management()
        fill(catalog)
        record_runs(catalog.catalog.store)
        with served(catalog) as url:
            yield Site(url, catalog)


@pytest.fixture(scope="session")
def hostile_site(tmp_path_factory) -> Iterator[HostileSite]:
    """Serve a catalog whose names, properties, rows and records try to become a part of the page."""
    root = tmp_path_factory.mktemp("hostile")
    with DirectoryNamespace(root=str(root), dir_listing_enabled="false") as catalog:
        catalog.enable_table_version_management()
        fill_hostile(catalog)
        with served(catalog) as url:
            yield HostileSite(url, catalog)


@pytest.fixture(scope="session")
def large_site(tmp_path_factory) -> Iterator[Site]:
    """Serve a catalog with 100,000 tables in a namespace, and as many namespaces. The tables have no files."""
    root = tmp_path_factory.mktemp("large")
    write_manifest(root, 2 * TABLES, nested=True)
    write_indexes(root)
    with DirectoryNamespace(root=str(root), dir_listing_enabled="false") as catalog, served(catalog) as url:
        yield Site(url, catalog)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Chromium."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield started
        started.close()


@pytest.fixture
def view(browser, site) -> Iterator[View]:
    """Open an empty page of the small catalog. At the end there must have been no error, and no foreign request."""
    yield from watch(browser, site.url)


@pytest.fixture
def large_view(browser, large_site) -> Iterator[View]:
    """Open an empty page of the large catalog."""
    yield from watch(browser, large_site.url)


def watch(browser: Browser, url: str, **options) -> Iterator[View]:
    context = browser.new_context(**options)
    context.set_default_timeout(20_000)
    view = View(context.new_page(), url)
    note = view.faults.append
    view.page.on("console", lambda message: note(f"{message.type}: {message.text}") if message.type != "log" else None)
    view.page.on("pageerror", lambda error: note(str(error)))
    view.page.on("dialog", lambda dialog: (note(f"dialog: {dialog.message}"), dialog.dismiss()))
    view.page.on("request", lambda one: None if one.url.startswith(url) else note(f"foreign request: {one.url}"))
    yield view
    context.close()
    assert view.faults == []


def screenshot(page: Page, name: str) -> None:
    """Keep a picture of the page."""
    directory = Path(os.environ.get(SCREENSHOTS, "build/screenshots"))
    directory.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=directory / f"{name}.png", full_page=True)


def make_trash(catalog: DirectoryNamespace, *names: str, **context: str) -> None:
    """Create a table and drop it."""
    create_table(catalog, *names)
    drop_table(catalog, *names, **context)
