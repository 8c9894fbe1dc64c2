"""The state file: which tables a run of a job has finished, so that the same run, begun again, leaves them out.

One line of JSON per table, written when the table is finished. A line that was cut off by a crash counts as absent.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from pennon.spark.jobs.outcome import Outcome


@dataclass(frozen=True)
class State:
    """The state of one job under one id."""

    path: Path
    job: str
    job_id: str

    @classmethod
    def at(cls, path: str | os.PathLike[str], job: str, job_id: str) -> State:
        """Name a state file, which need not exist; its directory has to (13)."""
        where = Path(path)
        if where.is_dir() or not where.parent.is_dir():
            raise InvalidInputError(f"The state file {str(path)!r} cannot be written: no such directory, or it is one")
        return cls(where, job, job_id)

    def finished(self) -> dict[str, str]:
        """Give the tables that are finished, each with the time at which it was."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        entries = [_entry(line) for line in lines]
        return {
            entry["table"]: entry["at"]
            for entry in entries
            if entry is not None and entry.get("job") == self.job and entry.get("id") == self.job_id
        }

    def record(self, outcome: Outcome) -> None:
        """Note that a table is finished; when this returns, it is on the disk."""
        entry = {
            "job": self.job,
            "id": self.job_id,
            "table": outcome.table,
            "status": outcome.status,
            "version": outcome.version_after,
            "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        # One write that begins with a line break: a line that was cut off before does not spoil this one.
        line = f"\n{json.dumps(entry, ensure_ascii=False)}\n".encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_entry = isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in ("table", "at"))
    return entry if is_entry else None
