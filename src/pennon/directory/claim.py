"""The marker `<name>.deleted`: who holds it may write into `<name>.lance`, and nobody sees the table meanwhile.

States, in the JSON body: `reviving` while a table is being created, `purging` while one is being deleted. Each state
carries a fresh nonce, so that two writes never have the same body (and e-tag), and a lease: when it is over, or when
the process that wrote it is known to be dead, the next caller takes the marker over and completes or undoes what was
begun. A lease never decides about data alone: a creator that comes back late finds that the marker is not its own any
more, or loses the strict commit of the table's first version.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pennon.directory import layout
from pennon.errors import ConcurrentModificationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.store import Store

REVIVING = "reviving"
PURGING = "purging"
LEASE_SECONDS = 30.0


@dataclass(frozen=True)
class Claim:
    """A marker that this caller has written."""

    name: str
    nonce: str
    e_tag: str
    took_over: str | None = None
    """The state that a dead owner left, if there was one."""


def take(store: Store, name: str, state: str, *, lease_seconds: float = LEASE_SECONDS) -> Claim:
    """Claim `name`, or raise ConcurrentModificationError (14) if another caller holds it.

    The commit point is one conditional write of the marker. A crash after it leaves the name hidden until the lease
    is over.
    """
    path = layout.deleted(name)
    for _ in range(3):
        nonce = uuid.uuid4().hex
        body = _body(state, nonce, lease_seconds)
        e_tag = store.create(path, body)
        if e_tag is not None:
            return Claim(name, nonce, e_tag)
        current = store.get(path)
        if current is None:
            continue
        found = None
        if len(current.body) >= layout.SHORTEST_CLAIM:
            found = _parsed(current.body)
            if not _is_over(found):
                break
        e_tag = store.swap(path, body, current.e_tag)
        if e_tag is not None:
            return Claim(name, nonce, e_tag, took_over=None if found is None else str(found.get("state")))
    raise ConcurrentModificationError(f"Table '{name}' is being created or dropped by another client; try again later")


def is_mine(store: Store, claim: Claim) -> bool:
    """Tell whether a claim still stands."""
    current = store.get(layout.deleted(claim.name))
    return current is not None and _parsed(current.body).get("nonce") == claim.nonce


def release(store: Store, claim: Claim) -> bool:
    """Remove the marker if it is still this claim's; False if somebody took it over."""
    if store.delete_if(layout.deleted(claim.name), claim.e_tag):
        return True
    return store.get(layout.deleted(claim.name)) is None


@contextmanager
def given_up_on_error(store: Store, claim: Claim) -> Iterator[None]:
    """Leave the marker in place, but to be taken over at once, if what the claim is for fails half-way."""
    try:
        yield
    except BaseException:
        body = _body(PURGING, uuid.uuid4().hex, lease_seconds=-1)
        store.swap(layout.deleted(claim.name), body, claim.e_tag)
        raise


def hides(size: int | None) -> bool:
    """Tell from the size of a marker whether it hides its table."""
    return size is not None and size >= layout.SHORTEST_CLAIM


def _body(state: str, nonce: str, lease_seconds: float) -> bytes:
    now = _milliseconds()
    content = {
        "state": state,
        "nonce": nonce,
        "deleted_at_ms": now,
        "lease_until_ms": now + int(lease_seconds * 1000),
        "prior": None,
        "owner": _owner(),
    }
    return json.dumps(content).encode()


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_over(content: dict[str, Any]) -> bool:
    lease = content.get("lease_until_ms")
    if content.get("state") not in {REVIVING, PURGING}:
        return False
    if _owner_is_dead(content.get("owner")):
        return True
    return isinstance(lease, (int, float)) and _milliseconds() > lease


def _owner() -> str:
    """Name this process so that others on the same machine can tell whether it still runs."""
    return f"{_machine()}/{os.getpid()}/{_started(os.getpid())}"


def _owner_is_dead(owner: object) -> bool:
    if not isinstance(owner, str):
        return False
    machine, _, rest = owner.rpartition("/")[0].rpartition("/")
    started = owner.rpartition("/")[2]
    if machine != _machine() or not started or not rest.isdecimal():
        return False
    return _started(int(rest)) != started


def _machine() -> str:
    """Name the space in which process numbers are unique: host, boot and process namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}/{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Give the start time of a process, which tells it from a later one with the same number; "" if it is gone."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in {"Z", "X"} else fields[19]


def _milliseconds() -> int:
    return int(time.time() * 1000)
