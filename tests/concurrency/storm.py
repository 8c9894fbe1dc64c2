"""Storms: eight processes drop, restore, re-create, overwrite and purge tables at random while some are killed.

Each process logs each call before it and its outcome after it, in a file of its own. The last call of a killed process
has no outcome: it may or may not have happened. The files survive the processes, because the operating system has what
was written.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from pennon.errors import ConcurrentModificationError
from tests.concurrency import hooks
from tests.concurrency.crew import PATIENCE, Child, CrewError
from tests.concurrency.workers import ROWS, attempt, open_client
from tests.support import Root, create_table, drop_table, ipc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PROCESSES = 8
SPARES = 6
CALLS = {"create": 3, "write": 3, "drop": 4, "undrop": 3, "purge": 2, "status": 1}
"""The operations of the processes, with their relative frequencies."""
OWN = 0.3
"""The share of calls that a process makes on its own name."""
DOOMED = 0.3
"""The share of processes that die at a named point."""
LATEST_CALL = 6
"""They die at one of the first calls of that point, up to this number."""
QUIET_SECONDS = 1.0
"""Seconds of silence after which stopped processes are resumed: the others may wait for their locks."""
READY, DONE, ENOUGH = b"ready", b"done", b"enough"

ANYWHERE = [hooks.COMMIT_ROWS, hooks.WRITE_ROWS, hooks.COMMIT_MANIFEST, hooks.WRITE_DATA, hooks.COMMIT_DATA]
ON_DISK = [hooks.CREATE, hooks.SWAP, hooks.PUT, hooks.DELETE, hooks.DELETE_IF, hooks.DELETE_TREE, hooks.REMOVE_FILES]
IN_BUCKETS = [
    hooks.UPLOAD_ROWS,
    hooks.PUBLISH_ROWS,
    hooks.CREATE_OBJECT,
    hooks.SWAP_OBJECT,
    hooks.PUT_OBJECT,
    hooks.DELETE_OBJECTS,
    hooks.DELETE_OBJECT_IF,
    hooks.DELETE_OBJECT_IN_TIME,
]


@dataclass(frozen=True)
class Place:
    """A root, and the mode in which all processes use it."""

    root: Root
    mode: str

    @property
    def one_lineage(self) -> bool:
        """True if a name always has the same directory, so that it has at most one dropped table."""
        return self.mode != "v2"


@dataclass(frozen=True)
class Part:
    """The slot of a process, and how many processes had that slot before it."""

    slot: int
    life: int
    seed: int
    log: str


@dataclass(frozen=True)
class Call:
    """One call of the logs."""

    place: int
    name: str
    what: str
    token: str
    begun: float
    ended: float
    """When the call returned, or when its process was dead."""
    killed: bool
    code: int | None = None
    text: str = ""
    told: Any = None

    @property
    def acknowledged(self) -> bool:
        return not self.killed and self.code is None

    def __str__(self) -> str:
        answer = "killed" if self.killed else f"{self.code} {self.text}" if self.code is not None else f"ok {self.told}"
        return f"{self.begun:.4f}-{self.ended:.4f} {self.token}: {self.what} {self.name}: {answer}"


# Processes


def work(places: list[Place], supervisor: Connection) -> None:
    """Wait for a part, then make random calls until the supervisor ends the storm or a named point is reached."""
    with ExitStack() as stack:
        clients = [stack.enter_context(open_client(place.root, place.mode)) for place in places]
        supervisor.send_bytes(READY)
        part: Part = supervisor.recv()
        file = os.open(part.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        stack.callback(os.close, file)
        chance = random.Random(f"{part.seed}/{part.slot}/{part.life}")
        if chance.random() < DOOMED:
            points = ANYWHERE + (IN_BUCKETS if places[0].root.options else ON_DISK)
            side = chance.choice([hooks.before, hooks.after])
            hooks.strike_at(side(chance.choice(points), chance.randint(1, LATEST_CALL)), signal.SIGKILL)
        for number in itertools.count():
            if supervisor.poll():
                return
            index, name = _chosen(chance, places, part.slot)
            (what,) = chance.choices(list(CALLS), list(CALLS.values()))
            token = f"{part.slot}.{part.life}.{number}"
            _note(file, [index, name, what, token, time.monotonic()])
            told: list[Any] = []
            outcome = attempt(do, clients[index], name, what, token, told)
            _note(file, [outcome.code, outcome.text, told, time.monotonic()])
            supervisor.send_bytes(DONE)


def _chosen(chance: random.Random, places: list[Place], slot: int) -> tuple[int, str]:
    """Choose a place and a name: the slot's own name in one of the places, or a name that all use."""
    if chance.random() < OWN:
        return slot % len(places), f"own_{slot}"
    return chance.randrange(len(places)), "shared"


