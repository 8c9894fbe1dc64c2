"""The state of a run, recorded in the catalog's own store, so that the run can be resumed.

```
__pennon/runs/<pipeline>/<run id>/
  lease.json         the process that works on it
  run.json           the pipeline's fingerprint and the versions that the run reads
  done/<work>.json   one for each finished piece of work
  outcome.json       the report of a published run
  last-report.json   the report of the last attempt that published nothing
  last-error.json    the error that ended the last attempt, which can be resumed
  data/              results of steps, until the run ends
```
The name of the directory is reserved, so no table can have it and listings ignore it. Every object except the lease,
the last report and the last error is written once, by put-if-absent. If two processes do the same work, both continue
with what the first one recorded.
"""

from __future__ import annotations

import json
import re
import secrets
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pennon.errors import InvalidInputError, InvalidTableStateError
from pennon.pipeline_runs.lease import Lease, hold_lease
from pennon.pipeline_runs.report import RunReport

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from pennon.store import Store

DIRECTORY = "__pennon/runs"
LEASE, START, OUTCOME = "lease.json", "run.json", "outcome.json"
LAST_REPORT, LAST_ERROR, DONE = "last-report.json", "last-error.json", "done"
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,99}")
_JOB = "pipeline"
_FORMAT = 1
_DATA_BYTES = 8
_DIGITS = re.compile(rf"[0-9a-f]{{{2 * _DATA_BYTES}}}")


