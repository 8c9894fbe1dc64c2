"""Options of the data source `pennon`. Everything else that is given is a property of the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, parse_table_name
from pennon.spark.address import Address
from pennon.spark.reading.pinned import VersionOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAN = "_plan"
DEFAULT_SPLITS = 8

OPTIONS: dict[str, tuple[str, str]] = {
    "impl": ("dir", "The catalog's implementation, as `pennon.connect` takes it."),
    "path": ("", "The table, such as `prod.events`; what `load` and `save` are given."),
    "columns": ("all", "Read: names of the columns to read, separated by commas."),
    "where": ("", "Read: a predicate in Lance's SQL that rows must meet."),
    "limit": ("", "Read: the most rows to read."),
    "version": ("the latest", "Read: the version to read."),
    "tag": ("", "Read: the tag whose version is read."),
    "branch": ("main", "Read and write: the branch."),
    "asOf": ("", "Read: the version that was current at this time (ISO 8601; UTC if it has no zone)."),
    "splits": (str(DEFAULT_SPLITS), "Read: how many tasks to cut the table into, if it is large enough."),
    "splitBytes": ("134217728", "Read: the most bytes that a task reads."),
    "mergeSchema": ("false", "Write: add columns that the table does not have."),
    "maxRowsPerFile": ("1048576", "Write: the most rows of a data file."),
    "maxBytesPerFile": ("4294967296", "Write: the most bytes of a data file."),
    "dataStorageVersion": ("", "Write: the version of Lance's file format for new tables."),
    "jobId": ("", "Write: an id for this write; a second write with the same id changes nothing."),
    "startingVersion": (
        "the table as it is",
        "Stream read: begin after this version; `earliest` begins with the oldest there is, `latest` with what is new.",
    ),
    "maxVersionsPerTrigger": ("1000", "Stream read: the most versions in a micro-batch."),
    "maxRowsPerTrigger": ("", "Stream read: about how many rows make a micro-batch."),
    "changes": ("fail", "Stream read: how to handle deleted and updated rows: `fail`, `ignore` or `feed`."),
    "queryId": ("", "Stream write: a name for the stream, which then belongs to one checkpoint."),
    PLAN: ("", "Set by `lake.table`; for internal use."),
}
"""Each option with its default and its effect. Names of options are case-insensitive."""

_BY_LOWER = {name.lower(): name for name in OPTIONS}
# Spark passes on these options, which are its own.
_SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})


@dataclass(frozen=True)
class SourceOptions:
    """The options of a read or write through `spark.read` and `df.write`."""

    address: Address
    identifier: Identifier
    given: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """Separate options from properties of the catalog; raises InvalidInputError if no table is named."""
        given: dict[str, str] = {}
        properties: dict[str, str] = {}
        for key, value in options.items():
            name = _BY_LOWER.get(key.lower())
            if name is not None:
                given[name] = value
            elif key.lower() not in _SPARKS_OWN:
                properties[key] = value
        if not given.get("path"):
            raise InvalidInputError("Name the table: load('prod.events') or save('prod.events')")
        address = Address.of(given.get("impl", "dir"), properties)
        return cls(address, parse_table_name(given["path"]), given)

    def text(self, name: str) -> str | None:
        """Return an option, or None if it is missing or empty."""
        return self.given.get(name) or None

    def number(self, name: str, *, least: int = 0) -> int | None:
        """Return an option that is a whole number."""
        text = self.text(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError as error:
            raise InvalidInputError(f"Option {name!r} is a whole number, got {text!r}") from error
        if value < least:
            raise InvalidInputError(f"Option {name!r} is at least {least}, got {value}")
        return value

    def flag(self, name: str) -> bool:
        """Return an option that is true or false."""
        text = (self.text(name) or "false").lower()
        if text not in {"true", "false"}:
            raise InvalidInputError(f"Option {name!r} is true or false, got {text!r}")
        return text == "true"

    def names(self, name: str) -> list[str] | None:
        """Return an option that is a list of names separated by commas."""
        text = self.text(name)
        return None if text is None else [one.strip() for one in text.split(",")]

    @property
    def splits(self) -> int:
        """How many tasks to cut a read into."""
        return self.number("splits", least=1) or DEFAULT_SPLITS

    def version_selector(self) -> VersionOptions:
        """Return which version to read."""
        return VersionOptions(self.number("version"), self.text("tag"), self.text("branch"), self.text("asOf"))
