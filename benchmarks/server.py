"""Compare `pennon serve` with pylance's own server, `RestAdapter`, by the same requests in one run.

Run it as `python benchmarks/server.py`; `--help` lists its options. Each server is a process over a directory of its
own, in V2; both were copied from the same bytes. The load comes from a third process. Rounds of the two alternate. At
the end, what was acknowledged is compared with what is in the directory.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import http_load
import pyarrow as pa
import seeding
import urllib3
from figures import PER_SECOND, TIMES, Figure, Goal, Section, run_section
from http_load import Job, Outcome
from lance_namespace import CountTableRowsRequest, ListNamespacesRequest, ListTablesRequest
from progress import stage
from results import OURS, REFERENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

SWITCHES = {"manifest_enabled": "true", "dir_listing_enabled": "false"}
CONNECTIONS = (1, 8, 32)
MANY_TABLES, MANY_CONNECTIONS = 100_000, 32
READS, CREATES, ROWS = ("exists", "describe", "page of 100"), ("create_namespace", "declare"), ("query", "insert")
INSERTED_ROWS, QUERIED_ROWS, TABLE_ROWS = 100, 10, 1_000
TWICE, TEN_TIMES, EQUAL = Goal(2), Goal(10), Goal(1)
EVEN = Goal(5, relative=False)
"""The 99th percentile may take this many times the median."""
NONE = Goal(0, relative=False)
_SEEDED, _DATA = "ns", "data"


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    tables: tuple[int, ...]
    connections: tuple[int, ...]
    rounds: int
    seconds: float


FULL = Sizes(tables=(1_000, MANY_TABLES), connections=CONNECTIONS, rounds=2, seconds=1.5)
QUICK = Sizes(tables=(1_000,), connections=(1, 4), rounds=1, seconds=0.3)


@dataclass
class Served:
    """A running server, and what it acknowledged."""

    name: str
    root: Path
    port: int
    created: dict[str, list[str]] = field(default_factory=lambda: {operation: [] for operation in CREATES})
    inserts: Counter[str] = field(default_factory=Counter)
    """The acknowledged inserts into each table."""

    def post(self, path: str, body: bytes, kind: str = "application/json") -> None:
        """Send a request that is not measured. Raises RuntimeError unless it succeeds."""
        url = f"http://127.0.0.1:{self.port}/v1/{path}"
        answer = urllib3.request("POST", url, body=body, headers={"Content-Type": kind}, timeout=60.0)
        if answer.status >= 300:
            raise RuntimeError(f"{self.name}: {path}: {answer.status} {answer.data!r}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the section, or be pylance's server."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["--adapter"]:
        return _serve_reference(given[1])
    from plot import draw_bars

    return run_section("server", "Servers", measure, draw_bars, given)


def measure(console: Console, quick: bool) -> Section:  # noqa: FBT001 - the signature of all sections
    """Measure both servers with each number of tables."""
    sizes = QUICK if quick else FULL
    section = Section()
    for tables in sizes.tables:
        with tempfile.TemporaryDirectory(prefix="pennon-benchmark-", ignore_cleanup_errors=True) as directory:
            _measure_size(console, section, sizes, tables, Path(directory))
    section.notes.append("each connection inserts into a table of its own; the rounds of the two servers alternate")
    return section


def _measure_size(console: Console, section: Section, sizes: Sizes, tables: int, directory: Path) -> None:
    operations = (*READS, *ROWS, *CREATES)
    with stage(console, f"{tables:,} tables", len(sizes.connections) * len(operations) + 1) as announce:
        announce("seeding")
        seeding.write_manifest(directory / OURS, 2 * tables, nested=True)
        seeding.write_indexes(directory / OURS)
        shutil.copytree(directory / OURS, directory / REFERENCE)
        with ExitStack() as stack:
            served = [
                stack.enter_context(serve(name, directory / name, directory / "log")) for name in (OURS, REFERENCE)
            ]
            for one in served:
                _create_tables(one, max(sizes.connections))
            for connections in sizes.connections:
                for operation in operations:
                    announce(f"{connections} connections, {operation}")
                    ours, reference = _compare(served, sizes, _job(operation, tables, connections))
                    _add(section, tables, connections, operation, ours=ours, reference=reference)
        lost = [count_faults(one) for one in served]
        remark = f"{OURS} acknowledged {_acknowledged(served[0]):,} changes, the reference {_acknowledged(served[1]):,}"
        section.figures.append(Figure(f"{tables:,} tables", "lost or doubled", "", *lost, NONE, remark=remark))


@contextmanager
def serve(name: str, root: Path, log: Path) -> Iterator[Served]:
    """Serve a root by a process until the end of the block."""
    properties = {"root": str(root), **SWITCHES}
    command = [sys.executable, __file__, "--adapter", json.dumps(properties)]
    if name == OURS:
        command = [sys.executable, "-m", "pennon", "serve", "--port", "0", "--json"]
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            env={**os.environ, "PENNON_PROPERTIES": json.dumps(properties)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        text = ""
        while "}" not in text:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"{name} did not start:\n{log.read_text(encoding='utf-8')}")
            text += line
        yield Served(name, root, urllib3.util.parse_url(json.loads(text)["url"]).port or 0)
    finally:
        process.terminate()
        process.communicate()


def _serve_reference(properties: str) -> int:
    """Be pylance's server until stdin ends."""
    from lance.namespace import RestAdapter

    with RestAdapter("dir", json.loads(properties), port=0) as adapter:
        print(json.dumps({"url": f"http://127.0.0.1:{adapter.port}"}), flush=True)
        sys.stdin.read()
    return 0


