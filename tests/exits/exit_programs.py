"""Real programs that use a catalog, and how they ended."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support import MODES

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 240
"""How long a program may take on a busy machine."""

PRELUDE = """
import atexit, gc, multiprocessing, os, signal, sys, threading
import pyarrow as pa
from pennon import DirectoryNamespace, IcebergNamespace

NAME = sys.argv[1]
PROPERTIES = dict(argument.split("=", 1) for argument in sys.argv[2:])

def rows():
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema({"x": pa.int64()})) as writer:
        writer.write_table(pa.table({"x": [1, 2, 3]}))
    return sink.getvalue().to_pybytes()

def someone_is_in(part):
    '''Return True if another thread runs a function of a file whose path has this part.'''
    for ident, frame in sys._current_frames().items():
        while frame is not None and ident != threading.get_ident():
            if part in frame.f_code.co_filename:
                return True
            frame = frame.f_back
    return False

def commit_until_upkeep_is_in_lance(ns, mark=""):
    for number in range(2000):
        ns.create_namespace({"id": [f"{NAME}{mark}{number}"]})
        if someone_is_in("/lance/"):
            return
    os._exit(99)
"""


@dataclass(frozen=True)
class End:
    """How a program ended."""

    code: int
    stderr: str

    def is_silent(self, code: int) -> bool:
        """Return True if it had this exit code and printed nothing."""
        return (self.code, self.stderr) == (code, "")

    def is_traceback(self, code: int, last: str) -> bool:
        """Return True if it had this exit code and printed one traceback alone, with this last line."""
        lines = self.stderr.splitlines()
        return self.code == code and lines[:1] == [_TRACEBACK] and lines.count(_TRACEBACK) == 1 and lines[-1] == last


_TRACEBACK = "Traceback (most recent call last):"


def arguments(root: str, mode: str = "v2", name: str = "n") -> list[str]:
    """Return the arguments of a program: its name, and the properties of its catalog."""
    return [name, f"root={root}", *(f"{key}={value}" for key, value in MODES[mode].items())]


def command(program: str, passed: Sequence[str]) -> list[str]:
    """Return the command that runs a program."""
    return [sys.executable, "-c", PRELUDE + program, *passed]


def run(program: str, passed: Sequence[str]) -> End:
    """Run a program to its end."""
    done = subprocess.run(
        command(program, passed), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return End(done.returncode, done.stderr)


def run_all(programs: Sequence[tuple[str, Sequence[str]]], *, at_once: int) -> list[End]:
    """Run programs, several at a time."""
    with ThreadPoolExecutor(at_once) as threads:
        return list(threads.map(lambda one: run(*one), programs))
