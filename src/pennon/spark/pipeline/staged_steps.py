"""Staging the result of a step until the run ends, as a Lance table in the run's directory, outside the catalog."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidTableStateError, is_not_found
from pennon.spark import tables, types
from pennon.spark.reading import scan
from pennon.spark.tables.destination import Destination
from pennon.spark.tables.fragment_writer import FragmentWriter, write_dataframe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pennon.pipeline_runs.run_state import RunState
    from pennon.spark.address import Address
    from pennon.spark.reading.scan import Scan


def stage_step(address: Address, state: RunState, name: str, frame: DataFrame) -> dict[str, Any]:
    """Write the rows of a step, and return what to record.

    A crash leaves files that are deleted when the run ends.
    """
    started = time.monotonic()
    path = state.data_path(f"step.{name}")
    plan = types.plan_write(frame.schema, types.table_schema(frame.schema))
    writer = FragmentWriter(_destination(address, state, name, path), plan, uuid.uuid4().hex, "create")
    staged = tables.make_readable(writer.stage(write_dataframe(frame, writer)))
    seconds = round(time.monotonic() - started, 3)
    return {"path": path, "rows": staged.rows, "bytes": staged.bytes, "seconds": seconds}


def open_staged_step(address: Address, state: RunState, name: str, note: dict[str, Any]) -> Scan:
    """Return the staged rows of a step. Raises InvalidTableStateError if they are gone."""
    path = state.require_data_path(f"step.{name}", note.get("path"))
    try:
        return scan.scan_pinned(_destination(address, state, name, path).pin_version(1))
    except (OSError, ValueError) as error:
        if is_not_found(error):
            raise InvalidTableStateError(f"{state.subject}: the result of step {name!r} is gone") from error
        raise


def _destination(address: Address, state: RunState, name: str, path: str) -> Destination:
    store = state.store
    return Destination(address, ("step", name), store.location(path), tuple(sorted(store.storage_options.items())))
