"""A log in the table's directory of the last epoch of each stream, so that each epoch is committed once.

A restarted streaming query repeats its last epoch if Spark does not know that it was committed. The transaction of an
epoch names it, but searching a long history is slow, and part of it may have been deleted. So before an epoch is
committed, its number and the latest version are written to `_pennon/streams/` in the table's directory. An epoch with a
higher number has not been committed. For the same number, only later versions are searched.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidTableStateError
from pennon.identifiers import format_identifier
from pennon.spark.tables import job_commits

if TYPE_CHECKING:
    from pennon.spark.tables.destination import Destination
    from pennon.spark.tables.run_files import RunDirectory

_DIRECTORY = "_pennon/streams"


@dataclass(frozen=True)
class StreamEpoch:
    """One epoch of a stream."""

    stream: str
    """The name of the stream, by default the id of its query."""
    query: str
    """The id of its query, which is stored in the checkpoint."""
    number: int

    @property
    def job(self) -> str:
        """The unique job id of this epoch."""
        return f"{self.query}/{self.number}"


@dataclass(frozen=True)
class EpochAttempt:
    """An epoch that was about to be committed."""

    query: str
    epoch: int
    version: int
    """The latest version at that time."""


class EpochLog:
    """The log of a stream in a table's directory."""

    def __init__(self, files: RunDirectory, destination: Destination, stream: str) -> None:
        self._files = files
        self._table = format_identifier(destination.identifier)
        self._destination = destination
        self._stream = stream
        self._path = f"{_DIRECTORY}/{hashlib.sha256(stream.encode()).hexdigest()[:32]}.json"

    def last(self) -> EpochAttempt | None:
        """Return the last attempt, or None; raises InvalidTableStateError if the log is damaged."""
        body = self._files.read(self._path)
        if body is None:
            return None
        try:
            content: Any = json.loads(body)
        except (ValueError, RecursionError):
            content = None
        found = content if isinstance(content, dict) else {}
        query, epoch, version = (found.get(key) for key in ("query", "epoch", "version"))
        if not isinstance(query, str) or type(epoch) is not int or type(version) is not int or min(epoch, version) < 0:
            raise self._refusal(
                f"has left {self._path!r} in the table's directory, which cannot be read. Check which epochs are in "
                "the table, delete that file, and start the stream with another checkpoint"
            )
        return EpochAttempt(query, epoch, version)

    def begin(self, epoch: StreamEpoch) -> int:
        """Log an attempt; return the version after which an earlier attempt committed the epoch, if it did.

        Raises InvalidTableStateError for an epoch of another checkpoint, for an old epoch, and if deleted versions may
        have contained the epoch.
        """
        last = self.last()
        latest = self._destination.latest()
        since = int(latest.version)
        if last is None:
            # This is the first logged epoch. An earlier one may have created the table.
            found = job_commits.find_job_in(latest, self._destination, epoch.job)
            since = since if found is None else found.version - 1
        elif last.query != epoch.query:
            raise self._refusal(
                f"belongs to the checkpoint of query {last.query}; this is query {epoch.query}, with another "
                "checkpoint, whose epochs are unrelated. Continue with the old checkpoint, or give the stream another "
                "queryId"
            )
        elif last.epoch > epoch.number:
            raise self._refusal(
                f"has written epoch {last.epoch}, but this is epoch {epoch.number}: its checkpoint was put back. "
                "Start the stream again with another checkpoint"
            )
        elif last.epoch == epoch.number:
            since = last.version
            oldest = min(int(one["version"]) for one in latest.version_refs())
            if oldest > since + 1:
                raise self._refusal(
                    f"may or may not have written epoch {epoch.number} after version {since}: the versions before "
                    f"{oldest} were deleted. Check the table, and start the stream again with another checkpoint"
                )
        self._files.write(self._path, json.dumps(asdict(EpochAttempt(epoch.query, epoch.number, since))).encode())
        return since

    def _refusal(self, why: str) -> InvalidTableStateError:
        return InvalidTableStateError(f"Stream {self._stream!r} to table {self._table} {why}")
