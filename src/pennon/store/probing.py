"""Probes of a store: does it keep the promises that the catalog is built on?

Each probe writes real objects below a directory of its own, `.lance-probe-<32 hex digits>` in the root. No Lance client
takes such a name for a table, and it is deleted at the end, also after an error. A killed process leaves one; its name
shows what it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import statistics
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pennon.errors import LanceNamespaceError, PermissionDeniedError, UnauthenticatedError, translate_errors
from pennon.store import root_paths
from pennon.store.protocol import PROBE_PREFIX
from pennon.store.root import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pennon.store.protocol import Store

TOLERATED_SECONDS = 5.0
"""A difference of clocks up to this is of no consequence."""
MOST_SECONDS = 30.0
"""From this difference on, a client takes the claims of others for expired while they are held."""
_CONTESTANTS = 8
_ROUND_TRIPS = 5
_ENTRIES = ("b", "a", "d", "e", "c")
_PAGED_ENTRIES = 1_005
"""More than the 1,000 entries of a page."""
_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "fuse", "afs", "vboxsf", "virtiofs")

Weight = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Promise:
    """What a store promises."""

    name: str
    needed_for: str
    """What Pennon builds on it."""
    weight: Weight = "error"
    """How bad it is if it is not kept."""


WRITING = Promise("writing", "every change, while reading works without it", "warning")
READ_AFTER_WRITE = Promise("read after write", "every read of markers and of the manifest")
PUT_IF_ABSENT = Promise("put-if-absent", "commits, of which exactly one creates a version")
COMPARE_AND_SWAP = Promise("compare-and-swap", "claims on root tables by drop, restore and purge")
CONDITIONAL_DELETION = Promise(
    "conditional deletion", "purges of root tables, while others can be purged without it", "warning"
)
RACES = Promise("concurrent writes", "commits of several clients at the same time")
LISTING = Promise("listing", "finding root tables, and the latest version of the manifest")
PAGES = Promise("listing in pages", "roots with more than 1,000 entries")
COPYING = Promise("copying", "adopting written tables, and declaring over a dropped one")
DELETION = Promise("deletion", "purges")
CLOCK = Promise("clock", "leases of claims, retentions, signed requests", "warning")
FAR_CLOCK = Promise(CLOCK.name, CLOCK.needed_for)
HARD_LINKS = Promise("hard links", "markers that are written whole", "note")
LOCKS = Promise("locks", "compare-and-swap on a disk")
CASE = Promise("case of names", "root tables whose names differ only in case", "note")
REMOVAL = Promise("removal of the probe", "leaving nothing behind", "warning")
FILE_SYSTEM = Promise("file system", "commits of several machines", "note")


@dataclass(frozen=True)
class ProbeResult:
    """Whether a store keeps a promise."""

    promise: Promise
    fault: str = ""
    """Why not; an empty text if it does."""
    seconds: float = 0.0


@dataclass
class StoreProbe:
    """What the probes of a store have shown."""

    results: list[ProbeResult] = field(default_factory=list)
    round_trip_ms: float | None = None
    """The median time of a request for the size of an object."""
    write_ms: float | None = None
    """The time of one write of a small object."""
    clock_ahead_seconds: float | None = None
    """How far the clock that dates files is ahead of this machine's."""
    file_system: str = ""
    """The kind of the file system, on a disk where it can be read."""

    @property
    def is_readonly(self) -> bool:
        """True if the store refuses to write."""
        return any(one.promise == WRITING and one.fault for one in self.results)


def probe_store(store: Store, *, pages: bool = False, report: Callable[[str], None] = lambda _: None) -> StoreProbe:
    """Return whether a store keeps its promises. `report` gets the name of each probe before it runs.

    `pages` also writes as many objects as need a second page of a listing.
    """
    found = StoreProbe()
    place = f"{PROBE_PREFIX}-{uuid.uuid4().hex}"
    report(WRITING.name)
    # A store of its own keeps the locks and temporary files of a disk below the probe, too.
    inner = open_store(store.location(place), store.storage_options)
    try:
        found.results.append(_probe_writing(inner, found))
        if not found.is_readonly:
            report("conditional writes")
            found.results.extend(_probe_conditions(inner))
            for promise, run in _choose_probes(store, pages=pages).items():
                report(promise.name)
                found.results.append(_run(promise, run, inner))
            report(CLOCK.name)
            found.results.append(_probe_clock(store, inner, found))
    finally:
        inner.close()
        fault = _try_to_remove(store, place)
    if fault:
        found.results.append(ProbeResult(REMOVAL, fault))
    if store.is_local:
        found.file_system = find_file_system(store.identity())
        found.results.append(ProbeResult(FILE_SYSTEM, _find_file_system_fault(found.file_system)))
    return found


