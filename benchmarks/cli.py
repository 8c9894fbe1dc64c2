"""Measure the time of commands, from the start of the process to its end, and compare it with their limits.

Run it as `python benchmarks/cli.py`; `--help` lists its options. The best of several runs counts, because a busy
machine makes a command slower and never faster. The output also shows the processor time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from catalog import RESULTS
from progress import stage
from report import STYLES
from results import COMPATIBILITY, V1, V2, environment
from rich import box
from rich.console import Console
from rich.table import Table
from seeding import append_tables, write_indexes
from targets import FAIL, PASS, Target

from pennon import DirectoryNamespace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MODES = {
    V1: {"manifest_enabled": "false", "dir_listing_enabled": "true"},
    V2: {"manifest_enabled": "true", "dir_listing_enabled": "false"},
    COMPATIBILITY: {"manifest_enabled": "true", "dir_listing_enabled": "true"},
}
HELP_SECONDS, LISTING_SECONDS = 0.3, 1.5
TABLES = 20
FEW, MANY = 10, 100_000
GROWTH = 1.1
"""How much longer a command may take on a catalog of many tables than on one of few."""


@dataclass(frozen=True)
class Command:
    """A command line, and the limit for its time in seconds, if there is one."""

    name: str
    arguments: tuple[str, ...]
    limit: float | None = None


@dataclass(frozen=True)
class Taken:
    """The best of several runs: wall-clock seconds and processor seconds."""

    wall: float
    processor: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print and store the results, and return 1 if a strict run missed a target."""
    options = _parse(arguments)
    console = Console() if Console().is_terminal else Console(width=160)
    runs = 3 if options.quick else options.runs
    with tempfile.TemporaryDirectory(prefix="pennon-benchmark-") as directory:
        commands = _commands(Path(directory))
        with stage(Console(stderr=True), "commands", len(commands)) as announce:
            taken = {}
            for command in commands:
                announce(command.name)
                taken[command.name] = _best(command, Path(directory), runs)
        growth = list(_measure_growth(Path(directory), runs))
    targets = [_judged(command, taken[command.name]) for command in commands if command.limit is not None] + growth
    _show(console, commands, taken, targets, runs)
    options.out.mkdir(parents=True, exist_ok=True)
    document = _document(taken, targets, runs)
    stem = "cli-quick" if options.quick else "cli"
    (options.out / f"{stem}.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 1 if options.strict and any(target.verdict == FAIL for target in targets) else 0


def _commands(directory: Path) -> list[Command]:
    """Create a catalog for each mode, and return the commands that are measured on them."""
    commands = [Command("--help", ("--help",), HELP_SECONDS)]
    for mode, switches in MODES.items():
        root = directory / mode
        with DirectoryNamespace(root=str(root), **switches) as namespace:
            for number in range(TABLES):
                namespace.create_table({"id": [f"table_{number}"]}, _rows())
        given = ("--root", str(root), *(part for pair in switches.items() for part in ("-p", "=".join(pair))))
        commands.append(Command(f"ls, {mode}", ("ls", *given), LISTING_SECONDS))
    table = ("table_0", *given)
    commands += [
        Command("ls --help", ("ls", "--help")),
        Command("ls --table", ("ls", "--table", *given)),
        Command("tree", ("tree", *given)),
        Command("info", ("info", *table)),
        Command("head", ("head", *table)),
        Command("count", ("count", *table)),
        Command("versions", ("versions", *table)),
    ]
    return commands


def _measure_growth(directory: Path, runs: int) -> Iterator[Target]:
    """Compare commands on a catalog of many tables with the same commands on one of few, by turns."""
    roots = {count: directory / f"tables-{count}" for count in (FEW, MANY)}
    for count, root in roots.items():
        with DirectoryNamespace(root=str(root)) as namespace:
            namespace.create_namespace({"id": ["ns"]})
            namespace.create_table({"id": ["ns", "orders"]}, _rows())
        append_tables(root, count)
        write_indexes(root)
    for arguments in (("ls",), ("ls", "ns"), ("info", "ns.orders"), ("head", "ns.orders"), ("count", "ns.orders")):
        best = dict.fromkeys(roots, math.inf)
        for _ in range(runs):
            for count, root in roots.items():
                command = Command("", (*arguments, "--root", str(root)))
                best[count] = min(best[count], _best(command, directory, 1).wall)
        measured = f"{best[MANY]:.2f} s and {best[FEW]:.2f} s"
        verdict = PASS if best[MANY] <= GROWTH * best[FEW] else FAIL
        yield Target(
            f"pennon {' '.join(arguments)}", f"at {MANY:,} tables at most {GROWTH}x of {FEW}", measured, verdict
        )


def _rows() -> bytes:
    data = pa.table({"id": [1, 2, 3]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    return sink.getvalue().to_pybytes()


def _best(command: Command, directory: Path, runs: int) -> Taken:
    """Run a command once to warm up, then `runs` times, in the same way as the installed `pennon`."""
    line = [sys.executable, "-m", "pennon", *command.arguments]
    variables = {**os.environ, "PENNON_CONFIG": os.devnull}
    samples = []
    for _ in range(runs + 1):
        before, start = os.times(), time.perf_counter()
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL, env=variables, cwd=directory)
        wall, after = time.perf_counter() - start, os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        samples.append(Taken(wall, spent))
    timed = samples[1:]
    return Taken(min(one.wall for one in timed), min(one.processor for one in timed))


def _judged(command: Command, taken: Taken) -> Target:
    limit = command.limit or 0.0
    verdict = PASS if taken.wall < limit else FAIL
    return Target(f"pennon {command.name}", f"under {limit:g} s", f"{taken.wall:.2f} s", verdict)


def _show(
    console: Console, commands: Sequence[Command], taken: dict[str, Taken], targets: Sequence[Target], runs: int
) -> None:
    style = box.SIMPLE_HEAD if console.is_terminal else None
    times = Table(title=f"Best of {runs} runs, whole process", title_justify="left", box=style, pad_edge=False)
    times.add_column("command", no_wrap=True)
    for heading in ("seconds", "processor seconds", "limit"):
        times.add_column(heading, justify="right", no_wrap=True)
    for command in commands:
        one = taken[command.name]
        limit = "" if command.limit is None else f"{command.limit:g}"
        times.add_row(f"pennon {command.name}", f"{one.wall:.2f}", f"{one.processor:.2f}", limit)
    judged = Table(title="Targets", title_justify="left", box=style, pad_edge=False)
    for heading in ("target", "goal", "measured", "verdict"):
        judged.add_column(heading)
    for target in targets:
        judged.add_row(target.subject, target.goal, target.measured, f"[{STYLES[target.verdict]}]{target.verdict}[/]")
    console.print(times, "", judged)


def _document(taken: dict[str, Taken], targets: Sequence[Target], runs: int) -> dict[str, Any]:
    return {
        "environment": environment(),
        "runs": runs,
        "seconds": {name: asdict(one) for name, one in taken.items()},
        "targets": [asdict(target) for target in targets],
    }


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure how long commands of the command line take.")
    parser.add_argument("--quick", action="store_true", help="three runs of each")
    parser.add_argument("--runs", type=int, default=10, help="how many runs of each (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results (%(default)s)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
