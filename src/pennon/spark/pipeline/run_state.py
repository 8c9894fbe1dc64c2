"""The state of a run, recorded in the catalog's own store, so that the run can be resumed.

```
__pennon/runs/<pipeline>/<run id>/
  lease.json         the process that works on it
  run.json           the pipeline's fingerprint and the versions that the run reads
  done/<work>.json   one for each finished piece of work
  outcome.json       the report of a published run
  last-report.json   the report of the last attempt that published nothing
  data/              results of steps, until the run ends
```
The name of the directory is reserved, so no table can have it and listings ignore it. Every object except the lease
and the last report is written once, by put-if-absent. If two processes do the same work, both continue with what the
first one recorded.
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
from pennon.spark.pipeline.lease import Lease, hold_lease
from pennon.spark.pipeline.report import RunReport
from pennon.store import open_store
from pennon.store.root import make_root_absolute

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from pennon.spark.address import Address
    from pennon.store import Store

DIRECTORY = "__pennon/runs"
_RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,99}")
_FORMAT = 1
_DATA_BYTES = 8
_DIGITS = re.compile(rf"[0-9a-f]{{{2 * _DATA_BYTES}}}")


def new_run_id() -> str:
    """Return a new unique id that sorts by time."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def validate_run_id(run_id: str) -> str:
    """Return the id. Raises InvalidInputError if it is malformed."""
    if not _RUN_ID.fullmatch(run_id):
        raise InvalidInputError(
            f"Bad run id {run_id!r}: use up to 100 letters, digits, '_', '-' and '.', beginning with a letter or digit"
        )
    return run_id


def root_store(address: Address) -> Store | None:
    """Return the store of a catalog's root, or None if it has no root."""
    root = dict(address.properties).get("root")
    return None if root is None else open_store(root, address.storage_options)


@dataclass(frozen=True)
class RunState:
    """The state of one run."""

    store: Store
    pipeline: str
    run_id: str

    @classmethod
    def open(cls, address: Address, pipeline: str, run_id: str, place: str | None = None) -> RunState:
        """Return the state of a run in the root of a catalog, or at `place`. Raises InvalidInputError for a bad id."""
        options = address.storage_options
        store = root_store(address) if place is None else open_store(make_root_absolute(place), options)
        if store is None:
            raise InvalidInputError(
                f"A catalog of type {address.impl!r} cannot record runs: pass a location for them (state, or --state)"
            )
        return cls(store, pipeline, validate_run_id(run_id))

    @property
    def subject(self) -> str:
        """The name of the run in messages."""
        return f"Run {self.run_id!r} of pipeline {self.pipeline!r}"

    @property
    def job_id(self) -> str:
        """The id of the run in the transactions of tables."""
        return f"pipeline/{self.pipeline}/{self.run_id}"

    def lease(self, *, take_over: bool = False) -> AbstractContextManager[Lease]:
        """Hold the run's lease. Raises ConcurrentModificationError if another process works on the run."""
        return hold_lease(self.store, self._path("lease.json"), self.subject, take_over=take_over)

    def read_outcome(self) -> dict[str, Any] | None:
        """Return the report of a published run, or None."""
        return self._read(self._path("outcome.json"))

    def published_report(self, outcome: dict[str, Any]) -> RunReport:
        """Return the result of `read_outcome` as a report. Raises InvalidTableStateError if it is malformed."""
        with self.parsing(self._path("outcome.json")):
            return RunReport.of(outcome)

    def read_start(self) -> dict[str, Any] | None:
        """Return what was recorded when the run began, or None if it did not begin or was cleaned up."""
        return self._read(self._path("run.json"))

    def begin(self, fingerprint: str, reads: dict[str, Any]) -> dict[str, Any]:
        """Record what the run is and reads; return what was recorded first."""
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        content = {"fingerprint": fingerprint, "reads": reads, "started": started}
        return self._write_once(self._path("run.json"), content)[0]

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
        files = self.store.list_level(self._path("done")).files
        return sorted(one.name.removesuffix(".json") for one in files if one.name.endswith(".json"))

    def note_path(self, work: str) -> str:
        """Return the path of the record of a piece of work, relative to the root."""
        return self._path(f"done/{work}.json")

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
        self._write_once(self._path("outcome.json"), {**report, "fingerprint": noted.get("fingerprint")})
        self.tidy()

    def tidy(self) -> None:
        """Delete the results of steps and the records of finished work; does nothing if there are none."""
        for name in self.store.list_names(self._path("").rstrip("/")) & {"data", "done"}:
            self.store.delete_tree(self._path(name))

    def forget(self, report: dict[str, Any] | None = None) -> None:
        """Delete everything except the lease and the report, so that the run can begin again."""
        # The start is deleted last: while it exists, a resumed run deletes what is left.
        self.tidy()
        if report is not None:
            self.store.put(self._path("last-report.json"), _encode(report))
        self.store.delete(self._path("run.json"))

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


def _encode(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1, default=str).encode()