def remove_probe(store: Store, name: str) -> None:
    """Delete a probe in the root of a store: what it holds, and on a disk its directory."""
    if not store.is_local:
        store.delete_tree(name)
        if store.size(name) is not None:
            store.delete(name)
        return
    # Not by the trash directory of the root: a root that was only looked at gets none.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        status = root_paths.read_status(store.identity(), name)
        if status is None:
            return
        with root_paths.hold_directory(store.identity(), "") as root:
            try:
                root_paths.remove_tree(root, name)
            except NotADirectoryError:
                os.unlink(name, dir_fd=root)


def _try_to_remove(store: Store, name: str) -> str:
    try:
        with translate_errors(f"deleting {name!r}"):
            remove_probe(store, name)
    except LanceNamespaceError as error:
        return f"the probe could not be deleted: {error}"
    return ""


def find_unkept_condition(store: Store, path: str) -> str:
    """Return which kind of conditional write a store does not honour, or an empty text. Writes one object at a path."""
    try:
        return next((fault for _, fault in try_conditional_writes(store, path) if fault), "")
    finally:
        store.delete(path)


def try_conditional_writes(store: Store, path: str) -> Iterator[tuple[Promise, str]]:
    """Yield each kind of conditional write with what is wrong with it. They build on each other: a fault ends them."""
    first = store.create(path, _body("first"))
    fault = "it refuses put-if-absent" if first is None else ""
    if first is not None and store.create(path, _body("other")) is not None:
        fault = "it does not honour put-if-absent"
    yield PUT_IF_ABSENT, fault
    if first is None or fault:
        return
    second = store.swap(path, _body("second"), first)
    fault = "it refuses compare-and-swap" if second is None else ""
    if second is not None and store.swap(path, _body("third"), first) is not None:
        fault = "it does not honour compare-and-swap"
    yield COMPARE_AND_SWAP, fault
    if second is None or fault:
        return
    if store.delete_if(path, first) or store.get(path) is None:
        yield CONDITIONAL_DELETION, "it does not honour conditional deletion"
    else:
        yield CONDITIONAL_DELETION, "" if store.delete_if(path, second) else "it refuses conditional deletion"


