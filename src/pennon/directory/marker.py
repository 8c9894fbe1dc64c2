"""What the marker `<name>.deleted` says about the root table `<name>.lance`.

Its presence hides the table. The body is JSON: `deleted` is a dropped table that waits to be purged or restored,
`reviving` one that is being created or restored, `purging` one that is being deleted. The last two carry a lease and
the process that wrote them; when the lease is over, or that process is known to be dead, the next caller completes or
undoes what was begun. Each body has a nonce of its own: e-tags on S3 are hashes of the body, so no two states may be
written alike.

The size of a marker tells whether somebody is at work, and if not, how long the table is kept at least: a listing of
the root, which gives sizes and times, tells which markers need not be read to find what may be purged.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pennon.directory import layout

DELETED = "deleted"
REVIVING = "reviving"
PURGING = "purging"
LEASE_SECONDS = 30.0

CREATE = "create"
UNDROP = "undrop"
PURGE = "purge"


@dataclass(frozen=True)
class Marker:
    """One state of a marker."""

    state: str
    what: str = ""
    """What the owner of a lease is doing: create, undrop or purge."""
    deletion_id: str = ""
    deleted_at_ms: int = 0
    ttl_ms: int = 0
    version: int | None = None
    """The table's version at the moment of the last claim, which a creator builds on and a restoration returns to."""
    writers: tuple[str, ...] = ()
    """The transactions by which creators wanted to make the next version, and died or failed."""
    burn: bool = False
    """Whether a creator that died may still commit on top of `version`."""
    properties: dict[str, str] | None = None
    """The properties of the manifest row that went with the table; None if it had no row."""
    deregistered: bool = False
    """Whether the table was deregistered when it was dropped."""
    lease_until_ms: int = 0
    owner: str = ""
    prior: Marker | None = None
    """The dropped table that a claim was taken on; None if the name was free."""
    nonce: str = ""

    def renewed(self) -> Marker:
        """Give the same state with a nonce of its own, to be written."""
        return replace(self, nonce=uuid.uuid4().hex)

    def leased(self, state: str, what: str, seconds: float = LEASE_SECONDS) -> Marker:
        """Give the state in which this process holds the table for some time."""
        return replace(
            self, state=state, what=what, lease_until_ms=milliseconds() + int(seconds * 1000), owner=_this_process()
        ).renewed()

    def body(self) -> bytes:
        """Write the state; keys that say nothing are left out."""
        content = {key: value for key, value in asdict(self).items() if value not in (None, "", 0, False, ())}
        if self.prior is not None:
            content["prior"] = json.loads(self.prior.body())
        if self.properties is not None:
            content["properties"] = self.properties
        text = json.dumps(content, ensure_ascii=False).encode()
        remainder = _remainder(self.ttl_ms) if self.state == DELETED else _AT_WORK
        return text.ljust((len(text) // _PAGE + 1) * _PAGE + remainder)

    @property
    def is_over(self) -> bool:
        """Tell whether whoever holds the table has had its time, or is dead."""
        if self.state == DELETED:
            return False
        return milliseconds() > self.lease_until_ms or _is_dead(self.owner)


def parsed(body: bytes) -> Marker | None:
    """Read a marker; None if it is no marker but what a store leaves that cannot delete conditionally.

    One that cannot be understood hides its table and can be neither restored nor purged.
    """
    if len(body) < layout.SHORTEST_CLAIM:
        return None
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    return _marker(content) if isinstance(content, dict) else Marker("unreadable", lease_until_ms=_NEVER)


def kept_at_least_ms(size: int) -> int:
    """Tell from the size of a marker how long its table is kept at least; 0 if it does not tell."""
    units, remainder = divmod(size, _PAGE)
    if not units or not remainder or remainder == _AT_WORK:
        return 0
    for count, length in _LENGTHS:
        if remainder <= count:
            return remainder * length
        remainder -= count
    return 0


def is_at_work(size: int) -> bool:
    """Tell from the size of a marker whether somebody creates, restores or purges the table, or died doing so."""
    return size > _PAGE and size % _PAGE == _AT_WORK


def milliseconds() -> int:
    """Tell the time."""
    return int(time.time() * 1000)


_NEVER = 1 << 62
_PAGE = 512
_LENGTHS = ((59, 1000), (59, 60_000), (23, 3_600_000), (369, 86_400_000))
"""Whole seconds, minutes, hours and days, and how many of each have a size of their own beyond a multiple of a page.

Markers of other clients are shorter than a page, which tells nothing.
"""
_AT_WORK = _PAGE - 1


def _remainder(ttl_ms: int) -> int:
    """Give what stands for the greatest length that is not above `ttl_ms`."""
    remainder = before = 0
    for count, length in _LENGTHS:
        if ttl_ms >= length:
            remainder = before + min(ttl_ms // length, count)
        before += count
    return remainder


def _marker(content: dict[str, Any]) -> Marker:
    state = content.get("state")
    prior = content.get("prior")
    properties = content.get("properties")
    version = content.get("version")
    writers = content.get("writers")
    known = state in {DELETED, REVIVING, PURGING}
    return Marker(
        # A marker without a state is one of the proposal's first form: time and TTL of a dropped table.
        state=str(state) if known else DELETED if state is None and "deleted_at_ms" in content else "unreadable",
        what=str(content.get("what", "")),
        deletion_id=str(content.get("deletion_id", "")),
        deleted_at_ms=_number(content.get("deleted_at_ms")),
        ttl_ms=_number(content.get("ttl_ms")),
        version=version if isinstance(version, int) else None,
        writers=tuple(str(writer) for writer in writers) if isinstance(writers, list) else (),
        burn=content.get("burn") is True,
        properties={str(key): str(value) for key, value in properties.items()}
        if isinstance(properties, dict)
        else None,
        deregistered=content.get("deregistered") is True,
        lease_until_ms=_number(content.get("lease_until_ms")) if known else _NEVER,
        owner=str(content.get("owner", "")),
        prior=_marker(prior) if isinstance(prior, dict) else None,
        nonce=str(content.get("nonce", "")),
    )


def _number(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0


def _this_process() -> str:
    """Name this process so that others on the same machine can tell whether it still runs."""
    return f"{_machine()}/{os.getpid()}/{_started(os.getpid())}"


def _is_dead(owner: str) -> bool:
    rest, _, started = owner.rpartition("/")
    machine, _, number = rest.rpartition("/")
    if machine != _machine() or not started or not number.isdecimal():
        return False
    return _started(int(number)) != started


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