def one_call(client: Any, _: int, name: str, *, what: str) -> None:
    """Make one call without a storm."""
    do(client, name, what, "killed", [])


def record_call(client: Any, name: str, what: str, token: str) -> Call:
    """Make one call and return it with its outcome."""
    told: list[Any] = []
    begun = time.monotonic()
    outcome = attempt(do, client, name, what, token, told)
    ended = time.monotonic()
    return Call(0, name, what, token, begun, ended, killed=False, code=outcome.code, text=outcome.text, told=told)


def _note(file: int, line: list[Any]) -> None:
    os.write(file, json.dumps(line).encode() + b"\n")


def do(client: Any, name: str, what: str, token: str, told: list[Any]) -> None:
    """Make one call. `told` gets the locations in the response, or the status."""
    if what in {"create", "write"}:
        mode = "create" if what == "create" else "overwrite"
        told.append(create_table(client, name, data=ipc({"who": [token] * ROWS}), mode=mode).location)
    elif what == "drop":
        told.append(drop_table(client, name).location)
    elif what == "undrop":
        told.append(client.undrop_table([name]))
    elif what == "purge":
        report = client.purge_table([name], force=True)
        told.extend(table.location for table in report.tables)
        if report.failed:
            raise ConcurrentModificationError("; ".join(str(table.error) for table in report.failed))
    else:
        told.append(client.table_status([name]).status)


# Supervisor


