"""Compare the cost of version operations in a large catalog with a small one, in one run.

Run it as `python benchmarks/versions.py`; `--help` lists its options. Both catalogs manage the versions of their
tables. The large one has many tables with many versions each, the small one a single table. The rows of the large one
are written directly into its manifest; only the table that is measured has files.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
from catalog import RESULTS
from operations import Operation
from progress import stage
from report import STYLES
from results import environment
from rich import box
from rich.console import Console
from rich.table import Table
from targets import FAIL, PASS, Target
from timing import Plan, Timing, compare

from pennon import DirectoryNamespace
from pennon.directory.manifest import TABLE, Draft, Row
from pennon.directory.versions.record import VersionRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from operations import Call

SMALL, LARGE = "one table", "many tables"
MOST = 2.0
"""The maximum ratio between the time in the large catalog and in the small one."""
ROWS_PER_COMMIT = 25_000
"""Few commits, because opening a manifest takes a little longer the more versions it keeps."""
ASKED = ["ns", "asked"]
ROWS = pa.table({"id": [1]})


@dataclass(frozen=True)
class Size:
    """The number of tables of a catalog, and of versions of each table."""

    tables: int
    versions: int


FULL = Size(1_000, 100)
QUICK = Size(50, 20)


@dataclass(frozen=True)
class Subject:
    """One of the two catalogs, opened."""

    name: str
    namespace: DirectoryNamespace
    versions: int


def latest(subject: Subject, _index: int) -> Call:
    """List only the latest version, as Lance does before each commit."""
    return partial(subject.namespace.list_table_versions, {"id": ASKED, "limit": 1, "descending": True})


def describe_latest(subject: Subject, _index: int) -> Call:
    """Describe the latest version."""
    return partial(subject.namespace.describe_table_version, {"id": ASKED})


def describe_oldest(subject: Subject, _index: int) -> Call:
    """Describe the oldest version, whose file is looked up."""
    return partial(subject.namespace.describe_table_version, {"id": ASKED, "version": 1})


def describe_table(subject: Subject, _index: int) -> Call:
    """Describe the table itself."""
    return partial(subject.namespace.describe_table, {"id": ASKED})


def open_table(subject: Subject, _index: int) -> Call:
    """Open the table with Lance through the catalog."""
    return partial(lance.dataset, namespace_client=subject.namespace, table_id=ASKED)


def append(subject: Subject, _index: int) -> Call:
    """Append a row with Lance through the catalog."""
    return partial(lance.write_dataset, ROWS, namespace_client=subject.namespace, table_id=ASKED, mode="append")


JUDGED = (
    Operation("latest version", latest, lookup=True),
    Operation("describe_table_version", describe_latest, lookup=True),
    Operation("describe_table_version, oldest", describe_oldest, lookup=True),
    Operation("describe_table", describe_table, lookup=True),
)
SHOWN = (Operation("lance.dataset", open_table), Operation("append", append))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print and store the results, and return 1 if a strict run missed a target."""
    options = _parse(arguments)
    size = QUICK if options.quick else FULL
    console = Console() if Console().is_terminal else Console(width=160)
    timings = measure(Console(stderr=True), size, Plan(blocks=10, per_block=4))
    targets = [_judged(operation.name, size, timings[operation.name]) for operation in JUDGED]
    _show(console, size, timings, targets)
    options.out.mkdir(parents=True, exist_ok=True)
    stem = "versions-quick" if options.quick else "versions"
    text = json.dumps(_document(size, timings, targets), indent=2)
    (options.out / f"{stem}.json").write_text(text + "\n", encoding="utf-8")
    return 1 if options.strict and any(target.verdict == FAIL for target in targets) else 0


def measure(console: Console, size: Size, plan: Plan) -> dict[str, dict[str, Timing]]:
    """Time every operation in both catalogs alternately, on temporary roots, which are deleted afterwards."""
    timings = {}
    title = f"{size.tables:,} tables with {size.versions:,} versions"
    with (
        tempfile.TemporaryDirectory(prefix="pennon-benchmark-", ignore_cleanup_errors=True) as directory,
        stage(console, title, len(JUDGED) + len(SHOWN) + 2) as announce,
    ):
        announce("seeding")
        subjects = [
            _seeded(SMALL, Path(directory, "small"), Size(1, 2)),
            _seeded(LARGE, Path(directory, "large"), size),
        ]
        for operation in (*JUDGED, *SHOWN):
            announce(operation.name)
            timings[operation.name] = compare(operation, subjects, plan)  # type: ignore[arg-type]
        for subject in subjects:
            subject.namespace.close()
    return timings


