"""What is known of a run, kept in the catalog's own store, so that the run can be taken up again.

```
__pennon/runs/<pipeline>/<run id>/
  lease.json         who works on it now
  run.json           what it is: the pipeline's fingerprint and the versions that it reads
  done/<work>.json   one for each finished piece of work
  outcome.json       it is published: the report
  last-report.json   the report of the latest try that published nothing
  data/              results of steps, until the run is over
```
The directory's name is reserved, so no table can have it and no listing takes it for one. Every object but the lease
and the reports is written once, by put-if-absent: of two processes that did the same work, both go on with what the
first one recorded.
"""

from __future__ import annotations

import json
import re
import secrets
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError, InvalidTableStateError
from pennon.spark.pipeline.lease import Lease, held
from pennon.spark.pipeline.report import RunReport

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pennon.store import Store

DIRECTORY = "__pennon/runs"
_RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,99}")
_FORMAT = 1
_DATA_BYTES = 8
_DIGITS = re.compile(rf"[0-9a-f]{{{2 * _DATA_BYTES}}}")


def new_run_id() -> str:
    """Make an id that sorts by time and is nobody else's."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def checked_run_id(run_id: str) -> str:
    """Give an id back if it can be one, else 13."""
    if not _RUN_ID.fullmatch(run_id):
        raise InvalidInputError(
            f"Bad run id {run_id!r}: letters, digits, '_', '-' and '.', at most 100, beginning with a letter or digit"
        )
    return run_id


@dataclass(frozen=True)
class RunState:
    """The state of one run."""

    store: Store
    pipeline: str
    run_id: str

    @property
    def subject(self) -> str:
        """Name the run for people."""
        return f"Run {self.run_id!r} of pipeline {self.pipeline!r}"

    @property
    def job_id(self) -> str:
        """Name what the run publishes, in the table's transactions."""
        return f"pipeline/{self.pipeline}/{self.run_id}"

    def lease(self, *, take_over: bool = False) -> AbstractContextManager[Lease]:
        """Hold the run, or raise 14 if somebody else works on it."""
        return held(self.store, self._path("lease.json"), self.subject, take_over=take_over)

    def outcome(self) -> dict[str, Any] | None:
        """Give the report of a run that is published, None of one that is not."""
        return self._read("outcome.json")

    def published_report(self, outcome: dict[str, Any]) -> RunReport:
        """Return what `outcome` gave as a report; error 19 if it is none."""
        try:
            return RunReport.of(outcome)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self.damaged(self._path("outcome.json"), f"{type(error).__name__}: {error}") from error

    def beginning(self) -> dict[str, Any] | None:
        """Give what was noted when the run began, None if it did not, or was cleaned up since."""
        return self._read("run.json")

    def begin(self, fingerprint: str, reads: dict[str, Any]) -> dict[str, Any]:
        """Note what the run is and reads; gives what was noted first."""
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return self._once("run.json", {"fingerprint": fingerprint, "reads": reads, "started": started})[0]

    def require_same(self, noted: dict[str, Any], fingerprint: str) -> None:
        """Raise 19 if the run was begun by another definition of the pipeline."""
        if noted.get("format") != _FORMAT:
            raise InvalidTableStateError(f"{self.subject} was written by another version of Pennon; start a new run")
        if noted.get("fingerprint") != fingerprint:
            raise InvalidTableStateError(
                f"{self.subject} was begun with another definition or other variables; take the old ones to go on with "
                "it, or start a new run with another id"
            )

    def done(self, work: str) -> dict[str, Any] | None:
        """Give what was recorded of a piece of work, None if it is not finished."""
        return self._read(f"done/{work}.json")

    def record(self, work: str, content: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Note that a piece of work is finished; gives what counts, and whether that is this content."""
        return self._once(f"done/{work}.json", content)

    def undo(self, work: str) -> None:
        """Forget a piece of work, so that it is done again."""
        self.store.delete(self._path(f"done/{work}.json"))

    def all_done(self) -> list[str]:
        """Return the names of all pieces of work that are finished."""
        files = self.store.list_level(self._path("done")).files
        return sorted(one.name.removesuffix(".json") for one in files if one.name.endswith(".json"))

    def place_of(self, work: str) -> str:
        """Return where a piece of work is recorded, below the root."""
        return self._path(f"done/{work}.json")

    def data_path(self, work: str) -> str:
        """Choose a new place for the result of a piece of work."""
        return self._path(f"data/{work}-{secrets.token_hex(_DATA_BYTES)}")

    def require_data_path(self, work: str, path: object) -> str:
        """Return a path that `data_path` may have chosen for a piece of work; any other raises 19."""
        beginning = self._path(f"data/{work}-")
        digits = path.removeprefix(beginning) if isinstance(path, str) else ""
        if not isinstance(path, str) or path == digits or not _DIGITS.fullmatch(digits):
            raise self.damaged(self.place_of(work), f"{path!r} is not a place of this run")
        return path

    def damaged(self, path: str, reason: object) -> InvalidTableStateError:
        """Return the error for a part of the state that cannot be used."""
        return InvalidTableStateError(
            f"{self.subject}: {path!r} in its state cannot be used, and nothing was deleted for it: {reason}. If the "
            "run is not needed any more, delete that object"
        )

    def finish(self, report: dict[str, Any]) -> None:
        """Note that the run is published, and remove what it needs no more."""
        noted = self.beginning() or {}
        self._once("outcome.json", {**report, "fingerprint": noted.get("fingerprint")})
        self.tidy()

    def tidy(self) -> None:
        """Remove the results of steps, and the notes of what is finished; nothing is asked if nothing is there."""
        for name in self.store.list_names(self._path("").rstrip("/")) & {"data", "done"}:
            self.store.delete_tree(self._path(name))

    def forget(self, report: dict[str, Any] | None = None) -> None:
        """Remove all but the lease, so that the run can begin anew; the report stays to be looked at."""
        # The beginning goes last: as long as it is there, a run that is taken up cleans up what is left.
        self.tidy()
        if report is not None:
            self.store.put(self._path("last-report.json"), _encoded(report))
        self.store.delete(self._path("run.json"))

    def _path(self, name: str) -> str:
        return f"{DIRECTORY}/{self.pipeline}/{self.run_id}/{name}"

    def _read(self, name: str) -> dict[str, Any] | None:
        blob = self.store.get(self._path(name))
        if blob is None:
            return None
        try:
            content = json.loads(blob.body)
        except (ValueError, RecursionError) as error:
            raise self.damaged(self._path(name), error) from error
        if not isinstance(content, dict):
            raise self.damaged(self._path(name), "it is no JSON object")
        return content

    def _once(self, name: str, content: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        body = _encoded({**content, "format": _FORMAT, "token": uuid.uuid4().hex})
        if self.store.create(self._path(name), body) is not None:
            return dict(json.loads(body)), True
        found = self._read(name)
        if found is None:
            # It was there and is gone: the run was cleaned up by somebody who took it over.
            raise InvalidTableStateError(f"{self.subject} was cleaned up by somebody else meanwhile")
        return found, False


def _encoded(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1, default=str).encode()
