"""The runs that a root has records of, for those who look at them. Nothing that is read is trusted, or changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pennon.errors import UnusableEntryError
from pennon.pipeline_runs import run_state
from pennon.pipeline_runs.lease import find_holder
from pennon.pipeline_runs.report import PUBLISHED, RunReport
from pennon.pipeline_runs.run_state import describe_fault, is_run_name
from pennon.stored_json import parse_stored_object

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from pennon.store import Store

LARGEST_REPORT = 4 << 20
"""The largest report, in bytes, that is read."""
_LONGEST_TEXT = 1000
RunStatus = Literal["published", "checks failed", "in progress", "cut off", "unreadable"]


@dataclass(frozen=True)
class RecordedRun:
    """What is recorded about a run."""

    pipeline: str
    run_id: str
    status: RunStatus
    report: RunReport | None = None
    """The report of a run that has ended."""
    finished_work: tuple[str, ...] = ()
    """The pieces of work that are finished, of a run that has not ended."""
    started: str = ""
    error: str = ""
    """The error that ended the last attempt."""
    fault: str = ""
    """Why the record cannot be read."""


def list_pipelines(store: Store) -> list[str]:
    """Return the names of all pipelines with recorded runs, sorted. Costs one listing."""
    return sorted(name for name in store.list_level(run_state.DIRECTORY).directories if is_run_name(name))


def list_run_ids(store: Store, pipeline: str) -> list[str]:
    """Return the ids of the runs of a pipeline. Those that Pennon generates, and dates, begin with the latest."""
    if not is_run_name(pipeline):
        return []
    found = store.list_level(f"{run_state.DIRECTORY}/{pipeline}").directories
    return sorted(filter(is_run_name, found), reverse=True)


def read_runs(store: Store, pipeline: str, run_ids: Iterable[str]) -> list[RecordedRun]:
    """Return what is recorded about runs; those that have no records are left out."""
    found = store.map(lambda run_id: read_run(store, pipeline, run_id), run_ids)
    return [one for one in found if one is not None]


def read_run(store: Store, pipeline: str, run_id: str) -> RecordedRun | None:
    """Return what is recorded about a run, or None if nothing is. Costs a listing and one to three reads."""
    if not is_run_name(pipeline) or not is_run_name(run_id):
        return None
    directory = f"{run_state.DIRECTORY}/{pipeline}/{run_id}"
    names = {one.name for one in store.list_level(directory).files}
    try:
        if run_state.OUTCOME in names:
            report = _read_report(store, f"{directory}/{run_state.OUTCOME}")
            return RecordedRun(pipeline, run_id, PUBLISHED, report)  # type: ignore[arg-type]  # it is one of them
        if run_state.START in names:
            return _read_unfinished(store, directory, pipeline, run_id, has_error=run_state.LAST_ERROR in names)
        if run_state.LAST_REPORT in names:
            report = _read_report(store, f"{directory}/{run_state.LAST_REPORT}")
            return RecordedRun(pipeline, run_id, "checks failed", report)
    except (UnusableEntryError, ValueError) as error:
        fault = describe_fault(error) if isinstance(error, ValueError) else str(error)
        return RecordedRun(pipeline, run_id, "unreadable", fault=fault[:_LONGEST_TEXT])
    return None


def _read_unfinished(store: Store, directory: str, pipeline: str, run_id: str, *, has_error: bool) -> RecordedRun:
    start = _read(store, f"{directory}/{run_state.START}")
    holder = find_holder(store, f"{directory}/{run_state.LEASE}")
    done = store.list_level(f"{directory}/{run_state.DONE}").files
    error = _read(store, f"{directory}/{run_state.LAST_ERROR}") if has_error and holder is None else {}
    return RecordedRun(
        pipeline,
        run_id,
        "cut off" if holder is None else "in progress",
        finished_work=tuple(sorted(one.name.removesuffix(".json") for one in done if one.name.endswith(".json"))),
        started=_text(start, "started"),
        error=": ".join(filter(None, (_text(error, "kind"), _text(error, "message")))),
    )


def _read_report(store: Store, path: str) -> RunReport:
    return RunReport.of(_read(store, path))


def _read(store: Store, path: str) -> dict[str, Any]:
    """Return a stored object. Raises ValueError if it is anything else, and UnusableEntryError if it is too large."""
    blob = store.get(path, max_bytes=LARGEST_REPORT)
    if blob is None:
        raise ValueError("it is being deleted")
    return parse_stored_object(blob.body)


def _text(content: dict[str, Any], key: str) -> str:
    value = content.get(key)
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""