def _create_tables(served: Served, connections: int) -> None:
    """Create the table that is queried, and one for each connection that inserts."""
    served.post(f"namespace/{_DATA}/create", json.dumps({"id": [_DATA]}).encode())
    for name, rows in [("q", TABLE_ROWS), *((f"i{number}", INSERTED_ROWS) for number in range(connections))]:
        served.post(f"table/{_DATA}%24{name}/create", _stream(rows), http_load.ROWS_TYPE)


def _stream(rows: int) -> bytes:
    """Return rows as an Arrow IPC stream."""
    table = pa.table({"id": pa.array(range(rows), pa.int64()), "name": [f"name {number}" for number in range(rows)]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _job(operation: str, tables: int, connections: int) -> Job:
    """Return the job of an operation; its port and seconds are filled in later."""
    table = json.dumps({"id": [_SEEDED, "t{n}"]})
    declared = json.dumps({"id": [_SEEDED, "d{n}"]})
    query = {"id": [_DATA, "q"], "k": QUERIED_ROWS, "filter": "id >= {n}", "vector": {}}
    targets = {
        "exists": ("POST", f"table/{_SEEDED}%24t{{n}}/exists", table, tables),
        "describe": ("POST", f"table/{_SEEDED}%24t{{n}}/describe", table, tables),
        "page of 100": ("GET", f"namespace/{_SEEDED}/table/list?limit=100", "", tables),
        "query": ("POST", f"table/{_DATA}%24q/query", json.dumps(query), TABLE_ROWS - QUERIED_ROWS),
        "insert": ("POST", f"table/{_DATA}%24i{{c}}/insert?mode=append", _stream(INSERTED_ROWS).hex(), None),
        "create_namespace": ("POST", "namespace/c{n}/create", '{"id": ["c{n}"]}', None),
        "declare": ("POST", f"table/{_SEEDED}%24d{{n}}/declare", declared, None),
    }
    method, target, body, numbers = targets[operation]
    return Job(
        operation=operation,
        connections=connections,
        method=method,
        target=f"/v1/{target}",
        body=body,
        rows=operation == "insert",
        numbers=numbers,
    )


def _compare(served: Sequence[Served], sizes: Sizes, job: Job) -> list[Outcome]:
    """Run a job against each server by turns."""
    outcomes = [Outcome() for _ in served]
    for turn in range(sizes.rounds + 1):
        for one, outcome in zip(served, outcomes, strict=True):
            # The first turn warms up. What it changes counts, its times do not.
            seconds = sizes.seconds if turn else sizes.seconds / 5
            label = f"{job.connections}x{turn}x"
            found = http_load.run(replace(job, port=one.port, seconds=seconds, label=label))
            if job.operation in one.created:
                one.created[job.operation] += found.done
            if job.operation == "insert":
                one.inserts.update(name.removeprefix(label).partition("x")[0] for name in found.done)
            if turn:
                outcome.add(found)
    return outcomes


def _add(section: Section, tables: int, connections: int, operation: str, *, ours: Outcome, reference: Outcome) -> None:
    """Add the rate, and for several connections the 99th percentile as a multiple of the median."""
    client = f"{tables:,} tables, {connections} connection{'s' if connections > 1 else ''}"
    goal = None
    if operation in READS:
        goal = TWICE if tables == MANY_TABLES else None
    elif operation in ROWS:
        goal = EQUAL
    elif connections == MANY_CONNECTIONS:
        goal = TEN_TIMES
    remark = "; ".join(
        f"{client}, {operation}: answers of {name} other than success: {outcome.failures}"
        for name, outcome in ((OURS, ours), (REFERENCE, reference))
        if outcome.failures
    )
    section.figures.append(Figure(client, operation, PER_SECOND, ours.rate, reference.rate, goal, remark=remark))
    if connections == MANY_CONNECTIONS:
        goal = EVEN if operation in READS and tables == MANY_TABLES else None
        figure = Figure(client, f"{operation}, p99 / median", TIMES, ours.unevenness, reference.unevenness, goal)
        section.figures.append(figure)


def count_faults(served: Served) -> int:
    """Return how many acknowledged changes are not in the root, or are there twice."""
    from pennon import DirectoryNamespace

    with DirectoryNamespace(root=str(served.root), **SWITCHES) as namespace:
        found = {
            "create_namespace": namespace.list_namespaces(ListNamespacesRequest(id=[])).namespaces,
            "declare": namespace.list_tables(ListTablesRequest(id=[_SEEDED], include_declared=True)).tables,
        }
        counts = {
            number: namespace.count_table_rows(CountTableRowsRequest(id=[_DATA, f"i{number}"])).count
            for number in served.inserts
        }
    faults = 0
    for operation, names in served.created.items():
        present = Counter(found[operation])
        faults += sum(present[f"{operation[0]}{name}"] != 1 for name in names)
    return faults + sum(rows != (served.inserts[name] + 1) * INSERTED_ROWS for name, rows in counts.items())


def _acknowledged(served: Served) -> int:
    return sum(map(len, served.created.values())) + served.inserts.total()


if __name__ == "__main__":
    sys.exit(main())