def find_file_system(path: str) -> str:
    """Return the kind of the file system of a directory as Linux names it, such as `ext4`; empty if unknown."""
    try:
        table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        where = str(Path(path).resolve())
    except OSError:
        return ""
    best, kind = "", ""
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:  # noqa: PLR2004 - the mount point is the fifth field
            continue
        point = fields[4].replace("\\040", " ")
        if (where == point or where.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, after.split(" ")[0]
    return kind


def _find_file_system_fault(kind: str) -> str:
    if not kind.startswith(_NETWORK_FILE_SYSTEMS):
        return ""
    return f"{kind} is a network file system: whether locks hold between machines depends on how it is mounted"


def _choose_probes(store: Store, *, pages: bool) -> dict[Promise, Callable[[Store], str]]:
    chosen: dict[Promise, Callable[[Store], str]] = {
        READ_AFTER_WRITE: _probe_read_after_write,
        RACES: _probe_races,
        LISTING: _probe_listing,
    }
    if pages and not store.is_local:
        chosen[PAGES] = _probe_pages
    chosen |= {COPYING: _probe_copying, DELETION: _probe_deletion}
    if store.is_local:
        chosen |= {HARD_LINKS: _probe_hard_links, LOCKS: _probe_locks, CASE: _probe_case}
    return chosen


def _run(promise: Promise, run: Callable[[Store], str], store: Store) -> ProbeResult:
    started = time.monotonic()
    try:
        with translate_errors(promise.name):
            fault = run(store)
    except LanceNamespaceError as error:
        fault = f"the probe failed: {error}"
    return ProbeResult(promise, fault, time.monotonic() - started)


def _probe_conditions(store: Store) -> Iterator[ProbeResult]:
    left = [PUT_IF_ABSENT, COMPARE_AND_SWAP, CONDITIONAL_DELETION]
    started = time.monotonic()
    try:
        with translate_errors("conditional writes"):
            for promise, fault in try_conditional_writes(store, "condition"):
                left.remove(promise)
                yield ProbeResult(promise, fault, time.monotonic() - started)
                started = time.monotonic()
    except LanceNamespaceError as error:
        yield ProbeResult(left[0], f"the probe failed: {error}", time.monotonic() - started)


def _probe_writing(store: Store, found: StoreProbe) -> ProbeResult:
    """Write an object, and measure requests. Raises the error of the first request if the store does not answer."""
    with translate_errors("The probe of the store"):
        store.size("written")  # opens the connection
        started = time.monotonic()
        try:
            with translate_errors("writing to the root"):
                store.put("written", b"written")
        except (PermissionDeniedError, UnauthenticatedError) as error:
            return ProbeResult(WRITING, f"writes are refused: {error}", time.monotonic() - started)
        seconds = time.monotonic() - started
        found.write_ms = seconds * 1000
        times = []
        for _ in range(_ROUND_TRIPS):
            started = time.monotonic()
            store.size("written")
            times.append((time.monotonic() - started) * 1000)
        found.round_trip_ms = statistics.median(times)
        return ProbeResult(WRITING, seconds=seconds)


def _probe_clock(store: Store, inner: Store, found: StoreProbe) -> ProbeResult:
    """Compare this machine's clock with the one that dates files, and with the one of the store's answers."""
    started = time.monotonic()
    try:
        with translate_errors(CLOCK.name):
            before = time.time()
            inner.put("dated", _body("dated"))
            after = time.time()
            blob = inner.get("dated")
            asked = time.time()
            answered = store.now()
            now = time.time()
    except LanceNamespaceError as error:
        return ProbeResult(CLOCK, f"the probe failed: {error}", time.monotonic() - started)
    dated = after if blob is None else blob.modified
    ahead = max((_measure_difference(dated, before, after), _measure_difference(answered, asked, now)), key=abs)
    found.clock_ahead_seconds = ahead
    fault = ""
    if abs(ahead) > TOLERATED_SECONDS:
        where = "ahead of" if ahead > 0 else "behind"
        fault = f"the clock of the store is {abs(ahead):,.0f} s {where} this machine's"
    return ProbeResult(FAR_CLOCK if abs(ahead) > MOST_SECONDS else CLOCK, fault, time.monotonic() - started)


def _measure_difference(shown: float, before: float, after: float) -> float:
    """Return how far a time that was taken between two others is outside of them. Stores show whole seconds."""
    if shown > after:
        return shown - after
    return min(shown + 1 - before, 0.0)


def _body(text: str) -> bytes:
    # No two bodies are the same: e-tags may be hashes of them, and `create` compares bodies.
    return f"{text} {uuid.uuid4().hex}".encode()


def _probe_read_after_write(store: Store) -> str:
    for _ in range(2):
        body = _body("read")
        store.put("read", body)
        blob = store.get("read")
        if blob is None or blob.body != body:
            return "an object is not read as it was written last"
    return ""


def _probe_races(store: Store) -> str:
    """Let threads write one object at the same time. Exactly one of them may succeed, twice."""
    with ThreadPoolExecutor(_CONTESTANTS) as pool:
        made = list(pool.map(lambda number: store.create("raced", _body(str(number))), range(_CONTESTANTS)))
        winners = [tag for tag in made if tag is not None]
        if len(winners) != 1:
            return f"{len(winners)} of {_CONTESTANTS} clients created the same object at the same time"
        tag = winners[0]
        swapped = list(pool.map(lambda number: store.swap("raced", _body(str(number)), tag), range(_CONTESTANTS)))
    count = sum(one is not None for one in swapped)
    return "" if count == 1 else f"{count} of {_CONTESTANTS} clients replaced the same version of an object"


def _probe_listing(store: Store) -> str:
    """List what was just written, in order, and what was just deleted."""
    for name in _ENTRIES:
        store.put(f"listed/{name}", _body(name))
    store.put("listed/below/inner", _body("inner"))
    level = store.list_level("listed")
    if {file.name for file in level.files} != set(_ENTRIES):
        return "a listing does not show what was just written"
    if level.directories != ("below",):
        return "a listing does not show one level"
    names = [file.name for file in store.list_first_files("listed")[0]]
    if names != sorted(_ENTRIES):
        return "a listing is not in the order of names"
    store.delete("listed/a")
    if "a" in store.list_names("listed"):
        return "a listing shows what was just deleted"
    return ""


def _probe_pages(store: Store) -> str:
    names = [f"{number:05}" for number in range(_PAGED_ENTRIES)]
    store.map(lambda name: store.put(f"paged/{name}", b"paged"), names)
    listed = sorted(file.name for file in store.list_level("paged").files)
    return "" if listed == names else f"a listing shows {len(listed):,} of {len(names):,} objects"


def _probe_copying(store: Store) -> str:
    body = _body("copied")
    store.put("source/file", body)
    store.copy_tree("source", "target")
    blob = store.get("target/file")
    return "" if blob is not None and blob.body == body else "a copy within the store differs"


def _probe_deletion(store: Store) -> str:
    paths = ["gone/a", "gone/b"]
    for path in paths:
        store.put(path, _body(path))
    store.delete(*paths, "gone/missing")
    return "an object is there after it was deleted" if any(store.get(path) for path in paths) else ""


def _probe_hard_links(store: Store) -> str:
    source, target = Path(store.location("linked")), Path(store.location("link"))
    store.put("linked", b"linked")
    try:
        target.hardlink_to(source)
    except OSError as error:
        return f"there are no hard links ({error.strerror}): a reader may see a part of a marker that is being written"
    return "" if source.stat().st_ino == target.stat().st_ino else "a hard link is another file"


def _probe_locks(store: Store) -> str:
    store.put("locked", b"locked")
    with (
        Path(store.location("locked")).open("rb") as first,
        Path(store.location("locked")).open("rb") as second,
    ):
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ""
    return "two clients hold the same lock (flock)"


def _probe_case(store: Store) -> str:
    store.put("Case", b"case")
    return "names that differ only in case are the same file" if store.size("case") is not None else ""
