from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pennon import addresses
from pennon.errors import InvalidInputError
from pennon.identifiers import find_name_fault


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("events", ("events",)),
        ("prod.events", ("prod", "events")),
        ("/events", ("events",)),
        ("/my.table", ("my.table",)),
        ("prod/events.v2", ("prod", "events.v2")),
        ("/prod/events.v2", ("prod", "events.v2")),
        ("prod$events.v2", ("prod", "events.v2")),
        ("ein name/日本.語", ("ein name", "日本.語")),
        ('"quoted"', ('"quoted"',)),
    ],
)
def test_address_of_a_table_is_parsed(text, names):
    assert addresses.parse_table(text) == names


@pytest.mark.parametrize("text", [None, "", "/"])
def test_the_root_has_several_spellings(text):
    assert addresses.parse_namespace(text) == ()


def test_trailing_slash_of_a_namespace_is_ignored():
    assert addresses.parse_namespace("prod/raw/") == ("prod", "raw")


@pytest.mark.parametrize(
    "text", ["", "/", ".", "prod.", ".events", "a..b", "a//b", "a/b$c", "a\x1b[31m", "__trash", "../up"]
)
def test_invalid_address_raises_invalid_input(text):
    with pytest.raises(InvalidInputError):
        addresses.parse_table(text)


names = st.text(min_size=1, max_size=8).filter(lambda name: find_name_fault(name, at_root=True) is None)


@given(st.lists(names, min_size=1, max_size=4).map(tuple))
def test_formatted_address_is_parsed_to_the_same_identifier(identifier):
    assert addresses.parse_table(addresses.format_address(identifier)) == identifier
