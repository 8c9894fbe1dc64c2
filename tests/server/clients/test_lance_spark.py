"""lance-spark 0.4.0 on PySpark 3.5 as a client. Both are fetched into a cache outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pennon
from pennon.errors import NamespaceNotFoundError

pytestmark = [pytest.mark.interop, pytest.mark.soak]
PROGRAM = Path(__file__).parent / "lance_spark_client.py"
DIRECTORY_PROGRAM = Path(__file__).parent / "lance_spark_directory.py"
CACHE = Path(os.environ.get("PENNON_SPARK_35", Path.home() / ".cache" / "pennon" / "spark-3.5"))
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>tests</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.lance</groupId><artifactId>lance-spark-3.5_2.12</artifactId><version>0.4.0</version></dependency>
  </dependencies>
</project>
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """Return the Python of an environment with PySpark 3.5."""
    environment, uv = CACHE / "venv", Path(sys.executable).parent / "uv"
    if not (environment / "done").exists():
        _fetch([uv, "venv", "--clear", "--python", sys.executable, environment])
        packages = ["pyspark==3.5.*", "pandas<3", "pyarrow", "setuptools"]
        _fetch([uv, "pip", "install", "--python", environment / "bin" / "python", *packages])
        (environment / "done").touch()
    return environment / "bin" / "python"


@pytest.fixture(scope="module")
def jars() -> Path:
    """Return the directory of lance-spark and what it depends on."""
    found, maven = CACHE / "jars", shutil.which("mvn")
    if not found.exists():
        if maven is None:
            pytest.skip("Maven is not installed")
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "pom.xml").write_text(POM, encoding="utf-8")
        arriving = CACHE / "arriving"
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={arriving}"]
        _fetch([maven, "-q", "-B", "-f", CACHE / "pom.xml", "dependency:copy-dependencies", *options])
        arriving.rename(found)
    return found


def _fetch(command: list[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{command[0]} cannot fetch what the test needs: {(done.stderr or done.stdout)[-500:]}")


def test_lance_spark_reads_and_writes_tables(python, jars, server, space):
    done = subprocess.run([python, PROGRAM, server.lance, space, jars], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]


def test_a_directory_of_lance_spark_is_a_catalog_that_both_write_to(python, jars, tmp_path):
    root = tmp_path / "lake"

    def run(step: str) -> str:
        command = [python, DIRECTORY_PROGRAM, root, jars, step]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    assert run("create") == "[(1, 'a'), (2, 'b')]\n"
    with pennon.open(root) as lake:
        assert lake.tables() == ["default.orders", "sales.orders"]
        with pytest.raises(NamespaceNotFoundError, match="default"):
            lake["default.orders"]
        lake.create_namespace("default")
        assert lake["default.orders"].count() == 2
        lake["sales.orders"].append({"id": [3], "name": ["c"]})
        lake.drop("sales.orders")
        lake.undrop("sales.orders")
    assert run("extend") == "[(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')]\n"
    with pennon.open(root) as lake:
        assert lake["sales.orders"].count() == 4
