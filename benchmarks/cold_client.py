"""One cold client: ask one question after the imports, print its cost as JSON, and end.

`python cold_client.py IMPLEMENTATION QUESTION PROPERTIES`, with the properties as JSON. `benchmarks/cold.py` starts it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
from pathlib import Path

from lance.namespace import DirectoryNamespace as ReferenceNamespace
from lance_namespace import LanceNamespace, ListTablesRequest, TableExistsRequest
from results import OURS

from pennon import DirectoryNamespace

QUESTIONS = ("exists", "list", "memory")


def main() -> None:
    """Run the question."""
    name, question, properties = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    asked = properties.pop("asked", None)
    before = _resident()
    start = time.perf_counter()
    namespace = (DirectoryNamespace if name == OURS else ReferenceNamespace)(**properties)
    if question == "exists":
        namespace.table_exists(TableExistsRequest(id=asked))
    elif question == "list":
        namespace.list_tables(ListTablesRequest(id=[]))
    else:
        _load_everything(namespace)
    milliseconds = (time.perf_counter() - start) * 1e3
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    print(json.dumps({"ms": milliseconds, "mb": _resident() - before}))


def _load_everything(namespace: LanceNamespace) -> None:
    """List every table twice: a client that loads in the background has finished by then. The names are not kept."""
    for _ in range(2):
        assert namespace.list_all_tables(ListTablesRequest()).tables  # noqa: S101


def _resident() -> float:
    """Return the memory of this process in megabytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    main()
