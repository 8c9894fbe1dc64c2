"""What identifies a version of a table beyond its number.

A table that is created again in the same place uses the same numbers again. Lance commits a change that reads no old
data even if the table was deleted in between, or replaced by another table: the new version then refers to files that
are gone. After such a commit, the version that the change builds on must still be the same one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, cast

from pennon.errors import is_not_found

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lance import LanceDataset

# Lance returns the local time of the machine. Time zones differ by multiples of 15 minutes, so the rest is the same
# everywhere.
_ZONE_MINUTES = 15


def hash_content(dataset: LanceDataset) -> str:
    """Return a hash that identifies the content of the open version in any process. No request is made.

    The names of data files are random, so a table that was created again shares no file with the earlier one. A branch
    may share files with an earlier branch of the same name; the time of the commit distinguishes those.
    """
    version: Any = dataset.get_version()
    committed_at = version["timestamp"]
    ids = sorted(dataset.fragment_ids())
    ends = [dataset.get_fragment(number) for number in {*ids[:1], *ids[-1:]}]
    files = sorted(file.path for fragment in ends if fragment is not None for file in fragment.metadata.files)
    time_parts = [committed_at.minute % _ZONE_MINUTES, committed_at.second, committed_at.microsecond]
    parts = [*time_parts, version["metadata"], files]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class BaseState(Enum):
    """What is at the number of a base version now."""

    SAME = auto()
    REPLACED = auto()
    """Another version with the same number: the table was created again."""
    MISSING = auto()
    """Nothing: the table was deleted, or its old versions were."""


@dataclass(frozen=True)
class BaseVersion:
    """The version that a change builds on."""

    branch: str | None
    version: int
    committed_at: datetime
    stamp: object = None
    """Identifies the file of the version, if it was read before the version was opened."""

    @classmethod
    def of(cls, dataset: LanceDataset, branch: str | None, stamp: object = None) -> BaseVersion:
        """Return the version that is open."""
        return cls(branch, int(dataset.version), cast("datetime", dataset.get_version()["timestamp"]), stamp)

    def check_state(self, dataset: LanceDataset) -> BaseState:
        """Look up this version in a table that is open at any version. This is one request if it still exists."""
        try:
            found = dataset.checkout_version((self.branch, self.version))
        except (OSError, ValueError) as error:
            if not is_not_found(error):
                raise
            # A table that was created again counts from 1 again.
            is_recreated = any(
                int(one["version"]) < self.version and cast("datetime", one["timestamp"]) > self.committed_at
                for one in dataset.versions()
            )
            return BaseState.REPLACED if is_recreated else BaseState.MISSING
        return BaseState.SAME if found.get_version()["timestamp"] == self.committed_at else BaseState.REPLACED


def list_oldest_files(dataset: LanceDataset) -> list[str]:
    """Return the data files of the oldest fragment. The last change did not write it unless it left no other."""
    fragments = dataset.get_fragments()
    oldest = min(fragments, key=lambda fragment: int(fragment.fragment_id), default=None)
    return [] if oldest is None else [f"data/{file.path}" for file in oldest.metadata.files]


def list_written_files(dataset: LanceDataset) -> tuple[str, ...]:
    """Return the files that only the open version uses: its data files and its transaction file."""
    transaction = dataset.read_transaction(dataset.version)
    if transaction is None:
        return ()
    transaction_file = f"_transactions/{transaction.read_version}-{transaction.uuid}.txn"
    return (*_list_data_files(transaction.operation), transaction_file)


def _list_data_files(operation: object) -> Iterator[str]:
    for name in ("fragments", "new_fragments"):
        for fragment in getattr(operation, name, ()):
            yield from (f"data/{file.path}" for file in fragment.files)
