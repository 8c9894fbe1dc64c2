"""Drivers that are killed while they commit an epoch: after a restart, each row is written once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import lance
import pytest

from pennon import connect

SCRIPT = Path(__file__).with_name("killed_driver.py")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java 17 or newer"
    ),
]


class Driver:
    """Restarts the same query."""

    def __init__(self, root: str, place: Path) -> None:
        self.root = root
        self.files = place / "files"
        self.checkpoint = place / "checkpoint"
        self.files.mkdir()
        for number in range(3):
            lines = [f'{{"id": {2 * number}}}', f'{{"id": {2 * number + 1}}}']
            file = self.files / f"{number}.json"
            file.write_text("\n".join(lines), encoding="utf-8")
            os.utime(file, (1_000_000 + number, 1_000_000 + number))  # Spark reads the oldest first

    def run(self, point: str, epoch: int) -> int:
        """Run the query until it ends or is killed."""
        command = [sys.executable, SCRIPT, self.files, self.root, self.checkpoint, point, epoch]
        done = subprocess.run([str(one) for one in command], capture_output=True, text=True, timeout=600, check=False)
        print(done.stdout, done.stderr[-5000:])
        return done.returncode

    def logged(self) -> tuple[int, int]:
        """Return the last epochs that Spark has planned and recorded as done."""
        return self._last("offsets"), self._last("commits")

    def _last(self, log: str) -> int:
        return max((int(one.name) for one in (self.checkpoint / log).glob("*") if one.name.isdigit()), default=-1)

    def ids(self) -> list[int]:
        """Return the rows of the table."""
        table = lance.dataset(namespace_client=connect("dir", {"root": self.root}), table_id=["t"])
        return sorted(table.to_table()["id"].to_pylist())


def test_each_row_is_written_once_wherever_the_driver_is_killed(root, tmp_path):
    driver = Driver(root, tmp_path)
    # Epoch 1 is committed, but Spark has not recorded it.
    assert driver.run("after", 1) != 0
    assert driver.logged() == (1, 0)
    assert driver.ids() == [0, 1, 2, 3]
    # Its repetition changes nothing. The files of epoch 2 are written, but not committed.
    assert driver.run("within", 2) != 0
    assert driver.logged() == (2, 1)
    assert driver.ids() == [0, 1, 2, 3]
    # Its repetition commits it.
    assert driver.run("never", 0) == 0
    assert driver.logged() == (2, 2)
    assert driver.ids() == [0, 1, 2, 3, 4, 5]
