"""A cheap load of HTTP: one thread drives many connections. Each sends its next request after an answer.

Both servers and this client share a machine, so a request must cost the client little: requests are bytes that were
prepared, and of an answer only the status and the length are read. Run as a program, it reads a `Job` as JSON from
stdin, and prints its `Outcome`.
"""

from __future__ import annotations

import json
import selectors
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import count
from random import Random

ROWS_TYPE = "application/vnd.apache.arrow.stream"
_SUCCESSES = {200, 201}
_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Job:
    """What to send. In the target and the body, `{c}` is the number of the connection, and `{n}` a name or a number."""

    operation: str
    method: str
    target: str
    body: str
    """JSON; or the hexadecimal digits of an Arrow stream, if `rows`."""
    rows: bool
    numbers: int | None
    """`{n}` is a random number below this one; if None, it is a name that no other request has."""
    connections: int
    port: int = 0
    seconds: float = 0.0
    label: str = ""
    """The beginning of the names."""


@dataclass
class Outcome:
    """The seconds of each successful request, the seconds of all, and how the others were answered."""

    calls: list[float] = field(default_factory=list)
    seconds: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    """The names in the requests that were acknowledged."""

    @property
    def rate(self) -> float:
        """Successful requests per second."""
        return len(self.calls) / self.seconds

    @property
    def unevenness(self) -> float | None:
        """The 99th percentile of the seconds as a multiple of the median."""
        if len(self.calls) < 2:
            return None
        return statistics.quantiles(self.calls, n=100)[98] / statistics.median(self.calls)

    def add(self, other: Outcome) -> None:
        """Add what was measured in another round."""
        self.calls += other.calls
        self.seconds += other.seconds
        self.done += other.done
        self.failures = dict(Counter(self.failures) + Counter(other.failures))


def run(job: Job) -> Outcome:
    """Run a job in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__], input=json.dumps(asdict(job)), stdout=subprocess.PIPE, text=True, check=True
    )
    return Outcome(**json.loads(done.stdout))


class _Requests:
    """Prepares the requests of a connection."""

    def __init__(self, job: Job, connection: int) -> None:
        self._job = job
        self._connection = connection
        self._random = Random(connection)
        self._next = count()
        self._rows = bytes.fromhex(job.body) if job.rows else b""

    def prepare(self) -> tuple[str, bytes]:
        job = self._job
        number = (
            f"{job.label}{self._connection}x{next(self._next)}"
            if job.numbers is None
            else f"{self._random.randrange(job.numbers):06}"
        )
        target, text = (
            part.replace("{n}", number).replace("{c}", str(self._connection)) for part in (job.target, job.body)
        )
        body = self._rows or text.encode()
        kind = ROWS_TYPE if job.rows else "application/json"
        head = f"{job.method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{job.port}\r\n"
        if body:
            head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        elif job.method == "POST":
            head += "Content-Length: 0\r\n"
        return number, f"{head}\r\n".encode() + body


class _Connection:
    """A connection, and the request that it waits for."""

    def __init__(self, job: Job, number: int) -> None:
        self._requests = _Requests(job, number)
        self._port = job.port
        self.socket = self._connect()
        self.number = ""
        self.start = 0.0
        self._answer = b""

    def _connect(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self._port), timeout=_WAIT_SECONDS)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def send(self) -> None:
        self.number, request = self._requests.prepare()
        self._answer = b""
        self.start = time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> int | None:
        """Read what has arrived; return the status of the answer if it is complete. Raises OSError if it never is."""
        part = self.socket.recv(1 << 18)
        if not part:
            raise ConnectionResetError
        self._answer += part
        head, found, body = self._answer.partition(b"\r\n\r\n")
        if not found:
            return None
        lines = head.lower().split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines[1:])
        length = headers.get(b"content-length")
        complete = body.endswith(b"0\r\n\r\n") if length is None else len(body) >= int(length)
        return int(lines[0].split(b" ", 2)[1]) if complete else None


class _Driver:
    """Sends requests for some seconds, then waits for the answers of those that were sent."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._outcome = Outcome()
        self._failures = Counter[str]()
        self._selector = selectors.DefaultSelector()
        self._connections = [_Connection(job, number) for number in range(job.connections)]

    def run(self) -> Outcome:
        for connection in self._connections:
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        start = time.perf_counter()
        for connection in self._connections:
            connection.send()
        waiting = len(self._connections)
        while waiting:
            ready = self._selector.select(_WAIT_SECONDS)
            if not ready:
                self._failures["no answer"] += waiting
                break
            waiting -= sum(self._is_done(key.data, start + self._job.seconds) for key, _ in ready)
        self._outcome.seconds = time.perf_counter() - start
        self._outcome.failures = dict(self._failures)
        for connection in self._connections:
            connection.socket.close()
        return self._outcome

    def _is_done(self, connection: _Connection, end: float) -> bool:
        """Read an answer, and send the next request if there is time; return True if the connection is not needed."""
        try:
            status = connection.receive()
        except OSError as error:
            self._failures[type(error).__name__] += 1
            self._selector.unregister(connection.socket)
            return True
        if status is None:
            return False
        now = time.perf_counter()
        if status in _SUCCESSES:
            self._outcome.calls.append(now - connection.start)
            if self._job.numbers is None:
                self._outcome.done.append(connection.number)
        else:
            self._failures[str(status)] += 1
        if now >= end:
            return True
        connection.send()
        return False


if __name__ == "__main__":
    print(json.dumps(asdict(_Driver(Job(**json.load(sys.stdin))).run())))
