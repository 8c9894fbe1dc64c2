"""The settings of a stream of a table."""

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
# These options select or limit a single version, which a stream does not have.
_OF_ONE_VERSION = ("version", "tag", "asOf", "limit")


@dataclass(frozen=True)
class StreamSettings:
    """The validated options of a stream."""

    address: Address
    identifier: Identifier
    branch: str | None
    columns: tuple[str, ...] | None
    where: str | None
    changes: str
    starting: int | str | None
    """The version after which the stream starts; None starts with all rows of the table."""
    max_versions: int | None
    max_rows: int | None
    parallelism: int
    split_bytes: int | None

    @property
    def feed(self) -> bool:
        """Return True if the stream is a change feed."""
        return self.changes == FEED

    @classmethod
    def of(cls, options: SourceOptions) -> StreamSettings:
        """Return the settings for options; raises InvalidInputError for options that do not apply to streams."""
        misplaced = [name for name in _OF_ONE_VERSION if options.text(name) is not None]
        if misplaced:
            raise InvalidInputError(
                f"A stream reads version after version: {', '.join(misplaced)} cannot be given; startingVersion can"
            )
        names = options.names("columns")
        return cls(
            options.address,
            options.identifier,
            options.text("branch"),
            None if names is None else tuple(names),
            options.text("where"),
            _parse_changes(options.text("changes")),
            _parse_start(options),
            options.number("maxVersionsPerTrigger", least=1),
            options.number("maxRowsPerTrigger", least=1),
            options.splits,
            options.number("splitBytes", least=1),
        )


def _parse_changes(text: str | None) -> str:
    value = (text or FAIL).lower()
    if value not in {FAIL, IGNORE, FEED}:
        raise InvalidInputError(f"Option 'changes' is {FAIL}, {IGNORE} or {FEED}, got {text!r}")
    return value


def _parse_start(options: SourceOptions) -> int | str | None:
    text = (options.text("startingVersion") or "").lower()
    return text if text in {EARLIEST, LATEST} else options.number("startingVersion")
