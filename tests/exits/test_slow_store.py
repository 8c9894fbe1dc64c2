"""A store that does not answer keeps no program from its end."""

from __future__ import annotations

import signal
import subprocess
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from tests.exits.exit_programs import SECONDS, End, command
from tests.servers import CountingS3
from tests.support import MODES, Root

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

pytestmark = [pytest.mark.s3, pytest.mark.concurrency]

PATIENCE = 25.0
"""Seconds for which a request is held at most: clients give up after 30."""


class StallingS3(CountingS3):
    """moto's S3, which holds back all requests for the indexes of a manifest: upkeep alone makes them."""

    def __init__(self) -> None:
        super().__init__()
        self.held = Event()
        self.let_go = Event()

    def _serve(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        if "/__manifest/_indices/" in environ["PATH_INFO"] and not self.let_go.is_set():
            self.held.set()
            self.let_go.wait(PATIENCE)
        return super()._serve(environ, start_response)


@pytest.fixture
def stalling() -> Iterator[StallingS3]:
    with StallingS3() as server:
        try:
            yield server
        finally:
            server.let_go.set()


WORKING = """
ns = DirectoryNamespace(**PROPERTIES)
for number in range(32):
    ns.create_namespace({"id": [f"{NAME}{number}"]})
sys.stdin.readline()
"""


def start_program(server: StallingS3, lines: str, mode: str = "v2") -> subprocess.Popen[str]:
    """Start a program on a bucket."""
    root = Root(server.endpoint.uri("root"), server.endpoint.storage_options())
    properties = [f"{key}={value}" for key, value in {**root.properties, **MODES[mode]}.items()]
    return subprocess.Popen(
        command(lines, ["n", *properties]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# The signal comes while the exit waits for upkeep.
CTRL_C_AT_EXIT = """
from pennon import background

def interrupt():
    while sys._current_frames()[threading.main_thread().ident].f_code is not background._wait.__code__:
        pass
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("sys.exit(3)", End(3, "")),
        (CTRL_C_AT_EXIT, End(3, "")),
        ("signal.raise_signal(signal.SIGTERM)", End(-signal.SIGTERM, "")),
    ],
    ids=["sys.exit", "ctrl-c during the wait", "sigterm"],
)
def test_program_exits_while_upkeep_waits_for_the_store(stalling, lines, expected):
    with start_program(stalling, WORKING + lines) as process:
        assert stalling.held.wait(SECONDS)
        # It ends before the request does.
        _, stderr = process.communicate("\n", timeout=PATIENCE)
    assert not stalling.let_go.is_set()
    assert End(process.returncode, stderr) == expected


# Global variables of a program are deleted while the interpreter shuts down.
LINGERING = """
class Lingering:
    def __del__(self, write=os.write, read=os.read):
        write(1, b"shutting down\\n")
        read(0, 1)

lingering = Lingering()
sys.exit(3)
"""


def test_response_during_interpreter_shutdown_is_harmless(stalling):
    with start_program(stalling, WORKING + LINGERING) as process:
        assert stalling.held.wait(SECONDS)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "shutting down\n"
        stalling.let_go.set()
        # By now the waiting thread would have ended the process.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        _, stderr = process.communicate("\n", timeout=SECONDS)
    assert End(process.returncode, stderr) == End(3, "")


# Python's thread pools accept no work at that time.
AT_EXIT = """
ns = DirectoryNamespace(**PROPERTIES)
for name in ("a", "b", "c"):
    ns.create_table({"id": [name]}, rows())
    ns.drop_table({"id": [name]})
atexit.register(lambda: print(len(ns.list_dropped_tables()[0])))
"""


def test_an_exit_handler_can_use_a_catalog_in_a_bucket(stalling):
    stalling.let_go.set()
    with start_program(stalling, AT_EXIT, mode="v1") as process:
        stdout, stderr = process.communicate("\n", timeout=SECONDS)
    assert (stdout, End(process.returncode, stderr)) == ("3\n", End(0, ""))