@dataclass
class Storm:
    """Eight processes and their logs. Some processes are killed or stopped."""

    places: list[Place]
    logs: Path
    seed: int
    kills: int = 0
    rounds: int = 0
    _due: list[tuple[int, Callable[[random.Random], None]]] = field(default_factory=list)
    """Future kills and stops, each with the number of calls after which it happens."""
    _spares: list[tuple[Child, Connection]] = field(default_factory=list)
    """Spare processes that replace killed ones: each needs a second or two to start."""
    _lives: dict[int, int] = field(default_factory=dict)
    _children: dict[int, tuple[Child, Connection]] = field(default_factory=dict)
    _stopped: dict[int, int] = field(default_factory=dict)
    _deaths: dict[tuple[int, int], float] = field(default_factory=dict)

    def rage(self, rounds: int, *, kills: int, stops: int) -> None:
        """Run a number of calls. Kills and stops happen after random numbers of calls, not after a time."""
        chance = random.Random(self.seed)
        self._due = [(chance.randrange(rounds), self._kill_one) for _ in range(kills)]
        self._due += [(chance.randrange(rounds), self._stop_one) for _ in range(stops)]
        self._due.sort(key=lambda strike: strike[0])
        with ExitStack() as stack:
            stack.callback(self._end)
            self._prepare(PROCESSES + SPARES)
            for slot in range(PROCESSES):
                self._start(slot)
            while self.rounds < rounds:
                self._listen()
                while self._due and self._due[0][0] <= self.rounds:
                    self._due.pop(0)[1](chance)
                for slot in [slot for slot, until in self._stopped.items() if self.rounds >= until]:
                    self._go_on(slot)
            for slot in chance.sample(sorted(self._children), PROCESSES // 2):
                self._kill(slot)
            self._wait_for_the_others()

    def calls(self) -> list[Call]:
        """Return the calls of all logs."""
        return [call for (slot, life), death in self._deaths.items() for call in self._read(slot, life, death)]

    def _prepare(self, count: int) -> None:
        """Start processes until this many wait for a part."""
        while len(self._spares) < count:
            ours, theirs = Pipe()
            self._spares.append((Child(work, self.places, theirs), ours))
            theirs.close()

    def _start(self, slot: int) -> None:
        """Assign the slot to a spare process. If more kills are planned, start another spare process."""
        self._prepare(1)
        child, connection = self._spares.pop(0)
        if not connection.poll(PATIENCE) or connection.recv_bytes() != READY:
            raise CrewError("a new process did not begin in time")
        life = self._lives[slot] = self._lives.get(slot, -1) + 1
        connection.send(Part(slot, life, self.seed, str(self._log(slot, life))))
        self._children[slot] = child, connection
        self._prepare(min(SPARES, len(self._due)))

    def _listen(self) -> None:
        """Wait for a message from any process, and replace one that killed itself."""
        slots = {connection: slot for slot, (_, connection) in self._children.items()}
        heard = wait(list(slots), QUIET_SECONDS if self._stopped else PATIENCE)
        if not heard and not self._stopped:
            raise CrewError("no process got on in time")
        if not heard:
            for slot in list(self._stopped):
                self._go_on(slot)
        for connection in heard:
            try:
                connection.recv_bytes()
                self.rounds += 1
            except (EOFError, ConnectionResetError):
                self._bury(slots[connection])
                self._start(slots[connection])

    def _kill_one(self, chance: random.Random) -> None:
        slot = chance.choice(sorted(self._children))
        self._kill(slot)
        self._start(slot)

    def _kill(self, slot: int) -> None:
        self._children[slot][0].kill()
        self._bury(slot)

    def _bury(self, slot: int) -> None:
        child, connection = self._children.pop(slot)
        child.wait_until_killed()
        connection.close()
        self._stopped.pop(slot, None)
        self._deaths[slot, self._lives[slot]] = time.monotonic()
        self.kills += 1

    def _stop_one(self, chance: random.Random) -> None:
        slot = chance.choice(sorted(self._children))
        if self._children[slot][0].stop():
            self._stopped[slot] = self.rounds + chance.randint(1, 4 * PROCESSES)

    def _go_on(self, slot: int) -> None:
        del self._stopped[slot]
        self._children[slot][0].go_on()

    def _wait_for_the_others(self) -> None:
        """End the storm, and check that each process returns or kills itself."""
        for slot in list(self._stopped):
            self._go_on(slot)
        for _, connection in self._children.values():
            with suppress(BrokenPipeError, ConnectionResetError):  # it has just killed itself
                connection.send_bytes(ENOUGH)
        for slot, (child, connection) in list(self._children.items()):
            with suppress(EOFError, ConnectionResetError):
                while connection.poll(PATIENCE):
                    connection.recv_bytes()
                    self.rounds += 1
            if child.ended_well():
                self._children.pop(slot)
                connection.close()
                self._deaths[slot, self._lives[slot]] = time.monotonic()
            else:
                self._bury(slot)

    def _end(self) -> None:
        for child, connection in [*self._children.values(), *self._spares]:
            child.kill()
            connection.close()

    def _log(self, slot: int, life: int) -> Path:
        return self.logs / f"{slot}-{life}"

    def _read(self, slot: int, life: int, death: float) -> Iterator[Call]:
        log = self._log(slot, life)
        # A line that is not complete was not written.
        lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
        for asked, answer in itertools.zip_longest(lines[::2], lines[1::2]):
            index, name, what, token, begun = json.loads(asked)
            if answer is None:
                yield Call(index, name, what, token, begun, death, killed=True)
                continue
            code, text, told, ended = json.loads(answer)
            yield Call(index, name, what, token, begun, ended, killed=False, code=code, text=text, told=told)
