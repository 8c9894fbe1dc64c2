"""Identifiers as people write them: dots between names, backticks around odd ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import fails

from pennon.identifiers import name_fault, parsed, written

names = st.text(min_size=1, max_size=12).filter(lambda name: name_fault(name, at_root=True) is None)


@given(st.lists(names, max_size=4))
def test_what_is_written_is_read_back(identifier):
    assert parsed(written(tuple(identifier))) == tuple(identifier)


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
def test_texts_and_what_they_mean(text, identifier):
    assert parsed(text) == identifier


@pytest.mark.parametrize("text", [".", "a.", ".a", "a..b", "`a", "a`b`", "`a`b", "``", "a$b", "a/b", "__x", "`..`"])
def test_texts_that_mean_nothing_are_refused(text):
    with fails(13):
        parsed(text)
