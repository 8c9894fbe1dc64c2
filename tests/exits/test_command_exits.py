"""The command `pennon`, servers and clients of servers exit with their own exit code."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from pennon import DirectoryNamespace
from pennon.directory.manifest.upkeep import VERSIONS_PER_ROUND
from tests.exits.exit_programs import SECONDS, End, run
from tests.support import create_namespace

pytestmark = pytest.mark.concurrency


def test_a_command_that_begins_upkeep_exits_with_its_own_code(tmp_path):
    with DirectoryNamespace(root=str(tmp_path)) as ns:
        for number in range(VERSIONS_PER_ROUND - 1):
            create_namespace(ns, f"n{number}")
    command = [sys.executable, "-m", "pennon", "create-namespace", "last", "--root", str(tmp_path)]
    for code in (0, 4):
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == code
        assert "Traceback" not in done.stderr
        assert "FATAL" not in done.stderr


@contextmanager
def serving(root):
    """Serve a root with the command `pennon serve` and return the process and its address."""
    command = [sys.executable, "-m", "pennon", "serve", "--port", "0", "--root", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = [process.stdout.readline()]
            while not lines[-1].startswith("}"):
                lines.append(process.stdout.readline())
            yield process, json.loads("".join(lines))["iceberg"]
        finally:
            process.kill()


ICEBERG = """
ns = IcebergNamespace(**PROPERTIES)
ns.create_namespace({"id": [NAME]})
for number in range(VERSIONS):
    ns.create_table({"id": [NAME, f"t{number}"]}, rows())
"""


@pytest.mark.parametrize(
    ("ending", "number", "expected"),
    [("", signal.SIGTERM, End(0, "")), ("sys.exit(3)", signal.SIGINT, End(3, ""))],
    ids=["normal and sigterm", "sys.exit and ctrl-c"],
)
def test_a_server_and_its_client_exit_with_their_own_codes(tmp_path, ending, number, expected):
    with serving(tmp_path) as (process, url):
        lines = ICEBERG.replace("VERSIONS", str(VERSIONS_PER_ROUND)) + ending
        end = run(lines, ["n", f"uri={url}", f"root={tmp_path}/tables"])
        # The server has committed at least sixteen versions: upkeep is due.
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=SECONDS)
    assert end == expected
    assert (process.returncode, stdout, stderr) == (0, "", "")
