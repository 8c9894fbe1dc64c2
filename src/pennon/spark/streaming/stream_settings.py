"""What a stream of a table was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.options import SourceOptions

EARLIEST, LATEST = "earliest", "latest"
FAIL, IGNORE, FEED = "fail", "ignore", "feed"
_DEFAULT_SPLITS = 8
# These name one version, or cut it short: a stream has no single version.
_OF_ONE_VERSION = ("version", "tag", "asOf", "limit")


@dataclass(frozen=True)
class StreamSettings:
    """The options of a stream, checked."""

    address: Address
    identifier: Identifier
    branch: str | None
    columns: tuple[str, ...] | None
    where: str | None
    changes: str
    starting: int | str | None
    """The version after which to begin; None begins with the table as it is."""
    max_versions: int | None
    max_rows: int | None
    parallelism: int
    split_bytes: int | None

    @property
    def feed(self) -> bool:
        """Tell whether changes are told as changes."""
        return self.changes == FEED

    @classmethod
    def of(cls, asked: SourceOptions) -> StreamSettings:
        """Read the options; what a stream cannot mean raises 13."""
        misplaced = [name for name in _OF_ONE_VERSION if asked.text(name) is not None]
        if misplaced:
            raise InvalidInputError(
                f"A stream reads version after version: {', '.join(misplaced)} cannot be given; startingVersion can"
            )
        names = asked.names("columns")
        return cls(
            asked.address,
            asked.identifier,
            asked.text("branch"),
            None if names is None else tuple(names),
            asked.text("where"),
            _changes(asked.text("changes")),
            _starting(asked),
            asked.number("maxVersionsPerTrigger", least=1),
            asked.number("maxRowsPerTrigger", least=1),
            asked.number("splits", least=1) or _DEFAULT_SPLITS,
            asked.number("splitBytes", least=1),
        )


def _changes(text: str | None) -> str:
    value = (text or FAIL).lower()
    if value not in {FAIL, IGNORE, FEED}:
        raise InvalidInputError(f"Option 'changes' is {FAIL}, {IGNORE} or {FEED}, got {text!r}")
    return value


def _starting(asked: SourceOptions) -> int | str | None:
    text = (asked.text("startingVersion") or "").lower()
    return text if text in {EARLIEST, LATEST} else asked.number("startingVersion")
