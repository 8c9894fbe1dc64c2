"""Pages of tags, branches and indexes neither repeat nor lose entries that exist all the time."""

from __future__ import annotations

import pytest

from tests.support import fails
from tests.table.tables import numbers

LISTS = {
    "tags": ("list_table_tags", "tags"),
    "branches": ("list_table_branches", "branches"),
    "indexes": ("list_table_indices", "indexes"),
}
NAMES = ["a", "b", "c", "d", "e"]


def make(ns, kind, name):
    if kind == "tags":
        ns.create_table_tag({"id": ["t"], "tag": name, "version": 1})
    elif kind == "branches":
        ns.create_table_branch({"id": ["t"], "name": name})
    else:
        ns.create_table_index({"id": ["t"], "column": "x", "index_type": "BTREE", "name": name})


def remove(ns, kind, name):
    if kind == "tags":
        ns.delete_table_tag({"id": ["t"], "tag": name})
    elif kind == "branches":
        ns.delete_table_branch({"id": ["t"], "name": name})
    else:
        ns.drop_table_index({"id": ["t"], "index_name": name})


def listed(ns, kind, **options):
    """Return the names of a page, and its token."""
    operation, field = LISTS[kind]
    answer = getattr(ns, operation)({"id": ["t"], **options})
    found = getattr(answer, field)
    return [one.index_name for one in found] if kind == "indexes" else list(found), answer.page_token


@pytest.fixture(params=list(LISTS))
def kind(request):
    return request.param


@pytest.fixture
def ns(ours, kind):
    """Return a namespace whose table `t` has five entries of a kind."""
    numbers(ours)
    for name in NAMES:
        make(ours, kind, name)
    return ours


def test_pages_together_are_the_whole_list(ns, kind):
    whole, end = listed(ns, kind)
    assert whole == NAMES
    assert not end
    for limit in (1, 2, 5, 6, 100):
        found, token = [], None
        while True:
            page, token = listed(ns, kind, limit=limit, page_token=token)
            assert len(page) <= limit
            found += page
            if not token:
                break
            assert len(page) == limit
        assert found == whole


def test_changes_between_pages_do_not_affect_other_entries(ns, kind):
    first, token = listed(ns, kind, limit=2)
    assert first == ["a", "b"]
    remove(ns, kind, "b")
    remove(ns, kind, "d")
    make(ns, kind, "aa")
    make(ns, kind, "cc")
    rest, end = listed(ns, kind, page_token=token)
    assert rest == ["c", "cc", "e"]
    assert not end


def test_a_page_token_may_be_any_name_and_a_page_may_be_empty(ns, kind):
    assert listed(ns, kind, page_token="b") == (["c", "d", "e"], None)
    assert listed(ns, kind, limit=0) == ([], None)


@pytest.mark.parametrize("options", [{"page_token": "p1.%%"}, {"limit": -1}], ids=str)
def test_bad_pages_raise_invalid_input(ns, kind, options):
    with fails(13):
        listed(ns, kind, **options)
