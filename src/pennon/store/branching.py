"""One client at a time begins a branch of a table.

Lance begins a branch in two steps: it writes the branch's first version, then the file that names the branch. Of two
clients that begin the same branch at different versions one is refused at the second step, but its version stays, and
is the branch's latest one if it has the larger number. So whoever begins a branch holds a claim on its name, and takes
away what a client that died between the two steps has left.
"""

from __future__ import annotations

import hashlib
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pennon.errors import ConcurrentModificationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pennon.store.protocol import Store

LEASE_SECONDS = 60.0
"""After so long, whoever holds a claim or has left a first version is taken for dead."""
_SHORTEST = 32
_VERSIONS = "_versions"


@contextmanager
def beginning(store: Store, location: str, branch: str, shown: str) -> Iterator[Callable[[bool], None]]:
    """Let nobody else begin the branch meanwhile; 14 if somebody is at it. The name is one that a branch can have.

    `location` is the table's directory in the store, "" if that is the store's root. Gives what clears the place of the
    branch, to be called once it is known that there is none, with True if the caller has just deleted the branch. The
    claim is a file in the table's `_refs` directory. A crash leaves it there until its lease is over.
    """
    folder = f"{location}/" if location else ""
    path = f"{folder}_refs/{hashlib.sha256(branch.encode()).hexdigest()[:32]}.claim"
    e_tag = _claimed(store, path)
    if e_tag is None:
        raise _another(shown, branch)
    try:
        yield lambda deleted: _clear(store, f"{folder}tree/{branch}/{_VERSIONS}", shown, branch, deleted=deleted)
    finally:
        store.delete_if(path, e_tag)


def _claimed(store: Store, path: str) -> str | None:
    """Write the claim if nobody has one that still counts; gives its e-tag."""
    body = f"branch {uuid.uuid4()}".encode().ljust(_SHORTEST)
    e_tag = store.create(path, body)
    if e_tag is not None:
        return e_tag
    there = store.get(path)
    if there is None:
        return store.create(path, body)
    is_over = len(there.body) < _SHORTEST or store.now() - there.modified > LEASE_SECONDS
    return store.swap(path, body, there.e_tag) if is_over else None


def _clear(store: Store, folder: str, shown: str, branch: str, *, deleted: bool) -> None:
    """Delete what a dead client has left of a branch that nothing names; 14 if it may be alive.

    With `deleted`, the files are those of a branch that was deleted: Lance leaves them if another branch is below it.
    """
    left = store.list_level(folder).files
    if not left:
        return
    if not deleted and store.now() - max(file.modified for file in left) <= LEASE_SECONDS:
        raise _another(shown, branch)
    store.delete(*(f"{folder}/{file.name}" for file in left))


def _another(shown: str, branch: str) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"Branch '{branch}' of table {shown} is being created by another client; try again later"
    )
