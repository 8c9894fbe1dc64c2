"""Programs that do not close their namespaces exit with their own exit code, and print nothing of ours."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.exits.exit_programs import PRELUDE, SECONDS, End, arguments, run, run_all

pytestmark = pytest.mark.concurrency

OPENED = """
ns = DirectoryNamespace(**PROPERTIES)
"""
BUSY = f"""{OPENED}
commit_until_upkeep_is_in_lance(ns)
"""
TEN_TABLES = f"""{OPENED}
for number in range(10):
    ns.create_table({{"id": [f"{{NAME}}_{{number}}"]}}, rows())
"""


@dataclass(frozen=True)
class Ending:
    """The last lines of a program, and what its end must look like."""

    lines: str
    code: int = 0
    last_words: str | None = None

    def is_of(self, end: End) -> bool:
        """Return True if a program ended like this."""
        if self.last_words is None:
            return end.is_silent(self.code)
        return end.is_traceback(self.code, self.last_words)


ENDINGS = {
    "normal": Ending(""),
    "sys.exit": Ending("sys.exit(3)", 3),
    "exception": Ending("raise ValueError('last words')", 1, "ValueError: last words"),
    "ctrl-c": Ending("signal.raise_signal(signal.SIGINT)", -signal.SIGINT, "KeyboardInterrupt"),
    "sigterm": Ending("signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM),
    "handled sigterm": Ending(
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(4)); signal.raise_signal(signal.SIGTERM)", 4
    ),
    "collected": Ending("del ns; gc.collect()"),
    "exit handler": Ending("atexit.register(ns.create_namespace, {'id': [NAME + ' at the end']})"),
    "thread": Ending("threading.Thread(target=commit_until_upkeep_is_in_lance, args=(ns, 'thread')).start()"),
    "daemon thread": Ending(
        "threading.Thread(target=commit_until_upkeep_is_in_lance, args=(ns, 'thread'), daemon=True).start()"
    ),
    "closed": Ending("ns.close(); sys.exit(3)", 3),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_a_program_that_ends_during_upkeep_has_its_own_exit_code(tmp_path, ending):
    end = run(BUSY + ending.lines, arguments(str(tmp_path), "compatibility"))
    assert ending.is_of(end), end


def test_programs_that_do_not_close_a_shared_root_exit_with_0(tmp_path):
    programs = [(TEN_TABLES, arguments(str(tmp_path), "v2", f"p{number}")) for number in range(8)]
    assert Counter(run_all(programs, at_once=8)) == Counter({End(0, ""): len(programs)})


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_hundreds_of_programs_that_share_roots_exit_with_0(tmp_path, mode):
    for crowd in range(6):
        root = str(tmp_path / f"root{crowd}")
        programs = [(TEN_TABLES, arguments(root, mode, f"p{number}")) for number in range(32)]
        assert Counter(run_all(programs, at_once=8)) == Counter({End(0, ""): len(programs)})


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["v2", "compatibility"])
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_many_programs_that_end_during_upkeep_have_their_own_exit_code(tmp_path, mode, ending):
    programs = [(BUSY + ending.lines, arguments(str(tmp_path), mode, f"p{number}-")) for number in range(16)]
    assert [end for end in run_all(programs, at_once=4) if not ending.is_of(end)] == []


# The thread that waits for Lance's callback is not a daemon: it continues until the main thread has ended.
INTERRUPTED_COMMIT = f"""{OPENED}
ns.enable_table_version_management()
ns.create_table({{"id": [NAME]}}, rows())

def interrupt():
    while threading.main_thread().is_alive():
        if someone_is_in("/versions/callback.py"):
            os.kill(os.getpid(), signal.SIGINT)
            threading.main_thread().join(5)

threading.Thread(target=interrupt).start()
while True:
    ns.insert_into_table({{"id": [NAME]}}, rows())
"""


@pytest.mark.parametrize("programs", [pytest.param(4, id="few"), pytest.param(64, id="many", marks=pytest.mark.soak)])
def test_ctrl_c_while_lance_calls_back_ends_the_program_by_ctrl_c(tmp_path, programs):
    started = [(INTERRUPTED_COMMIT, arguments(str(tmp_path / f"{number}"))) for number in range(programs)]
    ends = run_all(started, at_once=4)
    assert [end for end in ends if not end.is_traceback(-signal.SIGINT, "KeyboardInterrupt")] == []


CHILDREN = """
def child(mark):
    ns = DirectoryNamespace(**PROPERTIES)
    commit_until_upkeep_is_in_lance(ns, mark)
    sys.exit(5)

def idle_child():
    sys.exit(6)

if __name__ == "__main__":
    context = multiprocessing.get_context(METHOD)
    children = [context.Process(target=child, args=(mark,)) for mark in "ab"]
    [one.start() for one in children]
    [one.join() for one in children]
    ns = DirectoryNamespace(**PROPERTIES)
    commit_until_upkeep_is_in_lance(ns, "parent")
    children.append(context.Process(target=idle_child))
    children[-1].start()
    children[-1].join()
    sys.exit(0 if [one.exitcode for one in children] == [5, 5, 6] else f"{[one.exitcode for one in children]}")
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_multiprocessing_have_their_own_exit_code(tmp_path, method):
    # Spawned children read the program from its file. Lance warns about any fork.
    program = tmp_path / "program.py"
    program.write_text(PRELUDE + CHILDREN.replace("METHOD", repr(method)))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", program, *arguments(str(tmp_path / "root"))],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
