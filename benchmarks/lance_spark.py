"""Compare Pennon with lance-spark on Spark 3.5, each as a ratio to Parquet in its own environment.

Run it as `make bench-lance-spark`. The environment with PySpark 3.5 and the jars are fetched once, into a cache
directory (PENNON_SPARK_35). A ratio below one means that a system is faster than Parquet on the same Spark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import spark as pennon_spark
from figures import TIMES, Figure, Goal, Section, run_section
from plot import LOOKS, plain
from results import OURS
from spark_workload import QUICK_ROWS, ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

CLIENT = Path(__file__).parent / "lance_spark_client.py"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the section."""
    title = "Pennon on Spark 4 and lance-spark on Spark 3.5, as ratios to Parquet in each"
    return run_section("lance-spark", title, measure, draw, arguments)


def measure(console: Console, quick: bool) -> Section:  # noqa: FBT001 - the signature of all sections
    """Measure both environments, one after the other."""
    sys.path.append(str(Path(__file__).parent.parent))  # the environment of the tests
    from tests import lance_spark_environment

    python, jars = lance_spark_environment.fetch_python(), lance_spark_environment.fetch_jars()
    rows = QUICK_ROWS if quick else ROWS
    with tempfile.TemporaryDirectory(prefix="pennon-benchmark-", ignore_cleanup_errors=True) as directory:
        command = [str(python), str(CLIENT), str(rows), directory, str(jars)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=_plain_environment())
        theirs = json.loads(done.stdout.splitlines()[-1])
    with tempfile.TemporaryDirectory(prefix="pennon-benchmark-", ignore_cleanup_errors=True) as directory:
        context = pennon_spark.started(Path(directory), rows, None)
        ours = pennon_spark.measure(console, context)
        context.spark.stop()
    section = Section()
    for name, runs in theirs.items():
        ratios = [
            min(found[system]) / min(found[pennon_spark.PARQUET])
            for found, system in ((ours[name], OURS), (runs, pennon_spark.LANCE_SPARK))
        ]
        section.figures.append(Figure("ratio to Parquet", name, TIMES, *ratios, Goal(1.0)))
    section.notes.append("the reference is lance-spark 0.4.0 on Spark 3.5, with Parquet on the same Spark")
    return section


def _plain_environment() -> dict[str, str]:
    """Return the variables without those that would lead Spark 3.5 to another Spark or Python."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_", "PYTHONPATH"))}


def draw(section: Section, path: Path) -> None:
    """Draw the ratios of both systems."""
    figure, axes = plt.subplots(figsize=(9, 4.2))
    names = [one.operation for one in section.figures]
    for shift, label, values, color in (
        (-0.2, "Pennon", [one.ours or 0 for one in section.figures], LOOKS[OURS]["color"]),
        (0.2, "lance-spark", [one.reference or 0 for one in section.figures], "#7a7a7a"),
    ):
        bars = axes.bar([place + shift for place in range(len(names))], values, 0.38, label=label, color=color)
        axes.bar_label(bars, fmt="%.2f", fontsize=7)
    axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.set_ylabel("time, as a share of Parquet's")
    axes.legend(frameon=False, ncols=2, loc="upper right")
    plain(axes)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
