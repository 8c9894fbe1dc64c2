"""Compare TPC-H through `lake.sql` with Spark over Parquet, in one run.

Run it as `python benchmarks/tpch.py`; `--help` lists its options. Both alternate. The first two runs of each query do
not count, because HotSpot is still compiling. Of the next three, the best counts. Planning is the time until `lake.sql`
returns a DataFrame, less the time of `spark.sql` for the same text over Parquet, the best of the same runs.
PENNON_TPCH_SCALE sets another scale than 1.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from figures import MS, TIMES, Figure, Goal, Section, run_section
from plot import LOOKS, plain
from progress import stage
from results import OURS, REFERENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from rich.console import Console

    from pennon.spark import Lake

SCALE, QUICK_SCALE = os.environ.get("PENNON_TPCH_SCALE", "1"), "0.01"
WARM_UPS, ROUNDS = 2, 3
MEAN, WORST, PLANNING = Goal(1.0, relative=False), Goal(1.5), Goal(50, relative=False)


@dataclass(frozen=True)
class Run:
    """The milliseconds of one run of a query: until there is a DataFrame, and until there are rows."""

    planned: float
    finished: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the section."""
    return run_section("tpch", "TPC-H on Spark: Lance through Pennon, and Parquet", measure, draw, arguments)


def measure(console: Console, quick: bool) -> Section:  # noqa: FBT001 - the signature of all sections
    """Measure every query."""
    sys.path.append(str(Path(__file__).parent.parent))  # the data of the tests
    from tests import tpc

    scale = QUICK_SCALE if quick else SCALE
    section = Section()
    texts = tpc.queries(tpc.TPCH, limits=True)
    with (
        tempfile.TemporaryDirectory(prefix="pennon-benchmark-", ignore_cleanup_errors=True) as directory,
        stage(console, f"TPC-H, scale {scale}", len(texts) + 1) as announce,
    ):
        announce("making the tables")
        lake, parquet = _start(Path(directory), tpc.generate(tpc.TPCH, float(scale), Path(directory)))
        for name, text in texts.items():
            announce(name)
            section.figures += _figures(f"scale {scale}", name, _alternate(lake, parquet, text))
        lake.spark.stop()
    ratios = [figure.ratio for figure in section.figures if figure.ratio is not None and figure.goal is WORST]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    section.figures.append(Figure(f"scale {scale}", "geometric mean of the ratios", TIMES, mean, None, MEAN))
    section.figures.append(Figure(f"scale {scale}", "worst ratio", TIMES, max(ratios), None, Goal(1.5, relative=False)))
    return section


def _start(directory: Path, paths: dict[str, Path]) -> tuple[Lake, SparkSession]:
    """Return a lake with the tables, and a session in which views of Parquet have the same names."""
    from pennon.spark import attach
    from pennon.spark.session import new_session

    settings = {"spark.driver.memory": "6g", "spark.sql.shuffle.partitions": "4"}
    spark = new_session("benchmark", master="local[2]", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    parquet = spark.newSession()
    lake = attach(spark, root=str(directory / "lake"))
    for table, path in paths.items():
        # Spark writes the files that it reads, as it does for the lake: files of DuckDB have other row groups.
        written = str(directory / f"spark-{table}")
        spark.read.parquet(str(path)).write.parquet(written)
        parquet.read.parquet(written).createOrReplaceTempView(table)
        lake.write(spark.read.parquet(written), table, mode="create")
    return lake, parquet


def _alternate(lake: Lake, parquet: SparkSession, text: str) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {REFERENCE: [], OURS: []}
    systems: dict[str, Callable[[str], DataFrame]] = {REFERENCE: parquet.sql, OURS: lake.sql}
    for turn in range(WARM_UPS + ROUNDS):
        for system, ask in systems.items():
            begun = time.perf_counter()
            frame = ask(text)
            planned = time.perf_counter() - begun
            frame.collect()
            if turn >= WARM_UPS:
                found[system].append(Run(planned * 1e3, (time.perf_counter() - begun) * 1e3))
    return found


def _figures(client: str, name: str, runs: dict[str, list[Run]]) -> list[Figure]:
    ours, reference = (min(one.finished for one in runs[system]) for system in (OURS, REFERENCE))
    planned, parsed = (min(one.planned for one in runs[system]) for system in (OURS, REFERENCE))
    return [
        Figure(client, name, MS, ours, reference, WORST),
        Figure(client, f"{name} planning", MS, max(planned - parsed, 0.0), None, PLANNING),
    ]


def draw(section: Section, path: Path) -> None:
    """Draw each query's time as a share of Parquet's."""
    judged = [figure for figure in section.figures if figure.goal is WORST]
    figure, axes = plt.subplots(figsize=(9, 4.2))
    bars = axes.bar([one.operation for one in judged], [one.ratio or 0 for one in judged], color=LOOKS[OURS]["color"])
    axes.bar_label(bars, fmt="%.2f", fontsize=7)
    axes.axhline(1.0, color=LOOKS[REFERENCE]["color"], linewidth=1.2, label="Parquet")
    axes.axhline(WORST.bound, color="#222222", linestyle=":", linewidth=1.2, label="goal of each query")
    axes.set_ylabel("time, as a share of Parquet's")
    axes.tick_params(axis="x", labelsize=8)
    axes.legend(frameon=False, ncols=2, loc="upper right")
    plain(axes)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
