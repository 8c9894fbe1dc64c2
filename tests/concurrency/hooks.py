"""Named points in the code under test at which a process kills or stops itself.

A point is a call, `module:name` or `module:class.method`, and a side of it. These tests change nothing else in
Pennon's code.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CLAIM = "pennon.directory.markers.claim:acquire"
PURGE_CLAIM = "pennon.directory.markers.claim:take_over"
RELEASE = "pennon.directory.markers.claim:Claim.complete"
WRITE_DATA = "pennon.table.writing:_write_data_files"
COMMIT_DATA = "pennon.table.writing:_commit"
TRY_COMMIT = "pennon.directory.manifest.manifest:Manifest._try_commit"
COMMIT_ROWS = "pennon.directory.manifest.manifest:commit"
WRITE_ROWS = "pennon.directory.manifest.commit:write_fragments"
COMMIT_MANIFEST = "pennon.directory.manifest.commit:LanceDataset.commit"
UPLOAD_ROWS = "pennon.directory.manifest.staged_commit:StagedCommit.upload"
PUBLISH_ROWS = "pennon.directory.manifest.staged_commit:StagedCommit.publish"
PUT = "pennon.store.local:LocalStore.put"
CREATE = "pennon.store.local:LocalStore.create"
DELETE = "pennon.store.local:LocalStore.delete"
DELETE_TREE = "pennon.store.local:LocalStore.delete_tree"
REMOVE_FILES = "pennon.store.local:root_paths.remove_tree"
SWAP = "pennon.store.local:LocalStore.swap"
DELETE_IF = "pennon.store.local:LocalStore.delete_if"
CREATE_OBJECT = "pennon.store.objects:ObjectStore.create"
SWAP_OBJECT = "pennon.store.objects:ObjectStore.swap"
PUT_OBJECT = "pennon.store.objects:ObjectStore.put"
DELETE_OBJECTS = "pennon.store.objects:obstore.delete"
DELETE_OBJECT_IF = "pennon.store.objects:ObjectStore.delete_if"
DELETE_OBJECT_IN_TIME = "pennon.store.objects:ObjectStore._delete_in_time"
PUT_IN_PLACE = "pennon.directory.versions.version_files:put_in_place"
FINISH = "pennon.directory.versions.managed:finish"
UPDATE_METADATA = "pennon.directory.manifest.manifest:Manifest.update_metadata"


@dataclass(frozen=True)
class Point:
    """One side of the `number`-th call of a function."""

    side: str
    call: str
    number: int = 1

    def __str__(self) -> str:
        times = "" if self.number == 1 else f"-{self.number}"
        return f"{self.side}-{self.call.rpartition(':')[2]}{times}"


def before(call: str, number: int = 1) -> Point:
    return Point("before", call, number)


def after(call: str, number: int = 1) -> Point:
    return Point("after", call, number)


def strike_at(point: Point, signal: int) -> None:
    """Send this process a signal when it reaches the point."""
    calls = [0]

    def begun() -> Callable[[], None]:
        calls[0] += 1
        due = calls[0] == point.number
        if due and point.side == "before":
            os.kill(os.getpid(), signal)

        def ended() -> None:
            if due and point.side == "after":
                os.kill(os.getpid(), signal)

        return ended

    _watch(point.call, begun)


def count_at(calls: list[str]) -> dict[str, int]:
    """Count the calls of functions from now on, in the dictionary that is returned."""
    counts = dict.fromkeys(calls, 0)

    def counting(call: str) -> Callable[[], Callable[[], None]]:
        def begun() -> Callable[[], None]:
            counts[call] += 1
            return lambda: None

        return begun

    for call in calls:
        _watch(call, counting(call))
    return counts


def _watch(call: str, begun: Callable[[], Callable[[], None]]) -> None:
    """Call `begun` before each call of a function, and the function that it returns after the call."""
    module_name, _, name = call.partition(":")
    owner: Any = importlib.import_module(module_name)
    *outer, last = name.split(".")
    for part in outer:
        inner = getattr(owner, part)
        if inspect.isclass(inner) and inner.__module__ != module_name:
            # A class from elsewhere is replaced in this module alone.
            inner = type(part, (inner,), {})
            setattr(owner, part, inner)
        owner = inner
    static = isinstance(inspect.getattr_static(owner, last), staticmethod)
    watched = _watched(getattr(owner, last), begun)
    setattr(owner, last, staticmethod(watched) if static else watched)


def _watched(original: Callable[..., Any], begun: Callable[[], Callable[[], None]]) -> Callable[..., Any]:
    @wraps(original)
    def called(*arguments: Any, **options: Any) -> Any:
        ended = begun()
        result = original(*arguments, **options)
        ended()
        return result

    return called


def strike_after_calls(count: int, signal: int) -> None:
    """Send this process a signal when it has entered `count` functions of Pennon."""
    entered = [0]

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and "/pennon/" in frame.f_code.co_filename:
            entered[0] += 1
            if entered[0] == count:
                os.kill(os.getpid(), signal)

    sys.setprofile(watch)


def count_calls(function: Callable[..., Any], *arguments: Any) -> int:
    """Count the functions of Pennon that a call enters."""
    entered = [0]

    def watch(frame: Any, event: str, _: Any) -> None:
        entered[0] += event == "call" and "/pennon/" in frame.f_code.co_filename

    sys.setprofile(watch)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return entered[0]
