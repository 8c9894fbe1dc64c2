"""The effect of a version on a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import InvalidTableStateError
from pennon.identifiers import format_identifier
from pennon.spark.streaming.stream_history import UNKNOWN
from pennon.spark.streaming.stream_settings import FAIL, FEED, IGNORE
from pennon.spark.streaming.version_difference import VersionDifference, compare_versions

if TYPE_CHECKING:
    from pennon.spark.streaming.stream_columns import StreamColumns
    from pennon.spark.streaming.stream_history import StreamHistory, VersionOrigin
    from pennon.spark.streaming.stream_settings import StreamSettings

# Operations that change neither rows nor the schema. A Rewrite is a compaction: it moves rows to other fragments.
_QUIET = frozenset({"Rewrite", "CreateIndex", "UpdateConfig"})
_REPLACING = frozenset({"Overwrite", "Restore", UNKNOWN})


@dataclass(frozen=True)
class VersionEffect:
    """The effect of one version: added rows, a difference that needs a comparison of rows, or nothing."""

    version: int
    operation: str
    rows: int = 0
    """The approximate number of rows to deliver."""
    change: VersionDifference | None = None
    joins: bool = False
    """Whether it can be read together with its neighbours: it adds rows at most, with the same schema."""


class EffectClassifier:
    """Classifies the versions of one stream."""

    def __init__(self, settings: StreamSettings, history: StreamHistory, columns: StreamColumns, since: int) -> None:
        self._settings = settings
        self._history = history
        self._columns = columns
        self._since = since

    def classify(self, origin: VersionOrigin) -> VersionEffect:
        """Return the effect of a version.

        Raises InvalidTableStateError if the stream cannot deliver it, and TableVersionNotFoundError if it was deleted.
        """
        if origin.operation == "Append":
            return VersionEffect(origin.version, origin.operation, origin.rows, joins=True)
        if origin.operation in _QUIET:
            return VersionEffect(origin.version, origin.operation, joins=origin.operation != "Rewrite")
        before = None if origin.version == 1 else self._history.open_version(origin.version - 1)
        after = self._history.open_version(origin.version)
        present = self._columns.find_present(after, later=origin.version > self._since)
        if self._settings.changes != FEED and before is not None:
            # A new column, or a new type of a column, does not change existing rows.
            fields = {field.name: field.type for field in before.schema}
            present = tuple(name for name in present if fields.get(name) == after.schema.field(name).type)
        found = compare_versions(before, after, origin.operation, present)
        if found.is_empty:
            return VersionEffect(origin.version, origin.operation)
        if found.has_only_new_rows and origin.operation != "Restore":
            return VersionEffect(origin.version, origin.operation, found.added)
        if self._settings.changes == FAIL or (self._settings.changes == IGNORE and origin.operation in _REPLACING):
            raise self._refusal(origin, found)
        return VersionEffect(origin.version, origin.operation, found.changed, found)

    def _refusal(self, origin: VersionOrigin, found: VersionDifference) -> InvalidTableStateError:
        told = {
            "Overwrite": "replaces all rows",
            "Restore": "puts an older version back",
            "Delete": f"deletes rows ({found.deleted})",
        }.get(origin.operation, "changes or deletes rows")
        ways = "Option changes=feed delivers such versions row by row"
        if origin.operation not in _REPLACING:
            ways += ", changes=ignore only the rows that are new or have new values"
        return InvalidTableStateError(
            f"Version {origin.version} of table {format_identifier(self._history.identifier)} "
            f"({origin.operation}) {told}, which a "
            f"stream of new rows cannot tell. {ways}; or start after that version (startingVersion={origin.version}), "
            "with another checkpoint"
        )
