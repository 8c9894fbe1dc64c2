"""The version that a change of a table builds on, and whether it is still there once the change is committed.

Lance commits a change that reads no old data wherever the table was, also if it was deleted meanwhile, and on top of
another table that has taken its place: the new version then refers to files that are gone. A base that is still the
same version tells that neither has happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, cast

from pennon.errors import is_not_found

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lance import LanceDataset


class Ground(Enum):
    """What is found in the place of a base."""

    SAME = auto()
    OTHER = auto()
    """Another version of the same number: the table was made anew."""
    MISSING = auto()
    """Nothing: the table was deleted, or its old versions were."""


@dataclass(frozen=True)
class Base:
    """A version that was opened to be changed."""

    branch: str | None
    version: int
    made_at: datetime
    stamp: object = None
    """What tells its file from any other, if that was seen before it was opened."""

    @classmethod
    def of(cls, dataset: LanceDataset, branch: str | None, stamp: object = None) -> Base:
        """Remember the version that is open."""
        return cls(branch, int(dataset.version), cast("datetime", dataset.get_version()["timestamp"]), stamp)

    def ground(self, dataset: LanceDataset) -> Ground:
        """Look for it in a table, at any version of it; one request if it is there."""
        try:
            found = dataset.checkout_version((self.branch, self.version))
        except (OSError, ValueError) as error:
            if not is_not_found(error):
                raise
            # A table that was made anew begins anew to count.
            anew = any(number < self.version and made_at > self.made_at for number, made_at in _versions(dataset))
            return Ground.OTHER if anew else Ground.MISSING
        return Ground.SAME if found.get_version()["timestamp"] == self.made_at else Ground.OTHER


def _versions(dataset: LanceDataset) -> Iterator[tuple[int, datetime]]:
    for one in dataset.versions():
        yield int(one["version"]), cast("datetime", one["timestamp"])


def oldest_files(dataset: LanceDataset) -> list[str]:
    """Name the data files of the oldest fragment, which is not of the last change unless that left no other."""
    fragments = dataset.get_fragments()
    oldest = min(fragments, key=lambda fragment: int(fragment.fragment_id), default=None)
    return [] if oldest is None else [f"data/{file.path}" for file in oldest.metadata.files]


def written_files(dataset: LanceDataset) -> tuple[str, ...]:
    """Name the files that were written for the open version alone: rows, and the note of the transaction."""
    made = dataset.read_transaction(dataset.version)
    if made is None:
        return ()
    return (*_data_files(made.operation), f"_transactions/{made.read_version}-{made.uuid}.txn")


def _data_files(operation: object) -> Iterator[str]:
    for name in ("fragments", "new_fragments"):
        for fragment in getattr(operation, name, ()):
            yield from (f"data/{file.path}" for file in fragment.files)
