"""Compare many clients at once: threads and processes that change one catalog, by Pennon and by pylance's own client.

Run it as `python benchmarks/concurrency.py`; `--help` lists its options. Each measurement runs for a fixed number of
calls on a root of its own, on a local disk or in a bucket 20 ms away (SeaweedFS behind a proxy), in V2. A call that
loses against others and raises is counted as a failure, not as a call.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import operations
from bucket import open_bucket
from figures import PER_SECOND, TIMES, Figure, Goal, Section, run_section, share
from lance_namespace import CreateNamespaceRequest, CreateTableRequest, DescribeTableRequest, InsertIntoTableRequest
from progress import stage
from results import OURS, REFERENCE
from seeding import ROWS, arrow_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lance_namespace import LanceNamespace
    from rich.console import Console

DISK, BUCKET = "disk", "bucket at 20 ms"
SWITCHES = {"manifest_enabled": "true", "dir_listing_enabled": "false"}
THREADS, WRITERS, PROCESSES = 32, 16, 8
GOALS = {
    ("threads", DISK): share(2_500, 426),
    ("threads", BUCKET): share(150, 5.2),
    ("appends", BUCKET): share(60, 36),
    ("processes", DISK): share(250, 124),
    ("processes", BUCKET): share(9, 5.1),
}
FAIR = Goal(20, relative=False)
"""The slowest of the calls may take this many times the median."""


@dataclass(frozen=True)
class Calls:
    """The calls of each thread or process."""

    disk: int
    bucket: int
    reference_bucket: int
    """Fewer, because the reference takes seconds for each."""
    appends: int
    processes_disk: int
    processes_bucket: int


FULL = Calls(disk=60, bucket=15, reference_bucket=2, appends=12, processes_disk=25, processes_bucket=25)
QUICK = Calls(disk=6, bucket=2, reference_bucket=1, appends=1, processes_disk=3, processes_bucket=1)


@dataclass
class Outcome:
    """The seconds of each call, the seconds of the whole measurement, and the number of failures."""

    calls: list[float] = field(default_factory=list)
    seconds: float = 0.0
    failures: int = 0

    @property
    def rate(self) -> float:
        """Successful calls per second."""
        return len(self.calls) / self.seconds

    @property
    def unfairness(self) -> float | None:
        """The slowest call as a multiple of the median."""
        return max(self.calls) / statistics.median(self.calls) if self.calls else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the section, or one of its processes."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["--process"]:
        return _run_process(*given[1:])
    from plot import draw_bars

    return run_section("concurrency", "Many clients at once", measure, draw_bars, given)


def measure(console: Console, quick: bool) -> Section:  # noqa: FBT001 - the signature of all sections
    """Measure threads and processes on a disk and in a bucket."""
    calls = QUICK if quick else FULL
    section = Section()
    with (
        open_bucket() as endpoint,
        tempfile.TemporaryDirectory(prefix="pennon-benchmark-", ignore_cleanup_errors=True) as directory,
    ):

        def properties(place: str, name: str) -> dict[str, str]:
            if place == DISK:
                return {"root": str(Path(directory, name)), **SWITCHES}
            return {"root": endpoint.uri(name), **endpoint.properties(), **SWITCHES}

        for place in (DISK, BUCKET):
            with stage(console, f"{THREADS} threads, {place}", 1):
                counts = (calls.disk, calls.disk) if place == DISK else (calls.bucket, calls.reference_bucket)
                ours, reference = (
                    run_threads(_open(name, properties(place, f"threads-{name}")), count)
                    for name, count in zip((OURS, REFERENCE), counts, strict=True)
                )
                client = f"{THREADS} threads, {place}"
                _add(section, client, "create_namespace", GOALS["threads", place], ours=ours, reference=reference)
        with stage(console, f"{WRITERS} threads append", 1):
            ours = append_managed(_open(OURS, properties(BUCKET, "appends")), calls.appends)
            reference = append_unmanaged(_open(REFERENCE, properties(BUCKET, "unmanaged")), calls.appends, endpoint)
            client = f"{WRITERS} threads, own tables, {BUCKET}"
            _add(section, client, "append", GOALS["appends", BUCKET], ours=ours, reference=reference)
        for place in (DISK, BUCKET):
            with stage(console, f"{PROCESSES} processes, {place}", 1):
                count = calls.processes_disk if place == DISK else calls.processes_bucket
                ours, reference = (
                    run_processes(name, properties(place, f"processes-{name}"), count) for name in (OURS, REFERENCE)
                )
                client = f"{PROCESSES} processes, {place}"
                _add(section, client, "create_namespace", GOALS["processes", place], ours=ours, reference=reference)
    section.notes.append("the reference appends without a catalog: to tables whose versions nobody manages")
    return section


def _add(section: Section, client: str, operation: str, goal: Goal, *, ours: Outcome, reference: Outcome) -> None:
    """Add the rate, and the slowest call as a multiple of the median."""
    failed = [
        f"{client}: {outcome.failures} calls of {name} failed"
        for name, outcome in ((OURS, ours), (REFERENCE, reference))
        if outcome.failures
    ]
    remark = "; ".join(failed)
    slowest = f"slowest of {len(ours.calls)} calls / median"
    section.figures += [
        Figure(client, operation, PER_SECOND, ours.rate, reference.rate, goal, remark=remark),
        Figure(client, slowest, TIMES, ours.unfairness, reference.unfairness, FAIR),
    ]


def run_threads(namespace: LanceNamespace, count: int) -> Outcome:
    """Create namespaces with one client in many threads."""
    namespace.create_namespace(CreateNamespaceRequest(id=["first"]))

    def create(thread: int, index: int) -> None:
        namespace.create_namespace(CreateNamespaceRequest(id=[f"n{thread}-{index}"]))

    outcome = _in_threads(THREADS, count, create)
    operations.close(namespace)
    return outcome


def append_managed(namespace: LanceNamespace, count: int) -> Outcome:
    """Append to managed tables through the catalog, each thread to its own."""
    namespace.enable_table_version_management()  # type: ignore[attr-defined]
    data = arrow_stream()
    for thread in range(WRITERS):
        namespace.create_table(CreateTableRequest(id=[f"t{thread}"]), data)

    def append(thread: int, _index: int) -> None:
        namespace.insert_into_table(InsertIntoTableRequest(id=[f"t{thread}"]), data)

    outcome = _in_threads(WRITERS, count, append)
    operations.close(namespace)
    return outcome


def append_unmanaged(namespace: LanceNamespace, count: int, endpoint: Any) -> Outcome:  # noqa: ANN401 - an S3Endpoint
    """Append to tables with Lance itself, each thread to its own."""
    options, locations = endpoint.storage_options(), {}
    for thread in range(WRITERS):
        namespace.create_table(CreateTableRequest(id=[f"t{thread}"]), arrow_stream())
        locations[thread] = namespace.describe_table(DescribeTableRequest(id=[f"t{thread}"])).location

    def append(thread: int, _index: int) -> None:
        lance.write_dataset(ROWS, locations[thread], mode="append", storage_options=options)

    return _in_threads(WRITERS, count, append)


def run_processes(name: str, properties: dict[str, str], count: int) -> Outcome:
    """Create namespaces in many processes, which start together once all have opened the catalog."""
    first = _open(name, properties)
    first.create_namespace(CreateNamespaceRequest(id=["first"]))
    operations.close(first)
    command = [sys.executable, __file__, "--process", name, json.dumps(properties), str(count)]
    children = [
        subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(PROCESSES)
    ]
    for child in children:
        assert child.stdout is not None  # noqa: S101 - it is a pipe
        child.stdout.readline()
    start = time.perf_counter()
    for child in children:
        assert child.stdin is not None  # noqa: S101 - it is a pipe
        child.stdin.write("go\n")
        child.stdin.flush()
    outcome = Outcome()
    for child in children:
        answer = json.loads(child.communicate()[0])
        outcome.calls += answer["calls"]
        outcome.failures += answer["failures"]
        outcome.seconds = max(outcome.seconds, answer["end"] - start)
    return outcome


def _run_process(name: str, properties: str, count: str, number: str) -> int:
    """Be one of the processes: open the catalog, wait for the signal, create namespaces, print the outcome."""
    namespace = _open(name, json.loads(properties))
    namespace.create_namespace(CreateNamespaceRequest(id=[f"warm-{number}"]))
    print("ready", flush=True)
    sys.stdin.readline()
    outcome = Outcome()
    for index in range(int(count)):
        _call(outcome, partial(namespace.create_namespace, CreateNamespaceRequest(id=[f"p{number}-{index}"])))
    end = time.perf_counter()  # the same clock in all processes of a machine
    print(json.dumps({"calls": outcome.calls, "failures": outcome.failures, "end": end}), flush=True)
    operations.close(namespace)
    return 0


def _in_threads(threads: int, count: int, work: Callable[[int, int], None]) -> Outcome:
    """Run the work `count` times in each thread; all start together."""
    outcome, barrier = Outcome(), threading.Barrier(threads + 1)

    def run(thread: int) -> None:
        barrier.wait()
        for index in range(count):
            _call(outcome, partial(work, thread, index))

    with ThreadPoolExecutor(threads) as pool:
        done = [pool.submit(run, thread) for thread in range(threads)]
        barrier.wait()
        start = time.perf_counter()
        for one in done:
            one.result()
        outcome.seconds = time.perf_counter() - start
    return outcome


def _call(outcome: Outcome, call: Callable[[], object]) -> None:
    """Add one call to the outcome."""
    start = time.perf_counter()
    try:
        call()
    except Exception:  # noqa: BLE001 - whatever an implementation raises is a result here
        outcome.failures += 1
    else:
        outcome.calls.append(time.perf_counter() - start)


def _open(name: str, properties: dict[str, str]) -> LanceNamespace:
    if name == OURS:
        from pennon import DirectoryNamespace

        return DirectoryNamespace(**properties)
    from lance.namespace import DirectoryNamespace as ReferenceNamespace

    return ReferenceNamespace(**properties)


if __name__ == "__main__":
    sys.exit(main())
