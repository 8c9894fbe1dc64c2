"""Processes that are killed (SIGKILL) at each named point of drop, undrop, re-creation and purge.

The points are the calls that change what is stored: conditional writes, writes, commits and deletions. How often each
is called is counted in an undisturbed run. The short tests kill on both sides of each call, and vary the next call; the
long ones try all next calls.

The model of the storms defines the allowed states: the killed call happened or not, the next client completes or undoes
it, and each outcome agrees.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pytest

from tests.concurrency import workers
from tests.concurrency.aftermath import find_faults, leftovers
from tests.concurrency.crew import Child
from tests.concurrency.hooks import (
    COMMIT_DATA,
    COMMIT_MANIFEST,
    CREATE,
    CREATE_OBJECT,
    DELETE,
    DELETE_OBJECT_IF,
    DELETE_OBJECT_IN_TIME,
    DELETE_OBJECTS,
    PUT,
    PUT_OBJECT,
    REMOVE_FILES,
    SWAP_OBJECT,
    WRITE_DATA,
    Point,
    after,
    before,
    count_at,
)
from tests.concurrency.storm import Call, Place, do, one_call, record_call
from tests.support import Root

pytestmark = pytest.mark.concurrency

MODES = ["v1", "v2", "compatibility"]
OPERATIONS = ["drop", "undrop", "create", "purge"]
TABLES = [WRITE_DATA, COMMIT_DATA, COMMIT_MANIFEST]
ON_DISK = [CREATE, PUT, DELETE, REMOVE_FILES, *TABLES]
IN_BUCKETS = [CREATE_OBJECT, SWAP_OBJECT, PUT_OBJECT, DELETE_OBJECT_IF, DELETE_OBJECT_IN_TIME, DELETE_OBJECTS, *TABLES]
NEXT = ["status", "undrop", "create", "purge", "drop", "write"]
"""The first call after a kill, in turn."""
REFUSED = {4, 14}


@dataclass(frozen=True)
class Case:
    """An operation in one place that is killed at a point."""

    place: Place
    what: str
    point: Point
    next_call: str


def prepare(place, what):
    """Create a live table for a drop, or a dropped one for other operations, and return the calls."""
    with workers.open_client(place.root, place.mode) as ns:
        calls = [record_call(ns, "t", "create", "old")]
        if what != "drop":
            calls.append(record_call(ns, "t", "drop", ""))
        return calls


def prepare_burnt(place):
    """Leave a dropped table over which a creation was killed after it had committed its version."""
    calls = prepare(place, "create")
    calls.append(killed(Case(place, "create", after(COMMIT_DATA), "")))
    return calls


def measure(places, calls):
    """Return the number of calls of each operation in each place. This runs in a process of its own."""
    counts = count_at(calls)
    measured = {}
    for place, what in places:
        prepare(place, what)
        with workers.open_client(place.root, place.mode) as ns:
            workers.read_catalog(ns)
            counts.update(dict.fromkeys(counts, 0))
            do(ns, "t", what, "new", [])
            measured[place.mode, what] = {call: count for call, count in counts.items() if count}
    return measured


def measured(place_at, modes, calls):
    places = [(Place(place_at(f"{mode}-{what}"), mode), what) for mode in modes for what in OPERATIONS]
    with Child(measure, places, calls) as child:
        return child.result()


def places_on_disk(tmp_path):
    return lambda name: Root(str(tmp_path / name))


def places_in(bucket):
    return lambda name: Root(f"{bucket.uri}/{name}", bucket.options)


@pytest.fixture(scope="module")
def counts_on_disk(tmp_path_factory):
    return measured(places_on_disk(tmp_path_factory.mktemp("measured")), MODES, ON_DISK)


def points_around_each(counts):
    return [
        side(call, number + 1) for call, count in counts.items() for number in range(count) for side in (before, after)
    ]


def cases(place_at, mode, what, points):
    return [
        Case(Place(place_at(f"root-{what}-{number}"), mode), what, point, NEXT[number % len(NEXT)])
        for number, point in enumerate(points)
    ]


def kill_all(chosen, prepared=lambda case: prepare(case.place, case.what)):
    """Kill in each case, two at a time, and fail with everything that is wrong."""
    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(lambda case: wrong_after_kill(case, prepared(case)), chosen))
    wrong = [text for texts in told for text in texts]
    assert not wrong, "\n".join(wrong)


def wrong_after_kill(case, calls):
    """Kill, make the next call, and return what is wrong."""
    place = case.place
    shown = f"{place.mode} {case.what} killed {case.point}, then {case.next_call}"
    try:
        calls.append(killed(case))
        with workers.open_client(place.root, place.mode) as ns:
            doomed = [table for table in ns.list_dropped_tables()[0] if table.being_purged]
            calls.append(record_call(ns, "t", case.next_call, "next"))
            if doomed:
                calls.append(record_call(ns, "t", "undrop", ""))
                assert calls[-1].code in REFUSED | ({5} if calls[-2].what in {"create", "write"} else set())
            wrong = list(find_faults(place, ns, "t", calls, alone=True))
        wrong += leftovers(place, calls)
    except AssertionError as error:
        wrong = [str(error)]
    return [f"{shown}: {text}" for text in wrong]


def killed(case):
    begun = time.monotonic()
    arguments = (case.place.root, case.place.mode, case.point, partial(one_call, what=case.what), "t")
    with Child(workers.die_at, *arguments) as child:
        child.wait_until_killed()
    return Call(0, "t", case.what, "killed", begun, time.monotonic(), killed=True)


@pytest.mark.parametrize("what", OPERATIONS)
@pytest.mark.parametrize("mode", MODES)
def test_next_client_completes_or_undoes_a_killed_operation(tmp_path, counts_on_disk, mode, what):
    kill_all(cases(places_on_disk(tmp_path), mode, what, points_around_each(counts_on_disk[mode, what])))


@pytest.mark.parametrize("mode", ["v1", "compatibility"])
def test_next_client_completes_or_undoes_a_killed_restore_after_a_killed_creation(tmp_path, mode):
    points = [side(call) for call in (COMMIT_DATA, DELETE) for side in (before, after)]
    kill_all(cases(places_on_disk(tmp_path), mode, "undrop", points), lambda case: prepare_burnt(case.place))


@pytest.mark.soak
@pytest.mark.parametrize("next_call", NEXT)
@pytest.mark.parametrize("mode", MODES)
def test_every_next_call_completes_or_undoes_a_killed_operation(tmp_path, counts_on_disk, mode, next_call):
    chosen = [
        Case(case.place, case.what, case.point, next_call)
        for what in OPERATIONS
        for case in cases(places_on_disk(tmp_path), mode, what, points_around_each(counts_on_disk[mode, what]))
    ]
    kill_all(chosen)


FEW_IN_A_BUCKET = {
    "undrop": [after(SWAP_OBJECT), before(DELETE_OBJECT_IF)],
    "create": [after(SWAP_OBJECT), after(COMMIT_DATA), before(DELETE_OBJECT_IF)],
    # The first calls of a purge probe the store.
    "purge": [after(SWAP_OBJECT, 3), after(DELETE_OBJECT_IN_TIME), before(DELETE_OBJECTS, 2), after(DELETE_OBJECTS, 2)],
}


@pytest.mark.soak
@pytest.mark.s3
def test_next_client_completes_or_undoes_a_killed_operation_in_a_bucket(bucket):
    chosen = [
        case
        for what, points in FEW_IN_A_BUCKET.items()
        for case in cases(places_in(bucket), "compatibility", what, points)
    ]
    kill_all(chosen)


@pytest.mark.soak
@pytest.mark.s3
@pytest.mark.parametrize("mode", MODES)
def test_next_client_completes_or_undoes_an_operation_killed_at_each_point_in_a_bucket(bucket, mode):
    counts = measured(places_in(bucket), [mode], IN_BUCKETS)
    chosen = [
        case
        for what in OPERATIONS
        for case in cases(places_in(bucket), mode, what, points_around_each(counts[mode, what]))
    ]
    kill_all(chosen)
