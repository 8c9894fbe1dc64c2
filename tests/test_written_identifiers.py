"""Identifiers as people write them: dots between names, backticks around odd ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pennon.identifiers import find_name_fault, format_identifier, format_object_id, parse_identifier, quote_identifier
from tests.support import fails

names = st.text(min_size=1, max_size=12).filter(lambda name: find_name_fault(name, at_root=True) is None)


@given(st.lists(names, max_size=4))
def test_quoted_identifier_is_parsed_to_the_same_identifier(identifier):
    assert parse_identifier(quote_identifier(tuple(identifier))) == tuple(identifier)


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("", ()),
        ("t", ("t",)),
        ("prod.events", ("prod", "events")),
        ("`a.b`.t", ("a.b", "t")),
        ("`a``b`", ("a`b",)),
        ("with space.ü", ("with space", "ü")),
        ("a-b.c_d.7", ("a-b", "c_d", "7")),
    ],
)
def test_identifiers_are_parsed(text, identifier):
    assert parse_identifier(text) == identifier


@pytest.mark.parametrize("text", [".", "a.", ".a", "a..b", "`a", "a`b`", "`a`b", "``", "a$b", "a/b", "__x", "`..`"])
def test_invalid_identifiers_raise_invalid_input(text):
    with fails(13):
        parse_identifier(text)


def test_messages_show_identifiers_as_people_write_them():
    assert format_identifier(("prod", "events")) == "'prod.events'"
    assert format_identifier(("prod", "odd.name")) == "'prod.`odd.name`'"
    assert format_object_id("prod$events") == "'prod.events'"
    assert format_identifier(()) == format_object_id("") == "the root namespace"
