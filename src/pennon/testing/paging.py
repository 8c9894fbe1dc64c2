"""Pages of listings: limits, tokens, and changes between two pages."""

from __future__ import annotations

from typing import Any

import pytest
from lance_namespace import ListNamespacesRequest, ListTablesRequest

from pennon.testing.calls import (
    create_namespace,
    create_table,
    declare_table,
    drop_namespace,
    fails,
    list_namespaces,
    list_tables,
    remove_table,
)
from pennon.testing.contract import Contract

KINDS = ["tables", "all tables", "namespaces"]


class Listing:
    """One of the three listings, with the calls that add to it and take from it."""

    def __init__(self, ns: Any, kind: str) -> None:
        self.ns, self.kind = ns, kind

    def page(self, limit: int | None = None, token: str | None = None) -> tuple[list[str], str | None]:
        """Return one page, and the token of the next."""
        if self.kind == "namespaces":
            answer = self.ns.list_namespaces(ListNamespacesRequest(limit=limit, page_token=token))
            return answer.namespaces, answer.page_token
        request = ListTablesRequest(limit=limit, page_token=token)
        answer = (self.ns.list_tables if self.kind == "tables" else self.ns.list_all_tables)(request)
        return answer.tables, answer.page_token

    def add(self, name: str) -> None:
        """Add an entry."""
        (create_namespace if self.kind == "namespaces" else declare_table)(self.ns, name)

    def remove(self, name: str) -> None:
        """Take an entry from the listing."""
        (drop_namespace if self.kind == "namespaces" else remove_table)(self.ns, name)

    def pages(self, limit: int) -> list[list[str]]:
        """Return all pages."""
        found: list[list[str]] = []
        token = None
        while True:
            names, token = self.page(limit, token)
            found.append(names)
            if not token:
                return found


ALL = [f"n{number}" for number in range(7)]


class Paging(Contract):
    """Pages of listings: limits, tokens, and changes between two pages."""

    @pytest.fixture(params=KINDS)
    def listing(self, request: pytest.FixtureRequest, namespace: Any) -> Listing:
        """Return an empty listing of each kind."""
        return Listing(namespace, request.param)

    @pytest.fixture
    def seven(self, listing: Any) -> Any:
        for number in (3, 1, 5, 0, 6, 2, 4):
            listing.add(f"n{number}")
        return listing

    def test_without_a_limit_there_is_one_page(self, seven: Any) -> None:
        assert seven.page() == (ALL, None)

    def test_pages_together_are_the_listing_and_the_last_one_has_no_token(self, seven: Any) -> None:
        for limit in (1, 2, 3, 6, 7, 8, 1000):
            assert seven.pages(limit) == [ALL[start : start + limit] for start in range(0, 7, limit)]

    def test_an_empty_listing_has_no_token(self, listing: Any) -> None:
        assert listing.page(limit=3) == ([], None)

    def test_an_empty_token_is_the_beginning(self, seven: Any) -> None:
        assert seven.page(limit=2, token="")[0] == ALL[:2]

    def test_token_without_a_limit_returns_the_rest(self, seven: Any) -> None:
        _, token = seven.page(limit=3)
        assert seven.page(token=token) == (ALL[3:], None)

    def test_a_token_can_be_used_again(self, seven: Any) -> None:
        _, token = seven.page(limit=3)
        assert seven.page(2, token) == seven.page(2, token)

    def test_limit_zero_returns_an_empty_page(self, seven: Any) -> None:
        assert seven.page(limit=0) == ([], None)
        _, token = seven.page(limit=3)
        assert seven.page(limit=0, token=token) == ([], None)

    def test_a_negative_limit_is_refused(self, seven: Any) -> None:
        for limit in (-1, -(2**40)):
            with fails(13, naming=str(limit)):
                seven.page(limit=limit)

    def test_token_stays_valid_after_its_entry_is_dropped(self, seven: Any) -> None:
        names, token = seven.page(limit=3)
        seven.remove(names[-1])
        assert seven.page(limit=2, token=token)[0] == ["n3", "n4"]

    def test_changes_between_pages_neither_repeat_nor_lose_others(self, seven: Any) -> None:
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

    def test_tokens_hold_any_name(self, listing: Any) -> None:
        odd = sorted(["a b", "a'b", "a%20b", "a?b", "ä", "日本", "🙂", "a+b=", "a.b"])
        for name in odd:
            listing.add(name)
        assert [name for names in listing.pages(1) for name in names] == odd

    def test_pages_of_a_nested_namespace_are_its_own(self, nested: Any) -> None:
        for names in (["a"], ["b"], ["a", "x"], ["a", "y"]):
            create_namespace(nested, *names)
        for name in ("p", "q", "r"):
            create_table(nested, "a", name)
        first = nested.list_tables(ListTablesRequest(id=["a"], limit=2))
        assert first.tables == ["p", "q"]
        assert list_tables(nested, "a", page_token=first.page_token) == ["r"]
        spaces = nested.list_namespaces(ListNamespacesRequest(id=["a"], limit=1))
        assert spaces.namespaces == ["x"]
        assert list_namespaces(nested, "a", limit=1, page_token=spaces.page_token) == ["y"]
