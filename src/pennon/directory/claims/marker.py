"""What the marker `<name>.deleted` says about the root table `<name>.lance`.

Its presence hides the table. The body is JSON: `deleted` is a dropped table that waits to be purged or restored,
`reviving` one that is being created or restored, `purging` one that is being deleted. The last two carry a lease and
the process that wrote them; when the lease is over, or that process is known to be dead, the next caller completes or
undoes what was begun. Each body has a nonce of its own: e-tags on S3 are hashes of the body, so no two states may be
written alike.

Nothing in a marker is trusted. A dropped table whose retention cannot be read is kept until somebody purges it by name
and by force. A marker that cannot be read at all, or has a state or a field that this version does not understand,
hides its table, and nobody touches it: a later version may have written it.

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
from pennon.directory.retention import DELETED_AT, TTL, Retention, parse_retention
from pennon.json_fields import FieldReader
from pennon.stored_json import UnreadableJsonError, parse_digits, parse_stored_object

DELETED = "deleted"
REVIVING = "reviving"
PURGING = "purging"
UNREADABLE = "unreadable"
"""Of a marker that hides its table and that this version does not understand; never written."""
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
    fault: str = ""
    """Why the retention cannot be read, or, of an unreadable marker, the whole of it; "" if it can."""
    stored_retention: dict[str, Any] | None = None
    """A retention that cannot be read, as it was found: it is written back with every later state."""

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
        values = asdict(replace(self, fault="", stored_retention=None))
        content = {key: value for key, value in values.items() if value not in (None, "", 0, False, ())}
        if self.prior is not None:
            content["prior"] = json.loads(self.prior.body())
        if self.properties is not None:
            content["properties"] = self.properties
        content |= self._retention()
        text = json.dumps(content, ensure_ascii=False).encode()
        remainder = _remainder(self.ttl_ms) if self.state == DELETED else _AT_WORK
        return text.ljust((len(text) // _PAGE + 1) * _PAGE + remainder)

    def _retention(self) -> dict[str, Any]:
        """Give the fields of the retention, which are written even if they are 0: a missing one cannot be read."""
        if self.stored_retention is not None:
            return self.stored_retention
        if not self.fault and (self.state == DELETED or self.deletion_id):
            return {DELETED_AT: self.deleted_at_ms, TTL: self.ttl_ms}
        return {}

    @property
    def is_over(self) -> bool:
        """Tell whether whoever holds the table has had its time, or is dead."""
        if self.state == DELETED:
            return False
        return milliseconds() > self.lease_until_ms or _is_dead(self.owner)


def parsed(body: bytes) -> Marker | None:
    """Read a marker; None if it is no marker but what a store leaves that cannot delete conditionally."""
    if len(body) < layout.SHORTEST_CLAIM:
        return None
    try:
        return _marker(parse_stored_object(body, any_number=True))
    except (UnreadableJsonError, _BadFieldError) as error:
        return unreadable(str(error))


def unreadable(fault: str) -> Marker:
    """Return the marker that stands for one that cannot be read: it hides its table and is never over."""
    return Marker(UNREADABLE, lease_until_ms=_NEVER, fault=fault)


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
_EARLIEST_LEASE_MS = 1_577_836_800_000
_LONGEST_LEASE_MS = 30 * 24 * 3600 * 1000
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


class _BadFieldError(ValueError):
    """A field of a marker is not what its writers put there; the message is the reason."""


_FIELDS = FieldReader(lambda what, wanted, got: _BadFieldError(f"{what} is {got} instead of {wanted}"))
_MARKER = "the marker"


def _marker(content: dict[str, Any]) -> Marker:
    state = content.get("state")
    if state is None:
        if not content.keys() & {DELETED_AT, TTL}:
            raise _BadFieldError(f"it has neither a state nor {DELETED_AT}")
        # The proposal's first form: time and TTL of a dropped table, and nothing else that could be relied on.
        found = content.get("deletion_id")
        return _with_retention(Marker(DELETED, deletion_id=found if isinstance(found, str) else ""), content)
    if state not in (DELETED, REVIVING, PURGING):
        raise _BadFieldError(f"its state is {str(state)[:40]!r}, which this version does not know")
    marker = Marker(
        state=state,
        what=_FIELDS.optional_text(content, "what", _MARKER) or "",
        deletion_id=_FIELDS.optional_text(content, "deletion_id", _MARKER) or "",
        version=_positive(content, "version"),
        writers=_FIELDS.names(content.get("writers", []), f"{_MARKER}: 'writers'"),
        burn=_flag(content, "burn"),
        properties=_properties(content),
        deregistered=_flag(content, "deregistered"),
        lease_until_ms=_lease(content),
        owner=_FIELDS.optional_text(content, "owner", _MARKER) or "",
        prior=_prior(content),
        nonce=_FIELDS.optional_text(content, "nonce", _MARKER) or "",
    )
    is_claim_on_nothing = state != DELETED and not marker.deletion_id and DELETED_AT not in content
    return marker if is_claim_on_nothing else _with_retention(marker, content)


def _with_retention(marker: Marker, content: dict[str, Any]) -> Marker:
    found: Retention = parse_retention(content, milliseconds())
    stored = {key: content[key] for key in (DELETED_AT, TTL) if key in content} if found.fault else None
    return replace(
        marker, deleted_at_ms=found.deleted_at_ms, ttl_ms=found.ttl_ms, fault=found.fault, stored_retention=stored
    )


def _prior(content: dict[str, Any]) -> Marker | None:
    if content.get("prior") is None:
        return None
    prior = _marker(_FIELDS.mapping(content["prior"], f"{_MARKER}: 'prior'"))
    if prior.state != DELETED:
        raise _BadFieldError(f"{_MARKER}: 'prior' is no dropped table")
    return prior


def _properties(content: dict[str, Any]) -> dict[str, str] | None:
    if content.get("properties") is None:
        return None
    found = _FIELDS.mapping(content["properties"], f"{_MARKER}: 'properties'")
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}


def _flag(content: dict[str, Any], key: str) -> bool:
    value = content.get(key, False)
    if not isinstance(value, bool):
        raise _FIELDS.wrong(f"{_MARKER}: {key!r}", "true or false", value)
    return value


def _positive(content: dict[str, Any], key: str) -> int | None:
    if content.get(key) is None:
        return None
    value = _FIELDS.number(content, key, _MARKER)
    if value < 0:
        raise _BadFieldError(f"{_MARKER}: {key!r} is negative")
    return value


def _lease(content: dict[str, Any]) -> int:
    """Read until when a claim holds; a missing one is over. A wrong unit must not look like one that is over."""
    until = _positive(content, "lease_until_ms") or 0
    if until and not _EARLIEST_LEASE_MS <= until <= milliseconds() + _LONGEST_LEASE_MS:
        raise _BadFieldError(f"{_MARKER}: 'lease_until_ms' is {until}: are these milliseconds?")
    return until


def _this_process() -> str:
    """Name this process so that others on the same machine can tell whether it still runs."""
    return f"{_machine()}/{os.getpid()}/{_started(os.getpid())}"


def _is_dead(owner: str) -> bool:
    rest, _, started = owner.rpartition("/")
    machine, _, number = rest.rpartition("/")
    pid = parse_digits(number)
    if machine != _machine() or not started or pid is None:
        return False
    return _started(pid) != started


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
