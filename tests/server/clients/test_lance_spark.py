"""lance-spark 0.4.0 on PySpark 3.5 as a client. Both are fetched into a cache outside the repository."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pennon
from pennon.errors import NamespaceNotFoundError
from tests.lance_spark_environment import NotFetchedError, fetch_jars, fetch_python

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.interop, pytest.mark.soak]
PROGRAM = Path(__file__).parent / "lance_spark_client.py"
DIRECTORY_PROGRAM = Path(__file__).parent / "lance_spark_directory.py"


@pytest.fixture(scope="module")
def python() -> Path:
    """Return the Python of an environment with PySpark 3.5."""
    return _fetch(fetch_python)


@pytest.fixture(scope="module")
def jars() -> Path:
    """Return the directory of lance-spark and what it depends on."""
    return _fetch(fetch_jars)


def _fetch(fetch: Callable[[], Path]) -> Path:
    try:
        return fetch()
    except NotFetchedError as error:
        pytest.skip(f"What the test needs cannot be fetched: {error}")


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
