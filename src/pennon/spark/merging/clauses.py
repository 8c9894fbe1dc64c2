"""The clauses of a merge: what happens to rows that match, and to those that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pennon.errors import InvalidInputError


@dataclass(frozen=True)
class Update:
    """Set columns of the table's row to expressions; None sets every column that the source has to the source's.

    Columns that are not set keep their values.
    """

    set: Mapping[str, str] | None = None
    condition: str | None = None


@dataclass(frozen=True)
class Delete:
    """Delete the table's row."""

    condition: str | None = None


@dataclass(frozen=True)
class Insert:
    """Insert a row made of expressions; None takes every column of the source. Columns without a value are null."""

    values: Mapping[str, str] | None = None
    condition: str | None = None


Clause = Update | Delete | Insert
ClauseSpec = str | Clause | Sequence[Clause] | None

MATCHED = "when_matched"
NOT_MATCHED = "when_not_matched"
BY_SOURCE = "when_not_matched_by_source"
_WORDS: dict[str, dict[str, tuple[Clause, ...]]] = {
    MATCHED: {"update": (Update(),), "delete": (Delete(),), "ignore": ()},
    NOT_MATCHED: {"insert": (Insert(),), "ignore": ()},
    BY_SOURCE: {"delete": (Delete(),), "ignore": ()},
}
_KINDS: dict[str, tuple[type[Clause], ...]] = {
    MATCHED: (Update, Delete),
    NOT_MATCHED: (Insert,),
    BY_SOURCE: (Update, Delete),
}


@dataclass(frozen=True)
class Clauses:
    """All clauses of a merge; of those for a kind of row, the first whose condition holds decides."""

    matched: tuple[Update | Delete, ...]
    not_matched: tuple[Insert, ...]
    by_source: tuple[Update | Delete, ...]

    def all(self) -> tuple[Clause, ...]:
        """Give the clauses in the order in which they are numbered."""
        return (*self.matched, *self.not_matched, *self.by_source)

    @property
    def only_deletes_matches(self) -> bool:
        """Tell whether every match does the same: deletes. Only then a row may be matched more than once."""
        return self.matched == (Delete(),)


def parse_clauses(matched: ClauseSpec, not_matched: ClauseSpec, by_source: ClauseSpec) -> Clauses:
    """Read clauses, each given as a word, as a clause or as a list of clauses; what makes no sense raises 13."""
    made: dict[str, Any] = {
        kind: _parse_spec(kind, given)
        for kind, given in ((MATCHED, matched), (NOT_MATCHED, not_matched), (BY_SOURCE, by_source))
    }
    clauses = Clauses(made[MATCHED], made[NOT_MATCHED], made[BY_SOURCE])
    if not clauses.all():
        raise InvalidInputError("A merge needs a clause: nothing is to be done with rows that match, nor with others")
    return clauses


def _parse_spec(kind: str, given: ClauseSpec) -> tuple[Clause, ...]:
    if given is None:
        return ()
    if isinstance(given, str):
        if given not in _WORDS[kind]:
            known = ", ".join(map(repr, _WORDS[kind]))
            raise InvalidInputError(f"{kind} is one of {known} or a list of clauses, got {given!r}")
        return _WORDS[kind][given]
    clauses = (given,) if isinstance(given, (Update, Delete, Insert)) else tuple(given)
    for number, clause in enumerate(clauses):
        if not isinstance(clause, _KINDS[kind]):
            allowed = " and ".join(one.__name__ for one in _KINDS[kind])
            raise InvalidInputError(f"{kind} takes clauses of the kinds {allowed}, got {clause!r}")
        if clause.condition is None and number < len(clauses) - 1:
            raise InvalidInputError(f"{kind}: only its last clause can be without a condition, got {clause!r} before")
        _check_values(kind, clause)
    return clauses


def _check_values(kind: str, clause: Clause) -> None:
    values = clause.set if isinstance(clause, Update) else clause.values if isinstance(clause, Insert) else {}
    if values is None:
        if kind == BY_SOURCE:
            raise InvalidInputError(f"{kind}: an Update says what it sets, as there is no row of the source")
        return
    if not isinstance(clause, Delete) and not values:
        raise InvalidInputError(f"{kind}: {type(clause).__name__} sets no column")
    for column, text in values.items():
        if not isinstance(column, str) or not isinstance(text, str) or not text.strip():
            raise InvalidInputError(f"{kind}: columns are set to SQL expressions, got {column!r}: {text!r}")
