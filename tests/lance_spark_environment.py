"""lance-spark 0.4.0 on PySpark 3.5: an environment of its own and jars, in a cache outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = Path(os.environ.get("PENNON_SPARK_35", Path.home() / ".cache" / "pennon" / "spark-3.5"))
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>tests</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.lance</groupId><artifactId>lance-spark-3.5_2.12</artifactId><version>0.4.0</version></dependency>
  </dependencies>
</project>
"""
_PACKAGES = ("pyspark==3.5.*", "pandas<3", "pyarrow", "setuptools")


class NotFetchedError(Exception):
    """Something could not be fetched."""


def fetch_python() -> Path:
    """Return the Python of an environment with PySpark 3.5. Raises NotFetchedError if it cannot be made."""
    environment, uv = CACHE / "venv", Path(sys.executable).parent / "uv"
    python = environment / "bin" / "python"
    if not (environment / "done").exists():
        _run([uv, "venv", "--clear", "--python", sys.executable, environment])
        _run([uv, "pip", "install", "--python", python, *_PACKAGES])
        (environment / "done").touch()
    return python


def fetch_jars() -> Path:
    """Return the directory of lance-spark and what it depends on. Raises NotFetchedError without Maven."""
    found, maven = CACHE / "jars", shutil.which("mvn")
    if not found.exists():
        if maven is None:
            raise NotFetchedError("Maven is not installed")
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "pom.xml").write_text(_POM, encoding="utf-8")
        arriving = CACHE / "arriving"
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={arriving}"]
        _run([maven, "-q", "-B", "-f", CACHE / "pom.xml", "dependency:copy-dependencies", *options])
        arriving.rename(found)
    return found


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotFetchedError(f"{command[0]} failed: {(done.stderr or done.stdout)[-500:]}")
