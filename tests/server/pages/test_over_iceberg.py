"""Pages over a catalog on an Iceberg REST server: what it has is shown, and what it has not is said."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import pytest
import urllib3

from pennon import IcebergNamespace
from tests.server.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

ORDERS = "/pages/table/sales$orders"


@pytest.fixture(scope="module")
def iceberg_url(site) -> Iterator[str]:
    """Serve a client of the Iceberg protocol of another server."""
    with IcebergNamespace(uri=f"{site.url}/iceberg", managed_by="impl") as client, served(client) as url:
        yield url


def get(url: str, path: str) -> tuple[int, str]:
    answer = urllib3.request("GET", url + path, retries=False, redirect=False, timeout=60.0)
    return answer.status, html.unescape(answer.data.decode())


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/", ">sales</a>"),
        ("/pages/tree/sales", ">eu</a>"),
        ("/pages/namespace/sales", ">orders</a>"),
        ("/pages/search?q=orde", ">sales.orders</a>"),
        ("/pages/search?q=amou&in=columns", "amount: double"),
        ("/pages/search?q=shop&in=properties", "owner = shop-team"),
        ("/pages/health", ">sales.orders</a>"),
        (ORDERS, "id_idx"),
        (f"{ORDERS}?version=2", "You see version 2."),
        (f"{ORDERS}/rows", "Rows 1 to 20 of 203"),
        (f"{ORDERS}/versions", "Version 3"),
        (f"{ORDERS}/compare?before=1&after=5&key=id", "A row of one version is found in the other by id."),
        (f"{ORDERS}/code", "pennon.open("),
        ("/pages/trash", "The server keeps dropped tables itself: restore and purge them there."),
    ],
)
def test_pages_show_what_the_catalog_has(iceberg_url, path, shown):
    status, text = get(iceberg_url, path)
    assert status == 200
    assert shown in text
    assert "/pages/runs" not in text, "a link to a page that only directories have"
    assert "/pages/health/entries" not in text


@pytest.mark.parametrize("path", ["/pages/runs", "/pages/runs/nightly/2026-03-01", "/pages/health/entries"])
def test_pages_of_directories_say_so(iceberg_url, path):
    status, text = get(iceberg_url, path)
    assert status == 406
    assert "This page is only for directory catalogs" in text
