"""Queries of the manifest table run in the calling thread only where Lance allows it."""

from __future__ import annotations

import subprocess
import sys
from threading import Thread, current_thread

import lance
import pytest
from lance.dataset import LanceScanner
from lance.progress import FragmentWriteProgress

from pennon.directory.manifest import scan as scans
from pennon.directory.manifest.row import Row, rows_to_table
from pennon.directory.manifest.scan import scan

# Lance asks a client for its id in the thread that opens the table. This client reads the manifest to answer.
INSIDE_LANCE = """
import sys
import lance
from lance_namespace import DescribeTableResponse, LanceNamespace
from pennon.directory.manifest.scan import scan

path = sys.argv[1]
manifest = lance.dataset(path)

class Client(LanceNamespace):
    def namespace_id(self):
        return str(scan(manifest, ["object_id"]).num_rows)

    def describe_table(self, request):
        return DescribeTableResponse(location=path, managed_versioning=True)

    def list_table_versions(self, request):
        raise RuntimeError("seen")

try:
    lance.dataset(namespace_client=Client(), table_id=["t"])
except (OSError, RuntimeError, ValueError) as error:
    assert "seen" in str(error), error
"""


@pytest.fixture
def table(tmp_path):
    return lance.write_dataset(rows_to_table([Row("a", "namespace")]), str(tmp_path / "t"))


@pytest.fixture
def scanning_threads(monkeypatch):
    """Collect the threads in which scans run."""
    threads = []
    to_table = LanceScanner.to_table

    def record(scanner):
        threads.append(current_thread())
        return to_table(scanner)

    monkeypatch.setattr(LanceScanner, "to_table", record)
    return threads


def run_in_thread(work, *, daemon):
    thread = Thread(target=work, daemon=daemon)
    thread.start()
    thread.join()
    return thread


def test_scan_runs_in_the_calling_thread(table, scanning_threads):
    assert scan(table, ["object_id"])["object_id"].to_pylist() == ["a"]
    other = run_in_thread(lambda: scan(table, ["object_id"]), daemon=False)
    assert scanning_threads == [current_thread(), other]


def test_scan_of_a_daemon_thread_runs_in_another(table, scanning_threads):
    caller = run_in_thread(lambda: scan(table, ["object_id"]), daemon=True)
    assert [thread.name for thread in scanning_threads] == ["pennon-scan"]
    assert caller not in scanning_threads


def test_scan_inside_a_call_of_lance_is_never_safe(tmp_path):
    seen = []

    class Progress(FragmentWriteProgress):
        def begin(self, *_, **__):
            seen.append((current_thread(), scans._is_safe_here()))

        def complete(self, *_, **__):
            pass

    lance.write_dataset(rows_to_table([Row("a", "namespace")]), str(tmp_path / "t"), progress=Progress())

    assert seen == [(current_thread(), False)]


def test_scan_inside_a_call_of_lance_does_not_abort(table):
    done = subprocess.run([sys.executable, "-c", INSIDE_LANCE, table.uri], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
