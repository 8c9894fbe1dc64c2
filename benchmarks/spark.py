"""Compare Spark on Lance tables through Pennon with Spark's own Parquet and with lance-spark, in one run.

Run it as `python benchmarks/spark.py`; `--help` lists its options. Every operation runs in all systems alternately. The
first three runs of each do not count, because HotSpot is still compiling. Of the next three, the best counts. Ratios
below one mean that Pennon is faster. lance-spark is measured if its jar has been fetched.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from catalog import RESULTS
from plot import LOOKS, plain
from progress import stage
from report import STYLES
from results import OURS, REFERENCE, environment
from rich import box
from rich.console import Console
from rich.table import Table
from spark_workload import DISCARDED, QUICK_ROWS, ROUNDS, ROWS, STATEMENTS, WARM_UPS, WIDTH, make_rows, noop
from targets import FAIL, PASS, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pennon.spark import Lake

PARQUET, LANCE_SPARK = "Parquet", "lance-spark"
JARS = Path(os.environ.get("PENNON_JARS", Path.home() / ".cache" / "pennon" / "jars"))
GOALS = {
    "scan": 1.0,
    "one column": 1.3,
    "group by": 1.2,
    "filter": 1.1,
    "filter, indexed": 0.6,
    "count": 0.3,
    "write": 0.6,
    "append": 0.6,
}
"""The maximum time of Pennon, as a share of Parquet's time in the same run."""


@dataclass
class Context:
    """The session, lake and data of a run."""

    spark: SparkSession
    lake: Lake
    directory: Path
    rows: int
    connector: bool

    @property
    def parquet(self) -> str:
        """The path of the Parquet table."""
        return str(self.directory / "table.parquet")

    def source(self) -> DataFrame:
        """Return the rows to write, which are already computed and in memory."""
        return self.spark.table("rows_to_write")

    def changes(self) -> DataFrame:
        """Return new values for one row in a hundred."""
        return self.spark.table("rows_to_merge")


@dataclass(frozen=True)
class Operation:
    """One kind of work, for each system that can do it."""

    name: str
    run: dict[str, Callable[[Context], Any]]
    prepare: Callable[[Context], None] | None = None


def queries(context: Context) -> list[Operation]:
    """Return the operations that read, with the same statement in every system."""
    operations = []
    for name, statement in STATEMENTS.items():
        finish: Callable[[DataFrame], Any] = noop if name in DISCARDED else collected
        run: dict[str, Callable[[Context], Any]] = {
            PARQUET: _asked(lambda c, text: c.spark.sql(text), statement.format(table="parquet_table"), finish),
            OURS: _asked(lambda c, text: c.lake.sql(text), statement.format(table="bench.t"), finish),
        }
        if context.connector:
            run[LANCE_SPARK] = _asked(
                lambda c, text: c.spark.sql(text), statement.format(table="connector.bench.t"), finish
            )
        operations.append(Operation(name, run, _indexed if name == "filter, indexed" else None))
    return operations


def collected(frame: DataFrame) -> Any:  # noqa: ANN401 - rows
    """Return the rows of a small result."""
    return frame.collect()


def _asked(
    ask: Callable[[Context, str], DataFrame], text: str, finish: Callable[[DataFrame], Any]
) -> Callable[[Context], Any]:
    return lambda context: finish(ask(context, text))


def writes(context: Context) -> list[Operation]:
    """Return the operations that write."""
    write: dict[str, Callable[[Context], Any]] = {
        PARQUET: lambda c: c.source().write.mode("overwrite").parquet(str(c.directory / "written.parquet")),
        OURS: lambda c: c.lake.write(_vectors(c.source()), "bench.written", mode="overwrite"),
    }
    append: dict[str, Callable[[Context], Any]] = {
        PARQUET: lambda c: c.source().write.mode("append").parquet(str(c.directory / "written.parquet")),
        OURS: lambda c: c.lake.write(c.source(), "bench.written", mode="append"),
    }
    merge: dict[str, Callable[[Context], Any]] = {
        PARQUET: _rewritten,
        OURS: lambda c: c.lake.merge(c.changes(), "bench.merged", on="id"),
    }
    if context.connector:
        write[LANCE_SPARK] = lambda c: c.source().writeTo("connector.bench.connector_written").createOrReplace()
        append[LANCE_SPARK] = lambda c: c.source().writeTo("connector.bench.connector_written").append()
        merge[LANCE_SPARK] = _merged_by_connector
    return [Operation("write", write), Operation("append", append), Operation("merge of 1 %", merge)]


