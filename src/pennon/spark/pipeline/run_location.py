"""Where the runs of a catalog are recorded: in its root, or at another location."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.pipeline_runs.run_state import RunState, validate_run_id
from pennon.store import open_store
from pennon.store.root import make_root_absolute

if TYPE_CHECKING:
    from pennon.spark.address import Address
    from pennon.store import Store


def root_store(address: Address) -> Store | None:
    """Return the store of a catalog's root, or None if it has no root."""
    root = dict(address.properties).get("root")
    return None if root is None else open_store(root, address.storage_options)


def open_run_state(address: Address, pipeline: str, run_id: str, place: str | None = None) -> RunState:
    """Return the state of a run in the root of a catalog, or at `place`. Raises InvalidInputError for a bad id."""
    store = root_store(address) if place is None else open_store(make_root_absolute(place), address.storage_options)
    if store is None:
        raise InvalidInputError(
            f"A catalog of type {address.impl!r} cannot record runs: pass a location for them (state, or --state)"
        )
    return RunState(store, pipeline, validate_run_id(run_id))
