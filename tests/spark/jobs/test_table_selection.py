"""Selecting the tables of a job."""

from __future__ import annotations

import pytest

from pennon.spark.jobs import table_selection
from pennon.spark.jobs.table_selection import SingleTable, is_selected
from pennon.table_patterns import TablePattern, is_pattern
from tests.support import fails


@pytest.fixture
def full(stock):
    stock.namespace("prod")
    stock.namespace("prod", "eu")
    stock.namespace("empty")
    for names in (("events",), ("odd.name",), ("prod", "events"), ("prod", "users"), ("prod", "eu", "events")):
        stock.create(*names)
    stock.declare("prod", "plan")
    return stock


@pytest.mark.parametrize(
    ("which", "found"),
    [
        (None, ["events", "odd.name", "prod/eu/events", "prod/events", "prod/plan", "prod/users"]),
        ("", ["events", "odd.name", "prod/eu/events", "prod/events", "prod/plan", "prod/users"]),
        ("events", ["events"]),
        (["events"], ["events"]),
        ("prod.events", ["prod/events"]),
        ("prod", ["prod/eu/events", "prod/events", "prod/plan", "prod/users"]),
        (["prod", "eu"], ["prod/eu/events"]),
        ("empty", []),
        ("*", ["events", "odd.name"]),
        ("prod.*", ["prod/events", "prod/plan", "prod/users"]),
        ("prod.**", ["prod/eu/events", "prod/events", "prod/plan", "prod/users"]),
        ("**.events", ["events", "prod/eu/events", "prod/events"]),
        ("**", ["events", "odd.name", "prod/eu/events", "prod/events", "prod/plan", "prod/users"]),
        ("pro?.[eu]*", ["prod/events", "prod/users"]),
        ("prod.*.events", ["prod/eu/events"]),
        ("`odd.name`", ["odd.name"]),
        ("od?.name", []),
        ("nothing.*", []),
    ],
)
def test_selectors_find_tables_by_name_namespace_and_pattern(full, which, found):
    assert ["/".join(one) for one in table_selection.find_tables(full.catalog, which)] == found


def test_unknown_name_raises_not_found(full):
    with fails(4, "'prod.nothing'"):
        table_selection.find_tables(full.catalog, "prod.nothing")
    with fails(4, "'none.`odd.name`'"):
        table_selection.find_tables(full.catalog, ["none", "odd.name"])
    with fails(4, "nothing"):
        table_selection.find_tables(full.catalog, ["nothing"])


def test_single_table_does_not_select_a_namespace(full):
    assert table_selection.find_tables(full.catalog, SingleTable(("prod", "plan"))) == [("prod", "plan")]
    for missing, written in ((("prod",), "'prod'"), (("prod", "none"), "'prod.none'"), (("no", "t"), "'no.t'")):
        with fails(4, written):
            table_selection.find_tables(full.catalog, SingleTable(missing))


@pytest.mark.parametrize(
    "text", ["prod.", ".prod.*", "prod..*", "a***", "x.**y", "`open*", "*`a`", "a.[", "[]", "a[b]["]
)
def test_malformed_pattern_raises_invalid_input(text):
    with fails(13):
        TablePattern.parse(text)


def test_sets_may_contain_brackets():
    for text in ("[]a]", "[[a]", "[!b]"):
        assert TablePattern.parse(text).matches(("a",))


def test_wild_cards_in_backticks_are_literal():
    pattern = TablePattern.parse("`a*`.*")
    assert pattern.matches(("a*", "t"))
    assert not pattern.matches(("ab", "t"))
    assert not is_pattern("`a*`.t")
    assert is_pattern("`a`.t?")
    assert TablePattern.parse("`a``b`").matches(("a`b",))


def test_is_selected_matches_tables_that_are_not_listed():
    assert is_selected(("prod", "t"), None)
    assert is_selected(("prod", "t"), "prod")
    assert is_selected(("prod", "t"), "*.t")
    assert not is_selected(("prod", "t"), "prod.u")
    assert not is_selected(("prod", "t"), ["prod", "t", "u"])
    assert is_selected(("prod", "t"), SingleTable(("prod", "t")))
    assert not is_selected(("prod", "t"), SingleTable(("prod",)))
