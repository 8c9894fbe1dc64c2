"""Checks of the store of a root: its promises, and what killed processes left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pennon.doctor.checking import WARNING
from pennon.results import Finding, StorePromise
from pennon.store import root_paths
from pennon.store.probing import CLOCK, WRITING, probe_store, remove_probe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pennon.store import Store

_OLD_SECONDS = 3600.0
"""A younger probe may belong to a process that runs."""
_ADVICE = {
    WRITING.name: "use credentials that may write, or skip the probe: pennon doctor --no-probe",
    CLOCK.name: "synchronize the clocks, as by NTP, before anything is purged or created",
}
_OTHER_STORE = "do not write to this root with several clients: use another store, or update its server"
_WEIGHTLESS = "nothing has to be done"


@dataclass
class Measurements:
    """What an examination measures besides its findings."""

    figures: dict[str, str | float | int] = field(default_factory=dict)
    promises: list[StorePromise] = field(default_factory=list)


def probe(store: Store, measured: Measurements, *, pages: bool) -> Iterator[Finding]:
    """Probe a store, and iterate over the promises that it does not keep."""
    found = probe_store(store, pages=pages)
    figures = measured.figures
    if found.round_trip_ms is not None:
        figures["round_trip_ms"] = round(found.round_trip_ms, 3)
    if found.write_ms is not None:
        figures["write_ms"] = round(found.write_ms, 3)
    if found.clock_ahead_seconds is not None:
        figures["clock_ahead_seconds"] = round(found.clock_ahead_seconds, 1)
    if found.file_system:
        figures["file_system"] = found.file_system
    measured.promises[:] = [
        StorePromise(one.promise.name, one.promise.needed_for, not one.fault) for one in found.results
    ]
    for result in found.results:
        if result.fault:
            promise = result.promise
            advice = _ADVICE.get(promise.name, _WEIGHTLESS if promise.weight == "note" else _OTHER_STORE)
            yield Finding(promise.weight, promise.name, f"{result.fault} (needed for: {promise.needed_for})", advice)


def find_leftovers(store: Store, probes: frozenset[str]) -> Iterator[Finding]:
    """Iterate over what killed processes left of probes, deletions and writes in a root."""
    advice = "delete it: pennon doctor --fix"
    for name in _list_old_probes(store, probes):
        yield Finding(WARNING, name, "a probe of the store was killed and left this", advice, fixable=True)
    for path in store.list_leftovers():
        problem = "a killed process left this half deleted or half written; no table uses it"
        yield Finding(WARNING, path, problem, advice, fixable=True)


def remove_leftovers(store: Store, findings: Sequence[Finding]) -> Iterator[str]:
    """Delete leftovers of probes, deletions and writes."""
    leftovers = set(store.list_leftovers())
    for finding in findings:
        if finding.subject not in leftovers:
            remove_probe(store, finding.subject)
    store.remove_leftovers()
    yield from ()


def _list_old_probes(store: Store, probes: frozenset[str]) -> list[str]:
    if not probes:
        return []
    now = store.now()
    return [name for name in sorted(probes) if now - _find_last_write(store, name) > _OLD_SECONDS]


def _find_last_write(store: Store, name: str) -> float:
    times = [file.modified for file in store.list_level(name).files]
    if store.is_local:
        status = root_paths.read_status(store.identity(), name)
        times += [] if status is None else [status.st_mtime]
    elif (blob := store.get(name)) is not None:
        times.append(blob.modified)
    return max(times, default=0.0)
