"""The marker `<name>.deleted` of the root table `<name>.lance`.

Its presence hides the table. The body is JSON with one of three states: `deleted` is a dropped table that can be
restored or purged, `reviving` one that is being created or restored, `purging` one that is being deleted. The last two
are claims: they carry a lease and the process that wrote them. When the lease has expired, or that process is known to
be dead, the next client completes or undoes what was begun. Each body has its own nonce. E-tags on S3 are hashes of the
body, so no two states may have the same body.

Nothing in a marker is trusted. A dropped table whose retention cannot be read is kept until it is purged by name and
with force. A marker that cannot be read at all, or that has an unknown state or a bad field, hides its table, and no
client changes it: a later version of Pennon may have written it.

The size of a marker encodes whether it is a claim, and otherwise how long the table is kept at least. A listing of the
root returns sizes and times, so most markers need not be read to find the tables that can be purged.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Any

from pennon.directory import layout
from pennon.directory.clock import now_ms
from pennon.directory.retention import DELETED_AT, TTL, Retention, parse_retention
from pennon.json_fields import FieldReader
from pennon.process_identity import current_process, is_dead
from pennon.stored_json import UnreadableJsonError, parse_stored_object

DELETED = "deleted"
REVIVING = "reviving"
PURGING = "purging"
UNREADABLE = "unreadable"
"""A marker that this version does not understand. It hides its table, and is never written."""
LEASE_SECONDS = 30.0

CREATE = "create"
UNDROP = "undrop"
PURGE = "purge"


@dataclass(frozen=True)
class Marker:
    """One state of a marker."""

    state: str
    what: str = ""
    """What the owner of a claim is doing: create, undrop or purge."""
    deletion_id: str = ""
    deleted_at_ms: int = 0
    ttl_ms: int = 0
    version: int | None = None
    """The table's version when it was last claimed: a creator builds on it, a restoration returns to it."""
    writers: tuple[str, ...] = ()
    """The transactions of creators that failed or died before they completed the next version."""
    burn: bool = False
    """Whether a dead creator may still commit on top of `version`."""
    properties: dict[str, str] | None = None
    """The properties of the manifest row that was dropped with the table; None if it had no row."""
    deregistered: bool = False
    """Whether the table was deregistered when it was dropped."""
    lease_until_ms: int = 0
    owner: str = ""
    prior: Marker | None = None
    """The dropped table that was claimed; None if the name was free."""
    nonce: str = ""
    fault: str = ""
    """Why the retention, or the whole marker, cannot be read; "" if it can."""
    stored_retention: dict[str, Any] | None = None
    """A retention that cannot be read, as it was found. It is written back with every later state."""

    def with_new_nonce(self) -> Marker:
        """Return the same state with a new nonce, ready to be written."""
        return replace(self, nonce=uuid.uuid4().hex)

    def with_lease(self, state: str, what: str, seconds: float = LEASE_SECONDS) -> Marker:
        """Return the state in which this process claims the table for some seconds."""
        return replace(
            self, state=state, what=what, lease_until_ms=now_ms() + int(seconds * 1000), owner=current_process()
        ).with_new_nonce()

    def body(self) -> bytes:
        """Return the state as JSON without empty fields, padded to the size that encodes it."""
        values = asdict(replace(self, fault="", stored_retention=None))
        content = {key: value for key, value in values.items() if value not in (None, "", 0, False, ())}
        if self.prior is not None:
            content["prior"] = json.loads(self.prior.body())
        if self.properties is not None:
            content["properties"] = self.properties
        content |= self._retention()
        text = json.dumps(content, ensure_ascii=False).encode()
        remainder = _remainder(self.ttl_ms) if self.state == DELETED else _CLAIMED
        return text.ljust((len(text) // _PAGE + 1) * _PAGE + remainder)

    def _retention(self) -> dict[str, Any]:
        """Return the fields of the retention. They are written even if they are 0: a missing one is unreadable."""
        if self.stored_retention is not None:
            return self.stored_retention
        if not self.fault and (self.state == DELETED or self.deletion_id):
            return {DELETED_AT: self.deleted_at_ms, TTL: self.ttl_ms}
        return {}

    @property
    def is_expired(self) -> bool:
        """Return True if this is a claim whose lease has expired or whose owner is dead."""
        if self.state == DELETED:
            return False
        return now_ms() > self.lease_until_ms or is_dead(self.owner)


def parse_marker(body: bytes) -> Marker | None:
    """Return the marker that a body holds, or None for the short body that counts as no marker."""
    if len(body) < layout.SHORTEST_CLAIM:
        return None
    try:
        return _marker(parse_stored_object(body, any_number=True))
    except (UnreadableJsonError, _BadFieldError) as error:
        return unreadable_marker(str(error))


def unreadable_marker(fault: str) -> Marker:
    """Return the marker that stands for one that cannot be read. It hides its table and never expires."""
    return Marker(UNREADABLE, lease_until_ms=_NEVER, fault=fault)


def minimum_retention_ms(size: int) -> int:
    """Return how long the dropped table is kept at least, by the size of its marker; 0 if the size is not enough."""
    units, remainder = divmod(size, _PAGE)
    if not units or not remainder or remainder == _CLAIMED:
        return 0
    for count, length in _LENGTHS:
        if remainder <= count:
            return remainder * length
        remainder -= count
    return 0


def is_claim_size(size: int) -> bool:
    """Return True if a marker of this size is a claim, held or abandoned."""
    return size > _PAGE and size % _PAGE == _CLAIMED


_NEVER = 1 << 62
_EARLIEST_LEASE_MS = 1_577_836_800_000
_LONGEST_LEASE_MS = 30 * 24 * 3600 * 1000
_PAGE = 512
_LENGTHS = ((59, 1000), (59, 60_000), (23, 3_600_000), (369, 86_400_000))
"""Seconds, minutes, hours and days: how many of each have their own size beyond a multiple of a page.

Markers of other clients are shorter than a page, so their size means nothing.
"""
_CLAIMED = _PAGE - 1


def _remainder(ttl_ms: int) -> int:
    """Return the padding that encodes the longest retention that is not above `ttl_ms`."""
    remainder = before = 0
    for count, length in _LENGTHS:
        if ttl_ms >= length:
            remainder = before + min(ttl_ms // length, count)
        before += count
    return remainder


class _BadFieldError(ValueError):
    """A field of a marker has a bad value; the message is the reason."""


_FIELDS = FieldReader(lambda what, wanted, got: _BadFieldError(f"{what} is {got} instead of {wanted}"))
_MARKER = "the marker"


def _marker(content: dict[str, Any]) -> Marker:
    state = content.get("state")
    if state is None:
        if not content.keys() & {DELETED_AT, TTL}:
            raise _BadFieldError(f"it has neither a state nor {DELETED_AT}")
        # The first form of the proposal has only the time and the TTL of a dropped table.
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
    found: Retention = parse_retention(content, now_ms())
    stored = {key: content[key] for key in (DELETED_AT, TTL) if key in content} if found.fault else None
    return replace(
        marker, deleted_at_ms=found.deleted_at_ms, ttl_ms=found.ttl_ms, fault=found.fault, stored_retention=stored
    )


def _prior(content: dict[str, Any]) -> Marker | None:
    if content.get("prior") is None:
        return None
    prior = _marker(_FIELDS.mapping(content["prior"], f"{_MARKER}: 'prior'"))
    if prior.state != DELETED:
        raise _BadFieldError(f"{_MARKER}: 'prior' is not a dropped table")
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
    """Return when a lease expires. A missing lease has expired; one in a wrong unit is an error."""
    until = _positive(content, "lease_until_ms") or 0
    if until and not _EARLIEST_LEASE_MS <= until <= now_ms() + _LONGEST_LEASE_MS:
        raise _BadFieldError(f"{_MARKER}: 'lease_until_ms' is {until}: are these milliseconds?")
    return until
