"""Which tables a job is for."""

from __future__ import annotations

import pytest

from pennon.spark.jobs import targets
from pennon.spark.jobs.targets import Pattern, chosen, is_pattern
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
def test_names_namespaces_and_patterns(full, which, found):
    assert ["/".join(one) for one in targets.find(full.catalog, which)] == found


def test_a_name_that_means_nothing_is_an_error(full):
    with fails(4, "prod$nothing"):
        targets.find(full.catalog, "prod.nothing")
    with fails(4, "nothing"):
        targets.find(full.catalog, ["nothing"])


@pytest.mark.parametrize("text", ["prod.", ".prod.*", "prod..*", "a***", "x.**y", "`open*", "*`a`"])
def test_bad_patterns_are_refused(text):
    with fails(13):
        Pattern.of(text)


def test_names_in_backticks_mean_themselves():
    pattern = Pattern.of("`a*`.*")
    assert pattern.matches(("a*", "t"))
    assert not pattern.matches(("ab", "t"))
    assert not is_pattern("`a*`.t")
    assert is_pattern("`a`.t?")
    assert Pattern.of("`a``b`").matches(("a`b",))


def test_tables_that_the_catalog_does_not_list_can_be_chosen():
    assert chosen(("prod", "t"), None)
    assert chosen(("prod", "t"), "prod")
    assert chosen(("prod", "t"), "*.t")
    assert not chosen(("prod", "t"), "prod.u")
    assert not chosen(("prod", "t"), ["prod", "t", "u"])
