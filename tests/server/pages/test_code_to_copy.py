"""The code that the pages offer is copied from a real browser, and runs."""

from __future__ import annotations

import contextlib
import io
from urllib.parse import quote

import duckdb
import pytest

from pennon import DirectoryNamespace
from pennon.server.access import Access
from tests.duckdb_extensions import ExtensionMissingError, load_extension
from tests.server.pages.conftest import View, watch
from tests.server.served import served
from tests.support import create_namespace, create_table, ipc

TOKEN = "a-token-that-nobody-guesses-0123"
PLACES = {
    "plain": ("sales", "orders"),
    "root": ("at_root",),
    "odd": ('it\'s `a` "b"', "x%y {z} <b>'); DROP TABLE t; --"),
    "foreign": ("größe", "日本\u202e語"),
}


CASES = [pytest.param(None, place, id=place) for place in PLACES] + [pytest.param(TOKEN, "plain", id="token")]
for_all_cases = pytest.mark.parametrize(("shop", "place"), CASES, indirect=["shop"])


@pytest.fixture(scope="module")
def shop(request, tmp_path_factory):
    """Serve tables with odd names; return the URL and the token."""
    root = str(tmp_path_factory.mktemp("code"))
    with DirectoryNamespace(root=root) as catalog:
        for names in PLACES.values():
            if len(names) > 1:
                create_namespace(catalog, names[0])
            create_table(catalog, *names, data=ipc({"id": [7, 8], "name": ["seven", "eight"]}))
        with served(catalog, Access(request.param)) as url:
            yield url, request.param


@pytest.fixture
def view(browser, shop):
    """Open an empty page of somebody who may copy, and has signed in if that is needed."""
    url, token = shop
    for view in watch(browser, url, permissions=["clipboard-read", "clipboard-write"]):
        if token is not None:
            page = view.open("/")
            page.get_by_label("API key or token").fill(token)
            page.get_by_role("button", name="Sign in").click()
        yield view


def copy_code(view: View, names: tuple[str, ...], tool: str, token: str | None) -> str:
    """Return the code that the button of a tool copies, with the token in its place."""
    page = view.open(f"/pages/table/{quote('$'.join(names), safe='$')}/code")
    page.get_by_role("button", name=f"Copy the code for {tool}", exact=True).click()
    page.get_by_role("status").filter(has_text="Copied").wait_for(state="attached")
    code = page.evaluate("navigator.clipboard.readText()")
    assert ("..." in code) == (token is not None)
    return code.replace("...", token or "")


@for_all_cases
def test_copied_python_code_shows_the_rows(view, shop, place):
    code = copy_code(view, PLACES[place], "Python", shop[1])
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)  # noqa: S102 - it is what is tested
    names["lake"].close()
    assert printed.getvalue().splitlines()[1].split()[1:] == ["7", "seven"]


@pytest.mark.interop
@for_all_cases
def test_copied_duckdb_code_returns_the_rows(view, shop, place, tmp_path):
    code = copy_code(view, PLACES[place], "DuckDB", shop[1])
    config = {"extension_directory": str(tmp_path / "extensions"), "autoinstall_known_extensions": "false"}
    with duckdb.connect(config=config) as connection:
        try:
            load_extension(connection, "lance")
        except ExtensionMissingError as error:
            pytest.skip(str(error))
        assert connection.execute(code).fetchall() == [(7, "seven"), (8, "eight")]
