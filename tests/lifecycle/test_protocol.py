"""Every interleaving of purge, undrop and re-creation keeps its promises, and each rule is needed for that."""

from __future__ import annotations

import pytest
from protocol_model import explore, start

CASTS = [
    ("purge", "create"),
    ("purge", "undrop"),
    ("create", "undrop"),
    ("create", "create"),
    ("purge", "purge"),
    ("purge", "create", "undrop"),
    ("purge", "purge", "create"),
    ("create", "create", "undrop"),
]


@pytest.mark.parametrize("cast", CASTS, ids=" ".join)
def test_no_interleaving_breaks_a_promise(cast):
    states, faults = explore(start(*cast))

    assert states > 50
    assert faults == []


@pytest.mark.parametrize(
    ("rule", "cast"),
    [
        ("fence", ("purge", "purge", "create")),
        ("strict", ("create", "undrop")),
        ("burn", ("create", "undrop")),
    ],
)
def test_without_a_rule_some_interleaving_does(rule, cast):
    _, faults = explore(start(*cast), frozenset({rule}))

    assert faults
