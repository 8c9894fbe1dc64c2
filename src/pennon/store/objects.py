"""A store in a bucket. It uses obstore, the same Rust library as Lance."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import re
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import timedelta
from email.utils import mktime_tz, parsedate_tz
from threading import Lock, current_thread
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote, unquote, urlsplit

import obstore
import urllib3
from obstore.exceptions import AlreadyExistsError, NotFoundError, PreconditionError, UnknownConfigurationKeyError
from obstore.store import from_url

from pennon.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    PermissionDeniedError,
    ServiceUnavailableError,
    UnsupportedOperationError,
)
from pennon.store.protocol import (
    LARGEST_OBJECT,
    PROBE_PREFIX,
    Amount,
    Blob,
    FileEntry,
    LeaseExpiredError,
    Level,
    too_large_error,
)
from pennon.store.root_paths import check_path
from pennon.store.turns import open_machine_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T")
Item = TypeVar("Item")
_SIGNED_DELETE_SCHEMES = ("s3", "s3a", "az", "abfs", "abfss")
# Options of the HTTP client, which obstore takes separately from those of the store.
_CLIENT_OPTIONS = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "http1_only",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_url",
    "timeout",
    "user_agent",
}
_DELETE_BATCH = 1000
_PAGE = 1000
_POOL_NAME = "pennon-store"
_MOST_THREADS = 64
"""Threads that wait for requests. Sixteen callers that each send four requests at once do not wait for a thread."""
_PLACE_OPTION = re.compile("endpoint|account_name|region")
_SIGNATURE_LIFETIME = timedelta(seconds=60)
_DONE, _FORBIDDEN, _NOT_FOUND, _CONFLICT, _STALE_TAG = 204, 403, 404, 409, 412
_ATTEMPTS = 3
_GONE, _STALE, _LATE = "gone", "stale", "late"
_SIGNED_QUERY = re.compile(r"\?\S*(?:X-Amz-Signature|Signature|sig)=\S*", re.IGNORECASE)
_UNIQUE_NAMES = ("data/", "_transactions/", "_deletions/", "_indices/")
ABSENT_BODY = b"{}"
"""Written by a conditional delete if the store cannot delete conditionally. Too short to be a marker."""


@dataclass(frozen=True)
class _TaggedObject:
    """An object of a listing, with the e-tag that its deletion requires."""

    key: str
    size: int
    e_tag: str


class ObjectStore:
    """A prefix of a bucket."""

    is_local = False

    def __init__(self, root: str, storage_options: dict[str, str]) -> None:
        parts = urlsplit(root)
        self._prefix = unquote(parts.path).strip("/")
        self._base = f"{parts.scheme}://{parts.netloc}"
        self._scheme = parts.scheme
        self.storage_options = storage_options
        self._lock = Lock()
        self._missing_condition: str | None = None
        self._opened: Any = None
        self._pool: ThreadPoolExecutor | None = None
        self._http: urllib3.PoolManager | None = None
        # At another endpoint, it may be another bucket of the same name. Credentials are left out: they change.
        places = {key.lower(): value for key, value in storage_options.items() if _PLACE_OPTION.search(key.lower())}
        named = json.dumps([self.identity(), sorted(places.items())])
        self.turns = open_machine_turns(hashlib.sha256(named.encode()).hexdigest())

    def identity(self) -> str:
        """Return the URI of the root."""
        return f"{self._base}/{self._prefix}"

    def location(self, path: str) -> str:
        """Return the percent-encoded URI. Lance decodes it to exactly the key that obstore uses."""
        return f"{self._base}/{quote(self._key(path))}"

    def resolve(self, path: str, *, deeply: bool = False) -> str:
        """Return the location: a bucket has no links."""
        return self.location(path)

    def uri(self, path: str) -> str:
        """Return the location, which is a URI."""
        return self.location(path)

    def relative(self, location: str) -> str | None:
        """Return the path of a URI below the root, percent-encoded or not."""
        parts = urlsplit(location)
        if f"{parts.scheme}://{parts.netloc}" != self._base:
            return None
        key = unquote(parts.path).strip("/")
        inside = f"{self._prefix}/" if self._prefix else ""
        return key.removeprefix(inside) if key.startswith(inside) else None

    def absolute(self, path: str) -> str:
        """Return the key."""
        return self._key(path)

    def from_absolute(self, absolute: str) -> str | None:
        """Return the path of a key below the root's prefix."""
        inside = f"{self._prefix}/" if self._prefix else ""
        key = absolute.lstrip("/")
        return key.removeprefix(inside) if key.startswith(inside) else None

    def list_level(self, path: str = "") -> Level:
        """Return one level, with one request per 1,000 entries."""
        key = self._key(path)
        listing = obstore.list_with_delimiter(self._store, key or None)
        skip = len(key) + 1 if key else 0
        files = tuple(
            FileEntry(item["path"][skip:], item["size"], item["last_modified"].timestamp(), item["e_tag"] or "")
            for item in listing["objects"]
        )
        return Level(files, tuple(prefix[skip:] for prefix in listing["common_prefixes"]))

    def find_empty_tables(self, names: Sequence[str], *, subdirectories: int) -> frozenset[str]:
        """Return an empty set: a bucket has no empty directories."""
        return frozenset()

    def list_first_files(self, path: str) -> tuple[list[FileEntry], bool]:
        """Return the first page of a listing, without keys that are deeper."""
        skip = len(self._key(path)) + 1
        for chunk in obstore.list(self._store, self._key(path), chunk_size=_PAGE):
            files = [
                FileEntry(name, item["size"], item["last_modified"].timestamp(), item["e_tag"] or "")
                for item in chunk
                if "/" not in (name := item["path"][skip:])
            ]
            return files, len(chunk) < _PAGE
        return [], True

    def list_names(self, path: str) -> set[str]:
        """Return the names in the keys below: some servers list prefixes that have no keys any more."""
        skip = len(self._key(path)) + 1
        for chunk in obstore.list(self._store, self._key(path), chunk_size=_PAGE):
            found = {item["path"][skip:].partition("/")[0] for item in chunk}
            if len(chunk) < _PAGE:
                return found
            level = self.list_level(path)
            return found | {file.name for file in level.files} | set(level.directories)
        return set()

    def now(self) -> float:
        """Return the time in the Date header of a response."""
        url = obstore.sign(self._store, "HEAD", self._key(PROBE_PREFIX), _SIGNATURE_LIFETIME)
        date = parsedate_tz(self._client.request("HEAD", url, retries=False).headers.get("Date") or "")
        return time.time() if date is None else mktime_tz(date)

    def measure(self, path: str) -> Amount:
        """Add up the sizes in a listing."""
        sizes = [size for _, size in self._walk(path)]
        return Amount(len(sizes), sum(sizes))

    def has_files(self, path: str) -> bool:
        """Return True if a listing below `path` has an object."""
        for chunk in obstore.list(self._store, self._key(path), chunk_size=1):
            return bool(chunk)
        return False

    def get(self, path: str, *, max_bytes: int = LARGEST_OBJECT) -> Blob | None:
        """Return an object with its e-tag."""
        try:
            result = obstore.get(self._store, self._key(path))
            meta = result.meta
            if meta["size"] > max_bytes:
                raise too_large_error(path, meta["size"], max_bytes)
            return Blob(bytes(result.bytes()), meta["e_tag"] or "", meta["last_modified"].timestamp())
        except (FileNotFoundError, NotFoundError):
            return None

    def size(self, path: str) -> int | None:
        """Return the size of an object."""
        try:
            return int(obstore.head(self._store, self._key(path))["size"])
        except (FileNotFoundError, NotFoundError):
            return None

    def stamp(self, path: str) -> str | None:
        """Return the e-tag of an object."""
        found = self._read_tag(path)
        return None if found is None else found.e_tag

    def put(self, path: str, body: bytes) -> None:
        """Write an object."""
        obstore.put(self._store, self._key(path), body)

    def create(self, path: str, body: bytes) -> str | None:
        """Write with If-None-Match."""
        try:
            return obstore.put(self._store, self._key(path), body, mode="create")["e_tag"]
        except (AlreadyExistsError, PreconditionError):
            return self._find_own_tag(path, body)

    def swap(self, path: str, body: bytes, e_tag: str) -> str | None:
        """Write with If-Match."""
        try:
            return obstore.put(self._store, self._key(path), body, mode=cast("Any", {"e_tag": e_tag}))["e_tag"]
        except (PreconditionError, AlreadyExistsError, FileNotFoundError, NotFoundError):
            return self._find_own_tag(path, body)

    def delete(self, *paths: str) -> None:
        """Delete objects in bulk. Objects that do not exist are skipped."""
        self._delete_keys([self._key(path) for path in paths])

    def delete_if(self, path: str, e_tag: str) -> bool:
        """Delete with If-Match if the store accepts signed requests, else write a body that counts as absent."""
        if self._scheme not in _SIGNED_DELETE_SCHEMES:
            return self.swap(path, ABSENT_BODY, e_tag) is not None
        status, unclear = self._delete_signed(self._key(path), e_tag, _SIGNATURE_LIFETIME)
        # A missing object after an attempt without a response was deleted by that attempt.
        return status == _DONE or (unclear and status == _NOT_FOUND)

    def _delete_signed(self, key: str, e_tag: str, lifetime: timedelta) -> tuple[int, bool]:
        """Delete with If-Match. Returns the status, and True if an earlier attempt got no response."""
        unclear = False
        for attempt in range(_ATTEMPTS):
            url = obstore.sign(self._store, "DELETE", key, lifetime)
            try:
                response = self._client.request("DELETE", url, headers={"If-Match": e_tag}, retries=False)
            except urllib3.exceptions.HTTPError as error:
                unclear = True
                if attempt == _ATTEMPTS - 1:
                    reason = _remove_query(str(error))
                    raise ServiceUnavailableError(f"Conditional delete of {key!r} got no response: {reason}") from error
                continue
            if response.status in {200, 202, 204}:
                return _DONE, unclear
            if response.status in {_FORBIDDEN, _NOT_FOUND, _CONFLICT, _STALE_TAG}:
                return response.status, unclear
            raise InternalError(
                f"Conditional delete of {key!r} failed with status {response.status}: {response.data[:200]!r}"
            )
        raise AssertionError

    def delete_tree(self, path: str, *, first: str | None = None, also: Sequence[str] = ()) -> Amount:
        """Delete in bulk, objects below `first` before the others."""
        found = list(self._walk(path))
        early = f"{self._key(path)}/{first}/" if first else None
        before = [key for key, _ in found if early is not None and key.startswith(early)]
        after = [key for key, _ in found if early is None or not key.startswith(early)]
        for batch in (before, after + [self._key(other) for other in also]):
            self._delete_keys(batch)
        return Amount(len(found), sum(size for _, size in found))

    def _delete_keys(self, keys: Sequence[str]) -> None:
        """Delete objects in bulk. Azure reports an error for a missing one, and may not have deleted those after it."""
        for start in range(0, len(keys), _DELETE_BATCH):
            batch = keys[start : start + _DELETE_BATCH]
            try:
                obstore.delete(self._store, batch)
            except (FileNotFoundError, NotFoundError):
                self.map(self._delete_key, batch)

    def _delete_key(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotFoundError):
            obstore.delete(self._store, key)

    def list_leftovers(self) -> list[str]:
        """Return nothing: an upload is complete or absent."""
        return []

    def remove_leftovers(self) -> None:
        """Do nothing."""

    def copy_tree(self, source: str, target: str) -> list[str]:
        """Copy each object within the store. S3 copies at most 5 GB per object."""
        prefix = f"{self._key(source)}/"
        pairs = [(key, f"{target}/{key.removeprefix(prefix)}") for key, _ in self._walk(source)]
        self.map(lambda pair: obstore.copy(self._store, pair[0], self._key(pair[1])), pairs)
        return [path for _, path in pairs]

    def purge_tree(self, path: str, *, also: Sequence[str], seconds: float, still_mine: Callable[[], bool]) -> Amount:
        """Delete names that can be used again first, each by a signed request with an e-tag and an expiry time.

        Names of data files, transactions, deletions and indexes are never used again, so they are deleted in bulk.
        """
        deadline = time.monotonic() + seconds
        removed = Amount()
        while True:
            found = list(self._walk_tagged(path))
            extra = [tagged for other in also if (tagged := self._read_tag(other)) is not None]
            if not found and not extra:
                return removed
            if not still_mine():
                raise ConcurrentModificationError(
                    f"{path!r} cannot be deleted: this client does not hold the claim any more"
                )
            prefix = f"{self._key(path)}/"
            unique: list[_TaggedObject] = []
            reusable = extra
            for entry in found:
                (unique if entry.key.removeprefix(prefix).startswith(_UNIQUE_NAMES) else reusable).append(entry)
            removed += self._delete_fenced(reusable, deadline, removed)
            for start in range(0, len(unique), _DELETE_BATCH):
                batch = unique[start : start + _DELETE_BATCH]
                self._delete_keys([entry.key for entry in batch])
                removed += Amount(len(batch), sum(entry.size for entry in batch))

    def require_conditional_writes(self) -> None:
        """Probe put-if-absent, compare-and-swap and conditional deletion, once per store."""
        if self._missing_condition is None:
            self._missing_condition = self._find_missing_condition()
        if self._missing_condition:
            raise UnsupportedOperationError(
                f"The store of {self.identity()} cannot delete root tables safely: {self._missing_condition}. "
                "Tables in hashed directories can be purged; dropping and restoring work for all tables"
            )

    def _find_missing_condition(self) -> str:
        """Return which condition the store does not support, or an empty text."""
        if self._scheme not in _SIGNED_DELETE_SCHEMES:
            return "it does not accept signed conditional deletion"
        from pennon.store.probing import find_unkept_condition  # noqa: PLC0415 - only before a purge

        return find_unkept_condition(self, f"{PROBE_PREFIX}-{uuid.uuid4().hex}")

    def _delete_fenced(self, entries: Sequence[_TaggedObject], deadline: float, so_far: Amount) -> Amount:
        outcomes = self.map(lambda entry: self._delete_in_time(entry, deadline), entries)
        gone = [entry for entry, outcome in zip(entries, outcomes, strict=True) if outcome == _GONE]
        removed = Amount(len(gone), sum(entry.size for entry in gone))
        if _STALE in outcomes:
            raise ConcurrentModificationError("Another client has written a file that was to be deleted")
        if _LATE in outcomes:
            raise LeaseExpiredError(so_far + removed)
        return removed

    def _delete_in_time(self, entry: _TaggedObject, deadline: float) -> str:
        left = int(deadline - time.monotonic())
        if left < 1:
            return _LATE
        status, _ = self._delete_signed(entry.key, entry.e_tag, timedelta(seconds=left))
        if status in {_DONE, _NOT_FOUND}:
            return _GONE
        if status in {_CONFLICT, _STALE_TAG}:
            return _STALE
        if time.monotonic() >= deadline:
            return _LATE
        raise PermissionDeniedError(f"Conditional delete of {entry.key!r} is forbidden")

    def _walk_tagged(self, path: str) -> Iterator[_TaggedObject]:
        for chunk in obstore.list(self._store, self._key(path)):
            for item in chunk:
                yield _TaggedObject(item["path"], item["size"], item["e_tag"] or "")

    def _read_tag(self, path: str) -> _TaggedObject | None:
        try:
            found = obstore.head(self._store, self._key(path))
        except (FileNotFoundError, NotFoundError):
            return None
        return _TaggedObject(self._key(path), found["size"], found["e_tag"] or "")

    def prune(self, path: str) -> None:
        """Do nothing: a bucket has no directories."""

    def exclusive(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Do nothing: object stores have no locks, and conditional writes decide."""
        return contextlib.nullcontext()

    def map(self, function: Callable[[Item], T], items: Iterable[Item]) -> list[T]:
        """Return the results in order. Calls from one of the pool's threads run one by one.

        The others run in threads, and the last one in the calling thread: it may use `map` itself.
        """
        items = list(items)
        futures: list[Future[T]] = []
        if len(items) > 1 and not current_thread().name.startswith(_POOL_NAME):
            with self._lock:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(max_workers=_MOST_THREADS, thread_name_prefix=_POOL_NAME)
                # After the main thread has ended, Python's pools refuse work. Exit handlers then run it themselves.
                with contextlib.suppress(RuntimeError):
                    futures.extend(self._pool.submit(function, item) for item in items[:-1])
        own: list[T] = []
        failed: Exception | None = None
        try:
            try:
                own.extend(function(item) for item in items[len(futures) :])
            except Exception as error:  # noqa: BLE001 - raised below, unless an earlier call fails
                failed = error
            wait(futures)
            results = [future.result() for future in futures]
        except (KeyboardInterrupt, SystemExit):
            # Nobody needs the results, but the end of the process would wait for them.
            for future in futures:
                future.cancel()
            raise
        if failed is not None:
            raise failed
        return results + own

    def close(self) -> None:
        """Stop the threads and close the connections."""
        with self._lock:
            pool, self._pool = self._pool, None
            client, self._http = self._http, None
            self._opened = None
        if pool is not None:
            pool.shutdown()
        if client is not None:
            client.clear()

    @property
    def _store(self) -> Any:  # noqa: ANN401 - obstore's stores have no common public type
        with self._lock:
            if self._opened is None:
                self._opened = _open(self._base, self.storage_options)
            return self._opened

    @property
    def _client(self) -> urllib3.PoolManager:
        with self._lock:
            if self._http is None:
                _hide_queries()
                self._http = urllib3.PoolManager(maxsize=8, timeout=urllib3.Timeout(connect=10, read=30))
            return self._http

    def _key(self, path: str) -> str:
        return "/".join(part for part in (self._prefix, check_path(path)) if part)

    def _walk(self, path: str) -> Iterator[tuple[str, int]]:
        for chunk in obstore.list(self._store, self._key(path)):
            for item in chunk:
                yield item["path"], item["size"]

    def _find_own_tag(self, path: str, body: bytes) -> str | None:
        # If the response to a write is lost, its retry conflicts with the write itself.
        current = self.get(path)
        return current.e_tag if current is not None and current.body == body else None


class _QueryFilter(logging.Filter):
    """Removes queries from URLs in the debug log of urllib3: a signature in one is as good as the key."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Remove queries from a record, and keep the record."""
        if isinstance(record.args, tuple):
            record.args = tuple(_remove_query(one) if isinstance(one, str) else one for one in record.args)
        return True


def _remove_query(text: str) -> str:
    return _SIGNED_QUERY.sub("?***", text)


def _hide_queries() -> None:
    logger = logging.getLogger("urllib3.connectionpool")
    if not any(isinstance(one, _QueryFilter) for one in logger.filters):
        logger.addFilter(_QueryFilter())


def _open(base: str, options: dict[str, str]) -> Any:  # noqa: ANN401 - obstore's stores have no common public type
    """Open the bucket with the storage options that obstore supports."""
    client: dict[str, Any] = {}
    config: dict[str, str] = {}
    for key, value in options.items():
        name = key.lower()
        if name in _CLIENT_OPTIONS:
            client[name] = value.lower() == "true" if value.lower() in {"true", "false"} else value
        else:
            config.setdefault(_canonical_option(name), value)
    while True:
        try:
            return from_url(base, config=cast("Any", config), client_options=cast("Any", client))
        except UnknownConfigurationKeyError as error:
            # Some options are only for Lance, such as retry counts. obstore rejects them, so they are left out.
            found = re.search(r"key: '([^']+)'", str(error))
            if found is None or config.pop(found[1], None) is None:
                raise InvalidInputError(f"Bad storage option for {base}: {error}") from error


def _canonical_option(name: str) -> str:
    """Return one spelling for options that have two: obstore rejects them as duplicates."""
    bare = name.removeprefix("aws_")
    spellings = {"endpoint_url": "endpoint", "default_region": "region", "token": "session_token"}
    if bare in {
        "endpoint",
        "endpoint_url",
        "region",
        "default_region",
        "access_key_id",
        "secret_access_key",
    } or name in {
        "aws_session_token",
        "aws_token",
        "session_token",
    }:
        return f"aws_{spellings.get(bare, bare)}"
    return name
