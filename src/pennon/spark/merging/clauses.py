"""What a merge does: which rows match, and the clauses for rows that match and for rows that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pennon.errors import InvalidInputError


@dataclass(frozen=True)
class Update:
    """Set columns of the table's row to expressions; None sets each column to the source's column of the same name.

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
    """Insert a row of expressions; None inserts all columns of the source. Columns without a value are null."""

    values: Mapping[str, str] | None = None
    condition: str | None = None


UPDATE, DELETE, INSERT = "update", "delete", "insert"
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


def kind_of(clause: Clause) -> str:
    """Return what a clause does to a row: UPDATE, DELETE or INSERT."""
    return {Update: UPDATE, Delete: DELETE, Insert: INSERT}[type(clause)]


def assignments_of(clause: Clause) -> Mapping[str, str] | None:
    """Return the expression for each column that a clause sets, or None if it copies all columns of the source."""
    if isinstance(clause, Delete):
        return {}
    return clause.set if isinstance(clause, Update) else clause.values


@dataclass(frozen=True)
class Clauses:
    """All clauses of a merge. For each kind of row, the first clause whose condition holds applies."""

    matched: tuple[Update | Delete, ...]
    not_matched: tuple[Insert, ...]
    by_source: tuple[Update | Delete, ...]

    def all(self) -> tuple[Clause, ...]:
        """Return the clauses in the order of their numbers."""
        return (*self.matched, *self.not_matched, *self.by_source)

    @property
    def only_deletes_matches(self) -> bool:
        """Return True if every match is deleted. Only then may a row match more than once."""
        return self.matched == (Delete(),)

    @property
    def inserts_all(self) -> bool:
        """Return True if every row without a match is inserted as it is."""
        return self.not_matched == (Insert(),)


@dataclass(frozen=True, kw_only=True)
class MergeSpec:
    """Which rows of a merge match, and what happens to them.

    Rows match if the columns `on` are equal, or if `on_condition` holds: an expression in Spark's SQL in which the
    sides are called by their aliases. Null keys match nothing unless `null_safe`. For each kind of row, clauses are a
    word (`update`, `delete`, `insert`, `ignore`) or a list of `Update`, `Delete` and `Insert`; the first clause whose
    condition holds applies. With `merge_schema`, columns that the table lacks are added to it.
    """

    on: Sequence[str] = ()
    when_matched: ClauseSpec = "update"
    when_not_matched: ClauseSpec = "insert"
    when_not_matched_by_source: ClauseSpec = None
    on_condition: str | None = None
    null_safe: bool = False
    target_alias: str = "target"
    source_alias: str = "source"
    merge_schema: bool = False

    def __post_init__(self) -> None:
        """Raise InvalidInputError for bad clauses, several or no conditions, or one name for both sides."""
        if bool(self.on) == (self.on_condition is not None):
            raise InvalidInputError("A merge has either key columns (`on`) or a condition (`on_condition`)")
        target, source = self.target_alias, self.source_alias
        if target.lower() == source.lower():
            raise InvalidInputError(f"The table and the source of a merge need two names, got {target!r} twice")
        self.clauses  # noqa: B018 - parses them

    @cached_property
    def clauses(self) -> Clauses:
        """The parsed clauses."""
        return parse_clauses(self.when_matched, self.when_not_matched, self.when_not_matched_by_source)


def parse_clauses(matched: ClauseSpec, not_matched: ClauseSpec, by_source: ClauseSpec) -> Clauses:
    """Return the clauses, each given as a word, a clause or a list of clauses; raises InvalidInputError if invalid."""
    made: Any = [
        _parse_spec(kind, given)
        for kind, given in ((MATCHED, matched), (NOT_MATCHED, not_matched), (BY_SOURCE, by_source))
    ]
    clauses = Clauses(*made)
    if not clauses.all():
        raise InvalidInputError("A merge needs at least one clause, for rows that match or for others")
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
            raise InvalidInputError(f"{kind} accepts only {allowed} clauses, got {clause!r}")
        if clause.condition is None and number < len(clauses) - 1:
            raise InvalidInputError(
                f"{kind}: only the last clause can be without a condition, got {clause!r} before it"
            )
        _check_values(kind, clause)
    return clauses


def _check_values(kind: str, clause: Clause) -> None:
    values = assignments_of(clause)
    if values is None:
        if kind == BY_SOURCE:
            raise InvalidInputError(
                f"{kind}: an Update must name the columns to set, because there is no row of the source"
            )
        return
    if not isinstance(clause, Delete) and not values:
        raise InvalidInputError(f"{kind}: {type(clause).__name__} sets no column")
    check_expressions(kind, values)


def check_expressions(where: str, values: Mapping[str, str]) -> None:
    """Raise InvalidInputError if a column is set to something else than SQL; `where` names the place."""
    for column, text in values.items():
        if not isinstance(column, str) or not isinstance(text, str) or not text.strip():
            raise InvalidInputError(f"{where}: columns are set to SQL expressions, got {column!r}: {text!r}")
