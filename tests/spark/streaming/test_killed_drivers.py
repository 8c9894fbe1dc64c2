"""A driver that is killed while it commits an epoch: started again, every row is there once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from streams import Table, rows

SCRIPT = Path(__file__).with_name("killed_driver.py")
pytestmark = pytest.mark.spark


def _run(root: str, checkpoint: Path, point: str, epoch: int) -> int:
    command = [sys.executable, str(SCRIPT), root, str(checkpoint), point, str(epoch)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    print(done.stdout, done.stderr[-5000:])  # noqa: T201 - pytest shows it if the test fails
    return done.returncode


def _last(checkpoint: Path, log: str) -> int:
    return max((int(one.name) for one in (checkpoint / log).glob("*") if one.name.isdigit()), default=-1)


@pytest.mark.timeout(900)
def test_rows_are_there_once_wherever_the_driver_is_killed(root, tmp_path, java):
    assert java
    table = Table(root, data=rows(0, 6))
    checkpoint = tmp_path / "checkpoint"
    # Epoch 1 is committed, and Spark does not know it.
    assert _run(root, checkpoint, "after", 1) != 0
    assert (_last(checkpoint, "offsets"), _last(checkpoint, "commits")) == (1, 0)
    assert _ids(table) == [0, 1, 2, 3]
    # It is passed over when it is repeated. Epoch 2 is written to files, and not committed.
    assert _run(root, checkpoint, "within", 2) != 0
    assert (_last(checkpoint, "offsets"), _last(checkpoint, "commits")) == (2, 1)
    assert _ids(table) == [0, 1, 2, 3]
    # It is committed when it is repeated.
    assert _run(root, checkpoint, "never", 0) == 0
    assert _last(checkpoint, "commits") == 2
    assert _ids(table) == list(range(6))


def _ids(table: Table) -> list[int]:
    import lance  # noqa: PLC0415 - here alone

    copy = lance.dataset(namespace_client=table.catalog, table_id=["copy"])
    return sorted(copy.to_table(columns=["id"])["id"].to_pylist())


@pytest.fixture
def java() -> bool:
    import os  # noqa: PLC0415 - here alone
    import shutil  # noqa: PLC0415 - here alone

    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17 or newer")
    return True
