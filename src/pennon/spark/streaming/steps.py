"""What a version means for a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import InvalidTableStateError
from pennon.identifiers import format_identifier
from pennon.spark.streaming.difference import Difference, difference
from pennon.spark.streaming.history import UNKNOWN
from pennon.spark.streaming.settings import FAIL, FEED, IGNORE

if TYPE_CHECKING:
    from pennon.spark.streaming.columns import StreamColumns
    from pennon.spark.streaming.history import History, Made
    from pennon.spark.streaming.settings import StreamSettings

# Operations that leave all rows and the schema as they are. A Rewrite is a compaction: its rows are in other fragments.
_QUIET = frozenset({"Rewrite", "CreateIndex", "UpdateConfig"})
_REPLACING = frozenset({"Overwrite", "Restore", UNKNOWN})


@dataclass(frozen=True)
class Step:
    """One version: rows that it adds, or a difference that has to be told row by row, or nothing at all."""

    version: int
    operation: str
    rows: int = 0
    """About how many rows it delivers."""
    change: Difference | None = None
    joins: bool = False
    """Whether it can be read together with its neighbours: rows were added at most, to the same schema."""


class Steps:
    """Tells steps apart, for one stream."""

    def __init__(self, settings: StreamSettings, history: History, columns: StreamColumns, since: int) -> None:
        self._settings = settings
        self._history = history
        self._columns = columns
        self._since = since

    def step(self, made: Made) -> Step:
        """Tell what a version means; one that the stream cannot tell about raises 19, a lost one 11."""
        if made.operation == "Append":
            return Step(made.version, made.operation, made.rows, joins=True)
        if made.operation in _QUIET:
            return Step(made.version, made.operation, joins=made.operation != "Rewrite")
        before = None if made.version == 1 else self._history.at(made.version - 1)
        after = self._history.at(made.version)
        present = self._columns.present(after, later=made.version > self._since)
        if self._settings.changes != FEED and before is not None:
            # A column that is added or gets another type is no change of the rows that are there.
            fields = {field.name: field.type for field in before.schema}
            present = tuple(name for name in present if fields.get(name) == after.schema.field(name).type)
        found = difference(before, after, made.operation, present)
        if found.nothing:
            return Step(made.version, made.operation)
        if found.only_new and made.operation != "Restore":
            return Step(made.version, made.operation, found.added)
        if self._settings.changes == FAIL or (self._settings.changes == IGNORE and made.operation in _REPLACING):
            raise self._refusal(made, found)
        return Step(made.version, made.operation, found.changed, found)

    def _refusal(self, made: Made, found: Difference) -> InvalidTableStateError:
        told = {
            "Overwrite": "replaces all rows",
            "Restore": "puts an older version back",
            "Delete": f"deletes rows ({found.deleted})",
        }.get(made.operation, "changes or deletes rows")
        ways = "With option changes=feed such versions are told row by row"
        if made.operation not in _REPLACING:
            ways += ", with changes=ignore only rows that are new or have new values"
        return InvalidTableStateError(
            f"Version {made.version} of table {format_identifier(self._history.identifier)} "
            f"({made.operation}) {told}, which a "
            f"stream of new rows cannot tell. {ways}; or start after that version (startingVersion={made.version}), "
            "with another checkpoint"
        )
