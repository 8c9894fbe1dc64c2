"""How far a stream has come: the offsets that Spark keeps in its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class StreamPosition:
    """A place in the history of a table: before the row `rows` of what version `next` brings.

    All versions before `next` are done. Rows are counted as they stand in the version's fragments, by their ids, those
    that are marked as deleted included: so the place means the same whenever it is read.
    """

    next: int
    rows: int = 0
    snapshot: bool = False
    """Whether version `next` is to be read as a whole, with all that came before it."""
    mark: str | None = None
    """What tells the last version that is done (of a snapshot: the version itself) from one of another table."""

    @property
    def marked_version(self) -> int:
        """Give the version that `mark` is of; 0 if there is none before the first one."""
        return self.next if self.snapshot else self.next - 1

    def follows(self, start: StreamPosition) -> bool:
        """Tell whether a batch can go from `start` to here."""
        if self.snapshot:
            return start.snapshot and start.next == self.next and start.rows <= self.rows
        first = (start.next + 1, 0) if start.snapshot else (start.next, start.rows)
        return first <= (self.next, self.rows)

    def to_offset(self) -> dict[str, Any]:
        """Write it as Spark keeps it; equal positions are written alike."""
        return {"next": self.next, "rows": self.rows, "snapshot": self.snapshot, "mark": self.mark}

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> StreamPosition:
        """Read what `offset` wrote; anything else raises 13."""
        try:
            mark = offset["mark"]
            return cls(
                int(offset["next"]), int(offset["rows"]), bool(offset["snapshot"]), None if mark is None else str(mark)
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"The checkpoint is of another kind of source: {dict(offset)!r} is no place in a table's history"
            ) from error