def _rewritten(context: Context) -> None:
    """Merge with Parquet, which means writing the whole table again."""
    old = context.spark.read.parquet(context.parquet)
    new = context.changes()
    kept = old.join(new.select("id"), "id", "left_anti").select(*old.columns)
    kept.unionByName(new.select(*old.columns)).write.mode("overwrite").parquet(
        str(context.directory / "merged.parquet")
    )


def _merged_by_connector(context: Context) -> None:
    context.spark.sql(
        "MERGE INTO connector.bench.connector_written t USING rows_to_merge s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def seed(context: Context) -> None:
    """Create the same table in every system, and the rows that are written later."""
    make_rows(context.spark, context.rows).write.mode("overwrite").parquet(context.parquet)
    rows = context.spark.read.parquet(context.parquet)
    rows.createOrReplaceTempView("parquet_table")
    # Cache a copy: if the table itself were cached, Spark would no longer read its files.
    copy = str(context.directory / "copy.parquet")
    rows.write.parquet(copy)
    context.spark.read.parquet(copy).cache().createOrReplaceTempView("rows_to_write")
    context.source().count()
    context.lake.catalog.create_namespace({"id": ["bench"]})
    for name in ("t", "merged"):
        context.lake.write(_vectors(context.source()), f"bench.{name}", mode="create")
    if context.connector:
        context.source().writeTo("connector.bench.connector_written").createOrReplace()
    changed = rows.where("id % 100 = 7").selectExpr("id", "x + 1 AS x", "y", "k", "s", "v")
    changed.cache().createOrReplaceTempView("rows_to_merge")
    context.changes().count()


def _vectors(frame: DataFrame) -> DataFrame:
    """Mark the lists as vectors, so that Lance stores them as vectors."""
    return frame.withMetadata("v", {"pennon.vector.width": WIDTH})


def _indexed(context: Context) -> None:
    context.lake.sql("CREATE INDEX ON bench.t (y)")


def measure(console: Console, context: Context) -> dict[str, dict[str, list[float]]]:
    """Run all operations in all systems alternately, and return the seconds of each run."""
    operations = [*queries(context), *writes(context)]
    found: dict[str, dict[str, list[float]]] = {}
    with stage(console, f"{context.rows:,} rows", len(operations) + 1) as announce:
        announce("making the tables")
        seed(context)
        for operation in operations:
            announce(operation.name)
            if operation.prepare is not None:
                operation.prepare(context)
            found[operation.name] = {system: [] for system in operation.run}
            for turn in range(WARM_UPS + ROUNDS):
                for system, run in operation.run.items():
                    begun = time.perf_counter()
                    run(context)
                    if turn >= WARM_UPS:
                        found[operation.name][system].append(time.perf_counter() - begun)
    return found


def judge(found: dict[str, dict[str, list[float]]]) -> list[Target]:
    """Return the verdict of every target for a run."""
    targets = []
    for name, runs in found.items():
        best = {system: min(seconds) for system, seconds in runs.items()}
        if name in GOALS:
            ratio = best[OURS] / best[PARQUET]
            verdict = PASS if ratio <= GOALS[name] else FAIL
            targets.append(Target(name, f"at most {GOALS[name]:g} of {PARQUET}", f"{ratio:.2f}", verdict))
        if LANCE_SPARK in best:
            ratio = best[OURS] / best[LANCE_SPARK]
            targets.append(Target(name, f"at most 1 of {LANCE_SPARK}", f"{ratio:.2f}", PASS if ratio <= 1 else FAIL))
    return targets


def show(console: Console, found: dict[str, dict[str, list[float]]], targets: list[Target]) -> None:
    """Print the run as tables."""
    style = box.SIMPLE_HEAD if console.is_terminal else None
    systems = list(next(iter(found.values())))
    times = Table(title="Seconds, the best of three", title_justify="left", box=style, pad_edge=False)
    times.add_column("operation", no_wrap=True)
    for system in systems:
        times.add_column(system, justify="right")
    for system in systems:
        if system != OURS:
            times.add_column(f"to {system}", justify="right")
    for name, runs in found.items():
        best = {system: min(seconds) for system, seconds in runs.items()}
        ratios = [f"{best[OURS] / best[system]:.2f}" for system in systems if system != OURS]
        times.add_row(name, *(f"{best[system]:.2f}" for system in systems), *ratios)
    judged = Table(title="Targets", title_justify="left", box=style, pad_edge=False)
    for heading in ("target", "goal", "measured", "verdict"):
        judged.add_column(heading)
    for target in targets:
        judged.add_row(target.subject, target.goal, target.measured, f"[{STYLES[target.verdict]}]{target.verdict}[/]")
    console.print(times, "", judged)


def draw(found: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Draw each system's time as a share of Parquet's."""
    systems = list(next(iter(found.values())))
    looks = {PARQUET: LOOKS[REFERENCE]["color"], OURS: LOOKS[OURS]["color"], LANCE_SPARK: "#7a7a7a"}
    figure, axes = plt.subplots(figsize=(9, 4.2))
    thickness = 0.8 / len(systems)
    for number, system in enumerate(systems):
        shares = [min(runs[system]) / min(runs[PARQUET]) for runs in found.values()]
        places = [place + (number - (len(systems) - 1) / 2) * thickness for place in range(len(found))]
        bars = axes.bar(places, shares, thickness * 0.92, label=system, color=looks[system])
        axes.bar_label(bars, labels=[f"{share:.2f}" for share in shares], fontsize=7)
    goals = [(place, GOALS[name]) for place, name in enumerate(found) if name in GOALS]
    axes.hlines(
        [goal for _, goal in goals],
        [place - 0.42 for place, _ in goals],
        [place + 0.42 for place, _ in goals],
        colors="#222222",
        linestyles=":",
        linewidth=1.2,
        label="goal",
    )
    axes.set_xticks(range(len(found)), list(found), fontsize=8)
    axes.set_ylabel(f"time, as a share of {PARQUET}'s")
    axes.legend(frameon=False, ncols=4, loc="upper right")
    plain(axes)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def connector_jar() -> Path | None:
    """Return the path of lance-spark's bundle, or None if `make jars` has not fetched it."""
    return next(iter(sorted(JARS.glob("lance-spark-bundle-*.jar"), reverse=True)), None)


def started(directory: Path, rows: int, jar: Path | None) -> Context:
    """Start Spark as `pennon run` does, and a lake in a new root."""
    from pennon.spark import attach
    from pennon.spark.session import new_session

    root = directory / "lake"
    settings = {"spark.driver.memory": "6g", "spark.sql.shuffle.partitions": "4"}
    if jar is not None:
        settings |= {
            "spark.jars": str(jar),
            "spark.sql.catalog.connector": "org.lance.spark.LanceNamespaceSparkCatalog",
            "spark.sql.catalog.connector.impl": "dir",
            "spark.sql.catalog.connector.root": str(root),
        }
    spark = new_session("benchmark", master="local[2]", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    return Context(spark, attach(spark, root=str(root)), directory, rows, jar is not None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print and store the results, and return 1 if a strict run missed a target."""
    options = _parse(arguments)
    console = Console() if Console().is_terminal else Console(width=160)
    jar = None if options.without_connector else connector_jar()
    if jar is None and not options.without_connector:
        console.print(f"{LANCE_SPARK} is left out: no jar of it in {JARS} (make jars fetches it)", highlight=False)
    directory = Path(tempfile.mkdtemp(prefix="pennon-benchmark-"))
    try:
        context = started(directory, QUICK_ROWS if options.quick else ROWS, jar)
        found = measure(Console(stderr=True), context)
        context.spark.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    targets = judge(found)
    show(console, found, targets)
    options.out.mkdir(parents=True, exist_ok=True)
    stem = "spark-quick" if options.quick else "spark"
    document = {"environment": environment(), "seconds": found, "targets": [asdict(target) for target in targets]}
    (options.out / f"{stem}.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    draw(found, options.out / f"{stem}.png")
    return 1 if options.strict and any(target.verdict == FAIL for target in targets) else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare Spark through Pennon with Parquet and lance-spark.")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows, for a smoke test")
    parser.add_argument("--without-connector", action="store_true", help="leave lance-spark out")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results (%(default)s)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
