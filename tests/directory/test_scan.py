"""Queries of the manifest table inside a call of Lance, which aborts the process if they run in the calling thread."""

from __future__ import annotations

import subprocess
import sys

import lance

from pennon.directory.manifest.row import Row, rows_to_table

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
else:
    raise AssertionError("the client was not asked")
"""


def test_scan_inside_a_call_of_lance_does_not_abort(tmp_path):
    table = lance.write_dataset(rows_to_table([Row("a", "namespace")]), str(tmp_path / "t"))

    done = subprocess.run([sys.executable, "-c", INSIDE_LANCE, table.uri], capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()
