"""Compare operations on rows with pylance on an open dataset, alternately, in one run.

Run it as `python benchmarks/rows.py`; `--help` lists its options. Each catalog has one table for Pennon and an equal
table that pylance has open; both do the same work on the same rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
from catalog import RESULTS
from lance_namespace import (
    CountTableRowsRequest,
    CreateTableRequest,
    DescribeTableRequest,
    InsertIntoTableRequest,
    QueryTableRequest,
)
from progress import stage
from report import STYLES
from results import environment
from rich import box
from rich.console import Console
from rich.table import Table
from targets import FAIL, PASS, Target

from pennon import DirectoryNamespace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_MS = 1.0
"""The maximum median overhead over pylance's own call."""
V1, V2, MANAGED = "V1", "V2", "V2, managed versions"
JUDGED = (V2, MANAGED)
ROWS = pa.table({"id": list(range(10_000)), "text": [f"row {number}" for number in range(10_000)]})
INSERTED = ROWS.slice(0, 100)


@dataclass
class Cost:
    """The milliseconds of Pennon and pylance; both calls of a pair run one after the other."""

    ours: list[float] = field(default_factory=list)
    direct: list[float] = field(default_factory=list)

    @property
    def overhead(self) -> float:
        """The median difference within pairs, which a slow machine affects least."""
        return statistics.median(ours - direct for ours, direct in zip(self.ours, self.direct, strict=True))


@dataclass(frozen=True)
class Operation:
    """The same operation by Pennon and by pylance."""

    name: str
    ours: Callable[[], Any]
    direct: Callable[[], Any]
    repetitions: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print and store the results, and return 1 if a strict run missed a target."""
    options = _parse(arguments)
    console = Console() if Console().is_terminal else Console(width=160)
    costs = measure(Console(stderr=True), share=4 if options.quick else 1)
    targets = [_judged(kind, name, cost) for (kind, name), cost in costs.items() if kind in JUDGED]
    _show(console, costs, targets)
    options.out.mkdir(parents=True, exist_ok=True)
    stem = "rows-quick" if options.quick else "rows"
    (options.out / f"{stem}.json").write_text(json.dumps(_document(costs, targets), indent=2) + "\n", encoding="utf-8")
    return 1 if options.strict and any(target.verdict == FAIL for target in targets) else 0


def measure(console: Console, *, share: int) -> dict[tuple[str, str], Cost]:
    """Time every operation in every kind of catalog, on temporary roots, which are deleted afterwards."""
    costs = {}
    with (
        tempfile.TemporaryDirectory(prefix="pennon-benchmark-", ignore_cleanup_errors=True) as directory,
        stage(console, "operations on rows", 9) as announce,
    ):
        for number, kind in enumerate((V1, V2, MANAGED)):
            with _opened(kind, Path(directory, str(number))) as namespace:
                for operation in _operations(namespace, kind):
                    announce(f"{kind}: {operation.name}")
                    costs[kind, operation.name] = _timed(operation, operation.repetitions // share)
    return costs


def _opened(kind: str, root: Path) -> DirectoryNamespace:
    has_manifest = str(kind != V1).lower()
    lists = str(kind == V1).lower()
    namespace = DirectoryNamespace(root=str(root), manifest_enabled=has_manifest, dir_listing_enabled=lists)
    if kind == MANAGED:
        namespace.enable_table_version_management()
    return namespace


def _operations(namespace: DirectoryNamespace, kind: str) -> list[Operation]:
    ours, twin = ["ours"], ["twin"]
    body = _stream(ROWS)
    for identifier in (ours, twin):
        namespace.create_table(CreateTableRequest(id=identifier), body)
    if kind == MANAGED:
        dataset = lance.dataset(namespace_client=namespace, table_id=twin)
    else:
        dataset = lance.dataset(namespace.describe_table(DescribeTableRequest(id=twin)).location)
    count, query = CountTableRowsRequest(id=ours), QueryTableRequest.model_validate({"id": ours, "k": 10, "vector": {}})
    insert, rows = InsertIntoTableRequest(id=ours), _stream(INSERTED)
    return [
        Operation("count", lambda: namespace.count_table_rows(count), dataset.count_rows, 1_000),
        Operation("query of 10 rows", lambda: namespace.query_table(query), lambda: dataset.to_table(limit=10), 600),
        Operation(
            "insert of 100 rows",
            lambda: namespace.insert_into_table(insert, rows),
            lambda: dataset.insert(INSERTED),
            300,
        ),
    ]


def _timed(operation: Operation, repetitions: int) -> Cost:
    """Alternate which call is first, so that neither always runs after the other."""
    cost = Cost()
    for _ in range(3):
        operation.ours()
        operation.direct()
    for number in range(repetitions):
        pair = [(operation.ours, cost.ours), (operation.direct, cost.direct)]
        for call, samples in pair if number % 2 else reversed(pair):
            start = time.perf_counter()
            call()
            samples.append((time.perf_counter() - start) * 1e3)
    return cost


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def _judged(kind: str, name: str, cost: Cost) -> Target:
    reached = cost.overhead < MOST_MS
    goal = f"less than {MOST_MS:g} ms over pylance"
    return Target(f"{name}, {kind}", goal, f"{cost.overhead:.3f} ms", PASS if reached else FAIL)


def _show(console: Console, costs: dict[tuple[str, str], Cost], targets: list[Target]) -> None:
    style = box.SIMPLE_HEAD if console.is_terminal else None
    times = Table(title="Median time of one call", title_justify="left", box=style, pad_edge=False)
    for heading in ("catalog", "operation", "ours ms", "pylance ms", "overhead ms"):
        times.add_column(heading, justify="right" if heading.endswith("ms") else "left", no_wrap=True)
    for (kind, name), cost in costs.items():
        medians = [statistics.median(samples) for samples in (cost.ours, cost.direct)]
        times.add_row(kind, name, *(f"{median:.3f}" for median in medians), f"{cost.overhead:.3f}")
    judged = Table(title="Targets", title_justify="left", box=style, pad_edge=False)
    for heading in ("target", "goal", "measured", "verdict"):
        judged.add_column(heading)
    for target in targets:
        judged.add_row(target.subject, target.goal, target.measured, f"[{STYLES[target.verdict]}]{target.verdict}[/]")
    console.print(times, "", judged)


def _document(costs: dict[tuple[str, str], Cost], targets: list[Target]) -> dict[str, Any]:
    return {
        "environment": environment(),
        "median_ms": {
            f"{name}, {kind}": {
                "ours": statistics.median(cost.ours),
                "pylance": statistics.median(cost.direct),
                "overhead": cost.overhead,
            }
            for (kind, name), cost in costs.items()
        },
        "targets": [asdict(target) for target in targets],
    }


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--strict", action="store_true", help="fail unless every target is reached")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory for the results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
