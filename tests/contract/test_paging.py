"""Pages of listings: limits, tokens, and changes between two pages."""

from __future__ import annotations

import pytest

from tests.support import create_namespace, create_table, declare_table, drop_namespace, fails, remove_table

KINDS = ["tables", "all tables", "namespaces"]


class Listing:
    """One of the three listings, with the calls that add to it and take from it."""

    def __init__(self, ns, kind):
        self.ns, self.kind = ns, kind

    def page(self, limit=None, token=None):
        request = {"limit": limit, "page_token": token}
        if self.kind == "namespaces":
            answer = self.ns.list_namespaces(request)
            return answer.namespaces, answer.page_token
        answer = (self.ns.list_tables if self.kind == "tables" else self.ns.list_all_tables)(request)
        return answer.tables, answer.page_token

    def add(self, name):
        (create_namespace if self.kind == "namespaces" else declare_table)(self.ns, name)

    def remove(self, name):
        (drop_namespace if self.kind == "namespaces" else remove_table)(self.ns, name)

    def pages(self, limit):
        found, token = [], None
        while True:
            names, token = self.page(limit, token)
            found.append(names)
            if not token:
                return found


@pytest.fixture(
    params=[*(("v1", kind) for kind in KINDS[:2]), *((m, k) for m in ("v2", "compatibility") for k in KINDS)],
    ids="-".join,
)
def listing(request, root, open_namespace):
    mode, kind = request.param
    return Listing(open_namespace(root, mode), kind)


@pytest.fixture
def seven(listing):
    for number in (3, 1, 5, 0, 6, 2, 4):
        listing.add(f"n{number}")
    return listing


ALL = [f"n{number}" for number in range(7)]


def test_without_a_limit_there_is_one_page(seven):
    assert seven.page() == (ALL, None)


def test_pages_together_are_the_listing_and_the_last_one_has_no_token(seven):
    for limit in (1, 2, 3, 6, 7, 8, 1000):
        assert seven.pages(limit) == [ALL[start : start + limit] for start in range(0, 7, limit)]


def test_an_empty_listing_has_no_token(listing):
    assert listing.page(limit=3) == ([], None)


def test_an_empty_token_is_the_beginning(seven):
    assert seven.page(limit=2, token="")[0] == ALL[:2]


def test_token_without_a_limit_returns_the_rest(seven):
    _, token = seven.page(limit=3)
    assert seven.page(token=token) == (ALL[3:], None)


def test_a_token_can_be_used_again(seven):
    _, token = seven.page(limit=3)
    assert seven.page(2, token) == seven.page(2, token)


def test_limit_zero_returns_an_empty_page(seven):
    assert seven.page(limit=0) == ([], None)
    _, token = seven.page(limit=3)
    assert seven.page(limit=0, token=token) == ([], None)


def test_a_negative_limit_is_refused(seven):
    for limit in (-1, -(2**40)):
        with fails(13, naming=str(limit)):
            seven.page(limit=limit)


def test_invalid_token_is_rejected(seven):
    for token in ("p1.%%%", "p1.é", "p1.gICA", "p1."):
        with fails(13, naming=token):
            seven.page(limit=2, token=token)


def test_the_plain_last_name_is_a_token(seven):
    assert seven.page(limit=2, token="n3")[0] == ["n4", "n5"]
    assert seven.page(token="n3") == (ALL[4:], None)
    seven.remove("n3")
    assert seven.page(limit=2, token="n3")[0] == ["n4", "n5"]
    assert seven.page(limit=1, token="a")[0] == ["n0"]
    assert seven.page(limit=1, token="n6") == seven.page(token="z") == ([], None)


def test_token_stays_valid_after_its_entry_is_dropped(seven):
    names, token = seven.page(limit=3)
    seven.remove(names[-1])
    assert seven.page(limit=2, token=token)[0] == ["n3", "n4"]


def test_changes_between_pages_neither_repeat_nor_lose_others(seven):
    first, token = seven.page(limit=3)
    for name in ("n0", "n2", "n5"):
        seven.remove(name)
    for name in ("a", "n1b", "n3b", "z"):
        seven.add(name)
    rest = []
    while token:
        names, token = seven.page(limit=2, token=token)
        rest += names
    assert first == ["n0", "n1", "n2"]
    assert rest == ["n3", "n3b", "n4", "n6", "z"]


def test_tokens_hold_any_name(listing):
    odd = sorted(["a b", "a'b", "a%20b", "a?b", "ä", "日本", "🙂", "a+b=", "a.b"])
    for name in odd:
        listing.add(name)
    assert [name for names in listing.pages(1) for name in names] == odd


def test_tokens_are_valid_for_other_clients(root, mode, open_namespace):
    ns, other = open_namespace(root, mode), open_namespace(root, mode)
    for number in range(4):
        create_table(ns, f"t{number}")
    token = ns.list_tables({"limit": 2}).page_token
    assert other.list_tables({"page_token": token}).tables == ["t2", "t3"]


def test_pages_of_a_nested_namespace_are_its_own(nested):
    for names in (["a"], ["b"], ["a", "x"], ["a", "y"]):
        create_namespace(nested, *names)
    for name in ("p", "q", "r"):
        create_table(nested, "a", name)
    first = nested.list_tables({"id": ["a"], "limit": 2})
    assert first.tables == ["p", "q"]
    assert nested.list_tables({"id": ["a"], "page_token": first.page_token}).tables == ["r"]
    spaces = nested.list_namespaces({"id": ["a"], "limit": 1})
    assert spaces.namespaces == ["x"]
    assert nested.list_namespaces({"id": ["a"], "limit": 1, "page_token": spaces.page_token}).namespaces == ["y"]
