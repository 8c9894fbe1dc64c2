"""The position of a stream, which Spark stores as an offset in its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class StreamPosition:
    """A position in the history of a table: after the first `rows` rows of version `next`.

    All versions before `next` are done. Rows are counted in the order of the version's fragments by id, including rows
    that are marked as deleted. So the position always means the same.
    """

    next: int
    rows: int = 0
    snapshot: bool = False
    """Whether version `next` is read as a whole, with all earlier rows."""
    mark: str | None = None
    """The commit time of `marked_version`, which detects another table."""

    @property
    def marked_version(self) -> int:
        """The version of `mark`: the last one that is done, or that of a snapshot; 0 if there is none."""
        return self.next if self.snapshot else self.next - 1

    def follows(self, start: StreamPosition) -> bool:
        """Return True if a batch can go from `start` to this position."""
        if self.snapshot:
            return start.snapshot and start.next == self.next and start.rows <= self.rows
        first = (start.next + 1, 0) if start.snapshot else (start.next, start.rows)
        return first <= (self.next, self.rows)

    def to_offset(self) -> dict[str, Any]:
        """Return the offset that Spark stores; equal positions have equal offsets."""
        return {"next": self.next, "rows": self.rows, "snapshot": self.snapshot, "mark": self.mark}

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> StreamPosition:
        """Return the position of an offset; raises InvalidInputError if the offset is not valid."""
        try:
            mark = offset["mark"]
            return cls(
                int(offset["next"]), int(offset["rows"]), bool(offset["snapshot"]), None if mark is None else str(mark)
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"The checkpoint is of another kind of source: {dict(offset)!r} is not a position in a table's history"
            ) from error
