"""Processes for the tests: a crew that runs many races, and children that are killed or stopped.

They come from a fork server that has imported the slow modules except Lance, which does not survive a fork. Each
process imports Lance itself.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from types import TracebackType

    from typing_extensions import Self

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["lance_namespace", "pyarrow.dataset", "obstore", "pytest", "urllib3"])
PATIENCE = 120.0
"""Seconds after which a process that does not respond is a failure."""


class CrewError(AssertionError):
    """A function failed in another process in an unexpected way."""


@dataclass(frozen=True)
class Member:
    """One process of a crew, from the point of view of the function that it runs."""

    index: int
    size: int
    barrier: Any

    def together(self) -> None:
        """Wait for all other members, so that all continue at the same moment."""
        self.barrier.wait(PATIENCE)


class Crew:
    """Processes that run the same function at the same time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._members: list[tuple[Any, Connection]] = []

    def __enter__(self) -> Self:
        self._barrier = _CONTEXT.Barrier(self.size)
        for index in range(self.size):
            ours, theirs = _CONTEXT.Pipe()
            process = _CONTEXT.Process(target=_serve, args=(index, self.size, self._barrier, theirs), daemon=True)
            process.start()
            theirs.close()
            self._members.append((process, ours))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        members, self._members = self._members, []
        for process, connection in members:
            connection.close()
            if kind is not None:
                process.kill()
            process.join(PATIENCE)

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call `function(member, *arguments)` in every member, and return the results by index."""
        for _, connection in self._members:
            connection.send((function, arguments))
        answers = [self._answer(process, connection) for process, connection in self._members]
        faults = [f"member {index}:\n{text}" for index, (fault, text) in enumerate(answers) if fault]
        if faults:
            self._barrier.reset()
            raise CrewError("\n".join(faults))
        return [result for _, result in answers]

    def _answer(self, process: Any, connection: Connection) -> tuple[bool, Any]:
        if not connection.poll(PATIENCE):
            process.kill()
            return True, "it did not answer in time"
        try:
            return connection.recv()
        except EOFError:
            process.join(PATIENCE)
            return True, f"it ended with {process.exitcode}"


def _serve(index: int, size: int, barrier: Any, connection: Connection) -> None:
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = False, function(Member(index, size, barrier), *arguments)
        except BaseException:  # noqa: BLE001 - reported to the test, which fails
            barrier.abort()
            answer = True, traceback.format_exc()
        connection.send(answer)


class Child:
    """A process that runs one function, and may kill or stop itself."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._connection, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_run, args=(theirs, function, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.join(PATIENCE)
        self._connection.close()

    def is_alive(self) -> bool:
        """Return True while the function runs."""
        return not self._connection.poll(0) and self._process.is_alive()

    def result(self) -> Any:
        """Wait for the function's result and return it."""
        if not self._connection.poll(PATIENCE):
            raise CrewError("the child did not answer in time")
        try:
            fault, result = self._connection.recv()
        except EOFError:
            self._process.join(PATIENCE)
            raise CrewError(f"the child ended with {self._process.exitcode}") from None
        if fault:
            raise CrewError(result)
        return result

    def wait_until_killed(self) -> None:
        """Wait until the process has killed itself. Fails if it ended in another way."""
        self._process.join(PATIENCE)
        if self._process.exitcode != -signal.SIGKILL:
            told = self.result() if self._connection.poll(0) else "nothing"
            raise CrewError(f"the child was not killed but ended with {self._process.exitcode} and told {told!r}")

    def was_killed(self) -> bool:
        """Wait for the end, and return True if the process killed itself. If not, its function must have succeeded."""
        self._process.join(PATIENCE)
        if self._process.exitcode == -signal.SIGKILL:
            return True
        told = self.result()
        if not told.acknowledged:
            raise CrewError(f"the child was told {told!r}")
        return False

    def ended_well(self) -> bool:
        """Wait for the end, and return True if the function returned, False if the process was killed."""
        self._process.join(PATIENCE)
        if self._process.exitcode == -signal.SIGKILL:
            return False
        self.result()
        return True

    def wait_until_stopped(self) -> None:
        """Wait until the process has stopped itself. Fails if it ends instead."""
        deadline = time.monotonic() + PATIENCE
        while not _state(self._process.pid).startswith("T"):
            if self._connection.poll(0.02):
                raise CrewError(f"the child was not stopped but told {self.result()!r}")
            if time.monotonic() > deadline:
                raise CrewError("the child was not stopped in time")

    def kill(self) -> None:
        """Kill the process from outside."""
        self._process.kill()
        self._process.join(PATIENCE)

    def stop(self) -> bool:
        """Stop the process from outside. Returns False if it is dead."""
        try:
            os.kill(self._process.pid, signal.SIGSTOP)
        except ProcessLookupError:
            return False
        deadline = time.monotonic() + PATIENCE
        while not (state := _state(self._process.pid)).startswith("T"):
            if not state or state.startswith("Z"):
                return False
            if time.monotonic() > deadline:
                raise CrewError("the child was not stopped in time")
        return True

    def go_on(self) -> None:
        """Resume a stopped process."""
        os.kill(self._process.pid, signal.SIGCONT)


def _state(pid: int) -> str:
    told = subprocess.run(["/bin/ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False, text=True)
    return told.stdout.strip()


def _run(connection: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answer = False, function(*arguments)
    except BaseException:  # noqa: BLE001 - reported to the test, which fails
        answer = True, traceback.format_exc()
    connection.send(answer)
