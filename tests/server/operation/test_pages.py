"""The size of pages: the server's own limit holds, and no entry is lost."""

from __future__ import annotations

import pytest

from tests.server.operation.conftest import serving

NAMES = [f"n{number}" for number in range(5)]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("pages"), "--max-page-size", "2") as made:
        for name in NAMES:
            assert made.post("/iceberg/v1/namespaces", {"namespace": [name]}).status == 200
        yield made


@pytest.mark.parametrize(
    ("path", "token"),
    [
        ("/iceberg/v1/namespaces?pageSize=1000", "next-page-token"),
        ("/v1/namespace/$/list?limit=1000", "page_token"),
    ],
)
def test_a_page_is_no_larger_than_the_limit(served, path, token):
    parameter = "pageToken" if "pageSize" in path else "page_token"
    pages = [served.get(path).json()]
    while pages[-1].get(token):
        pages.append(served.get(f"{path}&{parameter}={pages[-1][token]}").json())
    sizes = [len(page["namespaces"]) for page in pages]
    assert sizes[:2] == [2, 2]
    names = [name[0] if isinstance(name, list) else name for page in pages for name in page["namespaces"]]
    assert names == NAMES


@pytest.mark.parametrize("path", ["/iceberg/v1/namespaces", "/v1/namespace/$/list"])
def test_clients_that_ask_for_no_pages_get_everything(served, path):
    assert len(served.get(path).json()["namespaces"]) == len(NAMES)


def test_a_page_has_at_least_one_entry(served):
    assert served.get("/iceberg/v1/namespaces?pageSize=0").status == 400
