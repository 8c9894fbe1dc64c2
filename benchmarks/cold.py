"""Compare cold clients: the first call of a new process, by Pennon and by pylance's own directory namespace.

Run it as `python benchmarks/cold.py`; `--help` lists its options. Each measurement is a process of its own on a local
disk; the clock starts after the imports. Both implementations alternate, and the median counts. The manifests have the
indexes that upkeep keeps. Memory is what a client has on top of its imports after it listed every table.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalog import MODES
from figures import MB, MS, Figure, Goal, Section, run_section
from operations import STRIDE
from plot import draw_sizes
from progress import stage
from results import OURS, REFERENCE, V1, V2
from seeding import table_name, write_indexes, write_manifest, write_tables, write_versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

CLIENT = Path(__file__).parent / "cold_client.py"
EXISTS, MEMORY = "first table_exists", "memory, everything loaded"
JUDGED_ROWS, JUDGED_TABLES = 1_000_000, 1_000
NOT_SLOWER, EIGHT_TIMES_FASTER, MOST_MB = Goal(1.0), Goal(1 / 8), Goal(150, relative=False)


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    rows: Sequence[int]
    root_tables: Sequence[int]
    managed: Sequence[tuple[int, int]]
    """Tables, and versions of each."""
    runs: int


FULL = Sizes((1_000, 10_000, 100_000, 1_000_000), (100, 1_000, 3_000), ((1_000, 100), (100_000, 10)), 3)
QUICK = Sizes((1_000, 10_000), (100,), ((100, 10),), 3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the section."""
    return run_section("cold", "Cold clients on a local disk", measure, draw_sizes, arguments)


def measure(console: Console, quick: bool) -> Section:  # noqa: FBT001 - the signature of all sections
    """Measure every size."""
    sizes = QUICK if quick else FULL
    section = Section()
    for rows in sizes.rows:
        with stage(console, f"cold, {rows:,} rows", 1), _directory() as root:
            write_manifest(root, rows, nested=True)
            write_indexes(root)
            judged = rows >= JUDGED_ROWS
            client = f"V2, {rows:,} rows"
            section.figures += [
                _first_exists(client, root, rows // 2, sizes.runs, size=rows, goal=NOT_SLOWER if judged else None),
                _memory(client, root, rows, MOST_MB if judged else None),
            ]
    for tables, versions in sizes.managed:
        with stage(console, f"cold, {tables:,} tables with {versions} versions", 1), _directory() as root:
            write_versions(root, tables, versions)
            write_indexes(root)
            client = f"V2, {tables:,} tables, {versions} managed versions each"
            section.figures += [
                _first_exists(client, root, tables, sizes.runs, size=None, goal=NOT_SLOWER),
                _memory(client, root, None, None),
            ]
    for tables in sizes.root_tables:
        with stage(console, f"cold, V1, {tables:,} tables", 1), _directory() as root:
            write_tables(root, tables)
            properties = {"root": str(root), **MODES[V1].properties}
            times = {name: [] for name in (OURS, REFERENCE)}
            for _ in range(sizes.runs):
                for name, samples in times.items():
                    samples.append(_ask(name, "list", properties)["ms"])
            goal = EIGHT_TIMES_FASTER if tables == JUDGED_TABLES else None
            section.figures.append(_figure(f"V1, {tables:,} tables", "first list_tables", times, goal, tables))
    section.notes.append("memory includes what Lance itself allocates at its first use, about 50 MB")
    return section


def _first_exists(client: str, root: Path, tables: int, runs: int, *, size: int | None, goal: Goal | None) -> Figure:
    """Ask for tables that are far apart, each in a new process."""
    times: dict[str, list[float]] = {OURS: [], REFERENCE: []}
    for index in range(runs + 1):
        asked = ["ns", table_name(index * STRIDE % tables)]
        for name, samples in times.items():
            samples.append(_ask(name, "exists", {"root": str(root), **MODES[V2].properties, "asked": asked})["ms"])
    # The first process of each may still wait for the disk.
    return _figure(client, EXISTS, {name: samples[1:] for name, samples in times.items()}, goal, size)


def _memory(client: str, root: Path, size: int | None, goal: Goal | None) -> Figure:
    found = _ask(OURS, "memory", {"root": str(root), **MODES[V2].properties})["mb"]
    return Figure(client, MEMORY, MB, found, None, goal, size)


def _figure(client: str, operation: str, times: dict[str, list[float]], goal: Goal | None, size: int | None) -> Figure:
    ours, reference = (statistics.median(times[name]) for name in (OURS, REFERENCE))
    return Figure(client, operation, MS, ours, reference, goal, size)


def _ask(name: str, question: str, properties: dict[str, Any]) -> dict[str, float]:
    """Start a client that asks one question."""
    command = [sys.executable, str(CLIENT), name, question, json.dumps(properties)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


@contextmanager
def _directory() -> Iterator[Path]:
    """Provide a temporary directory while the block runs."""
    with tempfile.TemporaryDirectory(prefix="pennon-benchmark-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


if __name__ == "__main__":
    sys.exit(main())