def _seeded(name: str, root: Path, size: Size) -> Subject:
    """Create a catalog with one real table and the rows of all others, and open it with a new client."""
    switches = {"manifest_enabled": "true", "dir_listing_enabled": "false"}
    with DirectoryNamespace(root=str(root), **switches) as namespace:
        namespace.create_namespace({"id": ASKED[:1]})
        lance.write_dataset(ROWS, namespace_client=namespace, table_id=ASKED, mode="create")
        location = namespace.describe_table({"id": ASKED}).location
        for _ in range(size.versions - 1):
            lance.write_dataset(ROWS, location, mode="append")
        namespace.enable_table_version_management()
        manifest = namespace._catalog.manifest  # noqa: SLF001 - rows are written without any operation
        rows = list(_rows(Size(size.tables - 1, size.versions)))
        for start in range(0, len(rows), ROWS_PER_COMMIT):
            manifest.mutate(partial(_put, rows[start : start + ROWS_PER_COMMIT]))
    return Subject(name, DirectoryNamespace(root=str(root), **switches), size.versions)


def _rows(size: Size) -> Iterator[Row]:
    """Yield the rows of tables and of their versions."""
    for number in range(size.tables):
        key = f"ns$t{number:06}"
        location = f"{number * 2654435761 % 2**32:08x}_{key}"
        yield Row(key, TABLE, location)
        for version in range(1, size.versions + 1):
            record = VersionRecord(version, "", size=500, timestamp_ms=1_700_000_000_000 + version)
            yield record.with_final_path(location, '"0123456789abcdef"').to_row(key)


def _put(rows: list[Row], draft: Draft) -> None:
    for row in rows:
        draft.put(row)


def _ratio(timing: dict[str, Timing]) -> float | None:
    small, large = timing[SMALL].median, timing[LARGE].median
    return None if small is None or large is None else large / small


def _judged(operation: str, size: Size, timing: dict[str, Timing]) -> Target:
    subject = f"{operation}, {size.tables:,} tables with {size.versions:,} versions"
    goal = f"at most {MOST:g}x its cost beside {SMALL}"
    ratio = _ratio(timing)
    if ratio is None:
        return Target(subject, goal, f"error {timing[SMALL].error or timing[LARGE].error}", FAIL)
    return Target(subject, goal, f"{ratio:.2f}x", PASS if ratio <= MOST else FAIL)


def _show(console: Console, size: Size, timings: dict[str, dict[str, Timing]], targets: list[Target]) -> None:
    style = box.SIMPLE_HEAD if console.is_terminal else None
    times = Table(title="Median time of one call", title_justify="left", box=style, pad_edge=False)
    for heading in ("operation", f"{SMALL} ms", f"{size.tables * size.versions:,} versions ms", "ratio"):
        times.add_column(heading, justify="left" if heading == "operation" else "right", no_wrap=True)
    for operation, timing in timings.items():
        ratio = _ratio(timing)
        cells = [f"error {one.error}" if one.median is None else f"{one.median:.3f}" for one in timing.values()]
        times.add_row(operation, *cells, "-" if ratio is None else f"{ratio:.2f}x")
    judged = Table(title="Targets", title_justify="left", box=style, pad_edge=False)
    for heading in ("target", "goal", "measured", "verdict"):
        judged.add_column(heading)
    for target in targets:
        judged.add_row(target.subject, target.goal, target.measured, f"[{STYLES[target.verdict]}]{target.verdict}[/]")
    console.print(times, "", judged)


def _document(size: Size, timings: dict[str, dict[str, Timing]], targets: list[Target]) -> dict[str, Any]:
    return {
        "environment": environment(),
        "size": asdict(size),
        "median_ms": {
            operation: {name: one.median for name, one in timing.items()} for operation, timing in timings.items()
        },
        "targets": [asdict(target) for target in targets],
    }


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare version operations in a large catalog with a small one.")
    parser.add_argument("--quick", action="store_true", help="a small catalog, for a smoke test of a few seconds")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results (%(default)s)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
