"""The state file of a job: the tables that a run has finished, so that the same run can be resumed.

The file has one line of JSON for each table, written when the table is finished. An incomplete line is ignored.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from pennon.spark.jobs.outcome import TableOutcome


@dataclass(frozen=True)
class StateFile:
    """The state of one job under one id."""

    path: Path
    job: str
    job_id: str

    @classmethod
    def at(cls, path: str | os.PathLike[str], job: str, job_id: str) -> StateFile:
        """Return the state file at a path, which need not exist. Raises InvalidInputError if it cannot be written."""
        where = Path(path)
        if where.is_dir() or not where.parent.is_dir():
            raise InvalidInputError(
                f"The state file {str(path)!r} cannot be written: its directory does not exist, or it is a directory"
            )
        return cls(where, job, job_id)

    def finished_tables(self) -> dict[str, str]:
        """Return the finished tables, each with the time at which it was finished."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        entries = [_parse_entry(line) for line in lines]
        ours = [one for one in entries if one.get("job") == self.job and one.get("id") == self.job_id]
        return {one["table"]: one["at"] for one in ours}

    def record(self, outcome: TableOutcome) -> None:
        """Record that a table is finished. The line is on the disk when this returns."""
        entry = {
            "job": self.job,
            "id": self.job_id,
            "table": outcome.table,
            "status": outcome.status,
            "version": outcome.version_after,
            "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        # The leading line break keeps an incomplete line before it from damaging this one.
        line = f"\n{json.dumps(entry, ensure_ascii=False)}\n".encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _parse_entry(line: str) -> dict[str, str]:
    """Return the entry of a line, or an empty one if the line is not an entry."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    is_entry = isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in ("table", "at"))
    return entry if is_entry else {}
