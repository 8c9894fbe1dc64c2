"""Every interleaving of actors on a root table keeps the guarantees, and each rule of the protocol is necessary.

The model is in `protocol_model.py`. Crashes need no separate tests: some interleavings contain an actor that never
moves again.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from tests.lifecycle.protocol_model import DROPPED, FREE, LIVE, RULES, explore, start

KINDS = ("drop", "purge", "undrop", "create", "append", "aside")
HIDDEN = "a live table is hidden by its inner marker"
OTHER = "a live table has other contents"
GONE = "files of a live table are gone"
DELETED = "a version of a live table was deleted"
NOT_THERE = "a restore was acknowledged without a dropped table"


def _casts(number):
    """Return all sets of `number` actors that can change the table.

    A live table needs an actor that drops it, and a free name needs one that creates it.
    """
    needed = {LIVE: "drop", FREE: "create", DROPPED: ""}
    return [
        (life, *cast)
        for life, kind in needed.items()
        for cast in combinations_with_replacement(KINDS, number)
        if not kind or kind in cast
    ]


# The most different sets of three, each in the order of KINDS. Only `make soak` runs the others.
OF_THREE = [
    (LIVE, "drop", "drop", "purge"),
    (LIVE, "drop", "purge", "undrop"),
    (LIVE, "drop", "purge", "create"),
    (LIVE, "drop", "purge", "append"),
    (LIVE, "drop", "undrop", "create"),
    (LIVE, "drop", "undrop", "append"),
    (LIVE, "drop", "create", "create"),
    (LIVE, "drop", "create", "append"),
    (LIVE, "drop", "append", "append"),
    (FREE, "drop", "purge", "create"),
    (FREE, "drop", "undrop", "create"),
    (FREE, "purge", "create", "append"),
    (DROPPED, "undrop", "create", "append"),
    (DROPPED, "undrop", "create", "create"),
    (DROPPED, "purge", "undrop", "create"),
    (DROPPED, "purge", "purge", "create"),
    (DROPPED, "undrop", "append", "aside"),
    (DROPPED, "undrop", "create", "aside"),
    (DROPPED, "purge", "create", "aside"),
    (LIVE, "drop", "undrop", "aside"),
    (LIVE, "drop", "create", "aside"),
]
OF_FOUR = [
    (LIVE, "drop", "drop", "purge", "undrop"),
    (LIVE, "drop", "drop", "undrop", "undrop"),
    (LIVE, "drop", "drop", "purge", "create"),
    (LIVE, "drop", "purge", "create", "undrop"),
    (LIVE, "drop", "purge", "create", "append"),
    (LIVE, "drop", "undrop", "create", "append"),
    (DROPPED, "create", "create", "append", "undrop"),
]


assert set(OF_THREE) <= set(_casts(3))


def _format_cast(value):
    return " ".join(value) if isinstance(value, tuple) else None


@pytest.mark.parametrize("cast", [*_casts(2), *OF_THREE], ids=_format_cast)
def test_no_interleaving_breaks_a_guarantee(cast):
    found = explore(start(*cast))

    assert found.states > 5
    assert found.faults == [], "\n".join(found.trace)


@pytest.mark.soak
@pytest.mark.parametrize("cast", [*(cast for cast in _casts(3) if cast not in OF_THREE), *OF_FOUR], ids=_format_cast)
def test_no_longer_interleaving_breaks_a_guarantee(cast):
    found = explore(start(*cast))

    assert found.states > 5
    assert found.faults == [], "\n".join(found.trace)


WITHOUT = [
    ("guard", (DROPPED, "purge", "undrop"), NOT_THERE),
    ("A", (FREE, "create", "drop", "purge"), DELETED),
    ("B", (DROPPED, "purge", "purge", "create"), GONE),
    ("C", (DROPPED, "purge", "purge", "create"), GONE),
    ("D", (DROPPED, "create", "create"), OTHER),
    ("E", (DROPPED, "create", "undrop"), OTHER),
    ("G", (LIVE, "create", "purge"), DELETED),
    ("H", (DROPPED, "create", "create", "undrop"), OTHER),
    ("settle", (DROPPED, "purge", "create"), "no client can settle the marker"),
    ("look", (LIVE, "drop", "drop", "purge"), "a drop was acknowledged without a table"),
    ("empty", (LIVE, "drop", "drop", "purge", "undrop"), NOT_THERE),
    ("own", (FREE, "create", "purge"), GONE),
    ("leftovers", (FREE, "create", "purge", "purge"), GONE),
    ("inside", (LIVE, "drop", "undrop"), HIDDEN),
    ("deregistered", (LIVE, "drop", "drop", "undrop", "undrop"), HIDDEN),
    ("appended", (DROPPED, "create", "append", "undrop"), OTHER),
    ("same", (DROPPED, "append", "aside"), "a table was set aside without its contents"),
    ("renew", (DROPPED, "create", "aside"), "other contents than those of the dropped table were set aside"),
    ("intact", (DROPPED, "purge", "aside"), "the only copy of a dropped table was deleted"),
]


@pytest.mark.parametrize(("rule", "cast", "fault"), WITHOUT, ids=_format_cast)
def test_without_a_rule_some_interleaving_breaks_a_guarantee(rule, cast, fault):
    found = explore(start(*cast), frozenset({rule}), until=fault)

    assert fault in found.faults


def test_every_rule_has_a_counterexample():
    assert [rule for rule, _, _ in WITHOUT] == list(RULES)


def test_only_late_commits_on_purged_versions_are_not_prevented():
    """A writer without a valid claim can commit on a version that was purged after the writer read it."""
    purged = explore(start(DROPPED, "purge", "create"))
    kept = explore(start(DROPPED, "create", "create", "undrop"))

    assert purged.strays > 0
    assert kept.strays == 0
