"""Use an installed Pennon: modules, catalog, command, server, and Spark if it is installed. Prints one line for each.

`make release-check` runs it in environments that contain nothing but Pennon and its dependencies.
"""

from __future__ import annotations

import importlib.util
import json
import pkgutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import lance
import pyarrow as pa
from lance_namespace import CreateNamespaceRequest, CreateTableRequest, DescribeTableRequest, ListTablesRequest
from lance_namespace.errors import InvalidInputError

import pennon

COMMAND = str(Path(sys.executable).with_name("pennon"))
ROWS = 3
# What modules of extras need: servers, Spark, pytest, SigV4, traces, and credentials of Azure and of Google Cloud.
OPTIONAL = ("pennon[", "fastapi", "pyspark", "pytest", "botocore", "opentelemetry", "azure", "google")


def main() -> None:
    """Do all steps in a temporary root; the first that fails raises."""
    if not Path(pennon.__file__).is_relative_to(sys.prefix):
        raise SystemExit(f"{pennon.__file__} is not of the environment {sys.prefix}")
    with tempfile.TemporaryDirectory(prefix="pennon-smoke-") as root:
        for step in (import_modules, create, run_command, serve, write_with_spark):
            started = time.monotonic()
            print(f"    {step.__name__}: {step(root)}, {time.monotonic() - started:.1f} s", flush=True)


def import_modules(_: str) -> str:
    """Import every module, except those of extras that are not installed."""
    names = [found.name for found in pkgutil.walk_packages(pennon.__path__, "pennon.") if "__main__" not in found.name]
    without = 0
    for name in names:
        try:
            importlib.import_module(name)
        except (ImportError, InvalidInputError) as error:
            if not any(word in str(error) for word in OPTIONAL):
                raise
            without += 1
    return f"{len(names)} modules on Python {sys.version.split()[0]}, {without} of them need other extras"


def create(root: str) -> str:
    """Create a namespace and a table, and read it with plain Lance."""
    sink = pa.BufferOutputStream()
    data = pa.table({"x": list(range(ROWS))})
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    with pennon.DirectoryNamespace(root=root) as catalog:
        catalog.create_namespace(CreateNamespaceRequest(id=["sales"]))
        catalog.create_table(CreateTableRequest(id=["sales", "orders"]), sink.getvalue().to_pybytes())
        location = catalog.describe_table(DescribeTableRequest(id=["sales", "orders"])).location
    expect(lance.dataset(location).count_rows(), ROWS)
    return f"pennon {version('pennon')}, pylance {version('pylance')}"


def run_command(root: str) -> str:
    """List the table with the command."""
    command = [COMMAND, "--root", root, "--json", "ls", "sales"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expect([entry["address"] for entry in json.loads(done.stdout)["entries"]], ["sales.orders"])
    return done.args[0]


def serve(root: str) -> str:
    """Start the server, and list the table through it."""
    command = [COMMAND, "serve", "--root", root, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            answer = ""
            while server.stdout and not answer.endswith("}\n"):
                line = server.stdout.readline()
                if not line:
                    raise SystemExit(f"`pennon serve` ended with {server.wait()}")
                answer += line
            url = json.loads(answer)["url"]
            with pennon.RestNamespace(uri=url) as client:
                expect(client.list_tables(ListTablesRequest(id=["sales"])).tables, ["orders"])
        finally:
            server.terminate()
    return url


def write_with_spark(root: str) -> str:
    """Append to the table with Spark, and count."""
    if importlib.util.find_spec("pyspark") is None:
        return "not installed"
    from pyspark.sql import SparkSession

    from pennon.spark import attach

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    lake = attach(spark, root=root)
    lake.write(spark.range(ROWS).withColumnRenamed("id", "x"), "sales.orders")
    expect(lake.sql("SELECT count(*) FROM sales.orders").collect()[0][0], 2 * ROWS)
    spark.stop()
    return f"pyspark {version('pyspark')}"


def expect(found: object, wanted: object) -> None:
    """Raise SystemExit if two values differ."""
    if found != wanted:
        raise SystemExit(f"{found!r} instead of {wanted!r}")


if __name__ == "__main__":
    main()