def new_run_id() -> str:
    """Return a new unique id that sorts by time."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def is_run_name(name: str) -> bool:
    """Return True if a pipeline or a run can have this name."""
    return _NAME.fullmatch(name) is not None


def validate_run_id(run_id: str) -> str:
    """Return the id. Raises InvalidInputError if it is malformed."""
    if not is_run_name(run_id):
        raise InvalidInputError(
            f"Bad run id {run_id!r}: use up to 100 letters, digits, '_', '-' and '.', beginning with a letter or digit"
        )
    return run_id


def parse_job_id(job_id: str) -> tuple[str, str] | None:
    """Return the pipeline and the run with this job id, or None if it is that of another job."""
    kind, _, rest = job_id.partition("/")
    pipeline, _, run_id = rest.partition("/")
    return (pipeline, run_id) if kind == _JOB and is_run_name(pipeline) and is_run_name(run_id) else None


@dataclass(frozen=True)
class RunState:
    """The state of one run."""

    store: Store
    pipeline: str
    run_id: str

    @property
    def subject(self) -> str:
        """The name of the run in messages."""
        return f"Run {self.run_id!r} of pipeline {self.pipeline!r}"

    @property
    def job_id(self) -> str:
        """The id of the run in the transactions of tables."""
        return f"{_JOB}/{self.pipeline}/{self.run_id}"

    def lease(self, *, take_over: bool = False) -> AbstractContextManager[Lease]:
        """Hold the run's lease. Raises ConcurrentModificationError if another process works on the run."""
        return hold_lease(self.store, self._path(LEASE), self.subject, take_over=take_over)

    def read_outcome(self) -> dict[str, Any] | None:
        """Return the report of a published run, or None."""
        return self._read(self._path(OUTCOME))

    def published_report(self, outcome: dict[str, Any]) -> RunReport:
        """Return the result of `read_outcome` as a report. Raises InvalidTableStateError if it is malformed."""
        with self.parsing(self._path(OUTCOME)):
            return RunReport.of(outcome)

    def read_start(self) -> dict[str, Any] | None:
        """Return what was recorded when the run began, or None if it did not begin or was cleaned up."""
        return self._read(self._path(START))

    def begin(self, fingerprint: str, reads: dict[str, Any]) -> dict[str, Any]:
        """Record what the run is and reads; return what was recorded first."""
        content = {"fingerprint": fingerprint, "reads": reads, "started": _now()}
        return self._write_once(self._path(START), content)[0]

    def require_same(self, noted: dict[str, Any], fingerprint: str) -> None:
        """Raise InvalidTableStateError if the run was started with another definition of the pipeline."""
        if noted.get("format") != _FORMAT:
            raise InvalidTableStateError(f"{self.subject} was written by another version of Pennon; start a new run")
        if noted.get("fingerprint") != fingerprint:
            raise InvalidTableStateError(
                f"{self.subject} was started with another definition or other variables; use those to resume it, "
                "or start a new run with another id"
            )

    def read_note(self, work: str) -> dict[str, Any] | None:
        """Return what was recorded for a piece of work, or None if it is not finished."""
        return self._read(self.note_path(work))

    def record(self, work: str, content: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Record that a piece of work is finished; return what was recorded first, and whether that is this content."""
        return self._write_once(self.note_path(work), content)

    def undo(self, work: str) -> None:
        """Delete the record of a piece of work, so that it is done again."""
        self.store.delete(self.note_path(work))

    def finished_work(self) -> list[str]:
        """Return the names of all finished pieces of work."""
        files = self.store.list_level(self._path(DONE)).files
        return sorted(one.name.removesuffix(".json") for one in files if one.name.endswith(".json"))

    def note_path(self, work: str) -> str:
        """Return the path of the record of a piece of work, relative to the root."""
        return self._path(f"{DONE}/{work}.json")

    @contextmanager
    def parsing(self, path: str) -> Iterator[None]:
        """Raise InvalidTableStateError if the block raises ValueError for a malformed part of the state."""
        try:
            yield
        except ValueError as error:
            raise self.damaged_error(path, describe_fault(error)) from error

    def data_path(self, work: str) -> str:
        """Return a new path for the result of a piece of work."""
        return self._path(f"data/{work}-{secrets.token_hex(_DATA_BYTES)}")

    def require_data_path(self, work: str, path: object) -> str:
        """Return the path if `data_path` may have returned it. Raises InvalidTableStateError for any other."""
        beginning = self._path(f"data/{work}-")
        digits = path.removeprefix(beginning) if isinstance(path, str) else ""
        if not isinstance(path, str) or path == digits or not _DIGITS.fullmatch(digits):
            raise self.damaged_error(self.note_path(work), f"{path!r} is not a path of this run")
        return path

    def damaged_error(self, path: str, reason: object) -> InvalidTableStateError:
        """Return the error for a malformed part of the state."""
        return InvalidTableStateError(
            f"{self.subject}: {path!r} in its state cannot be used, and nothing was deleted because of it: "
            f"{reason}. If the run is no longer needed, delete that object"
        )

    def finish(self, report: dict[str, Any]) -> None:
        """Record that the run is published, and delete what is no longer needed."""
        noted = self.read_start() or {}
        self._write_once(self._path(OUTCOME), {**report, "fingerprint": noted.get("fingerprint")})
        self.tidy()

    def tidy(self) -> None:
        """Delete the results of steps and the records of finished work; does nothing if there are none."""
        for name in self.store.list_names(self._path("").rstrip("/")) & {"data", DONE}:
            self.store.delete_tree(self._path(name))

    def forget(self, report: dict[str, Any] | None = None) -> None:
        """Delete everything except the lease and the report, so that the run can begin again."""
        # The start is deleted last: while it exists, a resumed run deletes what is left.
        self.tidy()
        if report is not None:
            self.store.put(self._path(LAST_REPORT), _encode(report))
        self.store.delete(self._path(LAST_ERROR))
        self.store.delete(self._path(START))

    def note_error(self, kind: str, message: str) -> None:
        """Record the error that ended an attempt, if the run has begun. The message must contain no secrets."""
        if self.read_start() is not None:
            content = {"kind": kind, "message": message, "at": _now()}
            self.store.put(self._path(LAST_ERROR), _encode(content))

    def _path(self, name: str) -> str:
        return f"{DIRECTORY}/{self.pipeline}/{self.run_id}/{name}"

    def _read(self, path: str) -> dict[str, Any] | None:
        blob = self.store.get(path)
        if blob is None:
            return None
        try:
            content = json.loads(blob.body)
        except (ValueError, RecursionError) as error:
            raise self.damaged_error(path, error) from error
        if not isinstance(content, dict):
            raise self.damaged_error(path, "it is not a JSON object")
        return content

    def _write_once(self, path: str, content: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        body = _encode({**content, "format": _FORMAT, "token": uuid.uuid4().hex})
        if self.store.create(path, body) is not None:
            return dict(json.loads(body)), True
        found = self._read(path)
        if found is None:
            # It existed and is gone: a process that took over the run has cleaned it up.
            raise InvalidTableStateError(f"{self.subject} was cleaned up by another process")
        return found, False


def describe_fault(error: ValueError) -> str:
    """Return what is wrong with stored values, in one line."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _encode(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1, default=str).encode()
