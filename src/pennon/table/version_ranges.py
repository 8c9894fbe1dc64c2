"""Ranges of versions in requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, TableVersionNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_namespace_urllib3_client.models.version_range import VersionRange

_UP_TO_LATEST = -1


@dataclass(frozen=True)
class VersionRanges:
    """The versions that a request selects. Raises InvalidInputError for a range that is not valid."""

    ranges: Sequence[VersionRange]
    table: str
    ignore_missing: bool

    def __post_init__(self) -> None:
        for one in self.ranges:
            if one.start_version < 0 or (one.end_version != _UP_TO_LATEST and one.end_version < one.start_version):
                text = f"[{one.start_version}, {one.end_version})"
                raise InvalidInputError(f"Bad range of versions {text} for table {self.table}")

    def select(self, versions: list[int]) -> list[int]:
        """Return those of the sorted versions that are in a range.

        Raises TableVersionNotFoundError if a version of a range is missing, unless missing versions are ignored.
        """
        newest = versions[-1] if versions else 0
        spans = [
            (one.start_version, newest + 1 if one.end_version == _UP_TO_LATEST else one.end_version)
            for one in self.ranges
        ]
        if not self.ignore_missing:
            existing = set(versions)
            for start, end in spans:
                missing = next((version for version in range(max(start, 1), end) if version not in existing), None)
                if missing is not None:
                    raise TableVersionNotFoundError(f"Table {self.table} has no version {missing}")
        return [version for version in versions if any(start <= version < end for start, end in spans)]
