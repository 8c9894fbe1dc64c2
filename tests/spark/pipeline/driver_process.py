"""A driver in a separate process: runs one pipeline for each line of JSON on stdin.

A command may name a point at which the process sends itself a signal (see tests/concurrency/hooks.py).
"""

from __future__ import annotations

import json
import sys
import traceback

from pyspark.sql import SparkSession

from pennon.spark import attach
from pennon.spark.pipeline import Pipeline
from tests.concurrency.hooks import Point, count_at, strike_at

COUNTED = {
    "steps": "pennon.spark.pipeline.pipeline_run:stage_step",
    "writes": "pennon.spark.pipeline.pipeline_run:tables.stage",
    "merges": "pennon.spark.pipeline.pipeline_run:merge.stage_merge",
    "checks": "pennon.spark.pipeline.check_subjects:run_checks",
}


def main() -> None:
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{sys.argv[1]}").getOrCreate()
    counts = count_at(list(COUNTED.values()))
    for line in sys.stdin:
        command = json.loads(line)
        for name in COUNTED.values():
            counts[name] = 0
        try:
            answer = run(session, command)
            answer["counts"] = {short: counts[name] for short, name in COUNTED.items()}
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def run(session: SparkSession, command: dict) -> dict:
    lake = attach(session, root=command["root"])
    if "prepare" in command:
        lake.catalog.enable_table_version_management()
        lake.catalog.create_namespace({"id": ["shop"]})
    if "strike" in command:
        side, call, number, signal = command["strike"]
        strike_at(Point(side, call, number), signal)
    pipeline = Pipeline.from_text(command["pipeline"], {"files": command["files"]})
    return {"report": pipeline.run(lake, run_id=command["run_id"]).document()}


if __name__ == "__main__":
    main()
