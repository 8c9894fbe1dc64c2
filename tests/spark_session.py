"""The Spark session of the tests. Tests that use the fixture `spark` are marked, and share one session."""

from __future__ import annotations

import os
import shutil
import sys

import pytest


def mark(items, folder: str) -> None:
    """Mark tests that use Spark. Without Java they are skipped."""
    java = shutil.which("java") is not None or "JAVA_HOME" in os.environ
    for item in items:
        if folder not in item.path.as_posix() or "spark" not in getattr(item, "fixturenames", ()):
            continue
        item.add_marker(pytest.mark.spark)
        # Lance warns about the fork that starts Java, but the child does not use Lance.
        item.add_marker(pytest.mark.filterwarnings("ignore:.*warn_on_fork"))
        if not java:
            item.add_marker(pytest.mark.skip(reason="Spark needs Java 17 or newer"))


@pytest.fixture(scope="session")
def spark():
    """Start Spark with two cores in this process; as a Connect server and client if PENNON_TEST_SPARK is set."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pennon.spark.session import new_session

    where = {"remote": "local[2]"} if os.environ.get("PENNON_TEST_SPARK") == "connect" else {"master": "local[2]"}
    session = new_session("tests", **where, **{"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()
