"""One contract for every store: a local disk, moto and a real S3 server."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from pennon.errors import UnusableEntryError
from pennon.store import Amount, Level, local, open_store
from pennon.store.local import LOCK_DIRECTORY
from pennon.store.objects import ABSENT_BODY
from tests.servers import CountingS3, SeaweedS3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pennon.store import Store

THREADS = 8
ODD_NAMES = [
    "with space",
    " leading and trailing ",
    "100%",
    "%20",
    "a%2Fb",
    "what?",
    "x=1&y=2",
    "sharp#",
    "quote'",
    'double"quote',
    "back`tick",
    "star*[set]{a,b}",
    "plus+plus",
    "semi;colon:at@",
    "dollar$sign",
    "tilde~",
    "ünïcödé",
    "日本語",
    "emoji🏴",
    "e\u0301",
    "-dash",
    ".hidden",
    "dot.",
    "UPPER",
]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def counting_s3() -> Iterator[CountingS3]:
    with CountingS3() as server:
        yield server


@pytest.fixture(scope="module")
def seaweed_s3() -> Iterator[SeaweedS3]:
    with SeaweedS3() as server:
        yield server


@dataclass(frozen=True)
class Place:
    """A kind of store, with a function that opens the same root again."""

    kind: str
    open: Callable[..., Store]
    root: str


@pytest.fixture(
    params=["local", pytest.param("counting", marks=pytest.mark.s3), pytest.param("seaweed", marks=pytest.mark.s3)]
)
def place(request, tmp_path) -> Place:
    if request.param == "local":
        root = str(tmp_path / "root")
        return Place("local", lambda root=root: open_store(root, {}), root)
    endpoint = request.getfixturevalue(f"{request.param}_s3").endpoint
    root = endpoint.uri(f"root-{next(_numbers)}")
    return Place(request.param, lambda root=root: open_store(root, endpoint.storage_options()), root)


@pytest.fixture
def store(place) -> Iterator[Store]:
    opened = place.open()
    yield opened
    opened.close()


def token() -> bytes:
    """Return a body that no other call writes."""
    return json.dumps({"token": uuid.uuid4().hex}).encode()


def at_once(call: Callable[[int], object], threads: int = THREADS) -> list[object]:
    """Make a call in several threads at the same time."""
    barrier = threading.Barrier(threads)

    def run(number: int) -> object:
        barrier.wait()
        return call(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


def own_names(level: Level) -> Level:
    """Return the names without the directories that a local store uses itself."""
    return Level(
        level.files,
        tuple(sorted(name for name in level.directories if not name.startswith(".lance-"))),
    )


# Listing


def test_list_level_shows_files_and_directories_of_one_level_only(store):
    before = time.time()
    store.put("file", b"12345")
    store.put("empty file", b"")
    store.put("dir/inner", b"x")
    store.put("dir/deep/er/leaf", b"x")
    store.put("other/leaf", b"x")

    root, inner = own_names(store.list_level()), store.list_level("dir")

    assert {(file.name, file.size) for file in root.files} == {("file", 5), ("empty file", 0)}
    assert root.directories == ("dir", "other")
    assert [file.name for file in inner.files] == ["inner"]
    assert inner.directories == ("deep",)
    assert all(abs(file.modified - before) < 60 for file in root.files)


def test_list_level_of_something_absent_is_empty(store):
    assert store.list_level() == Level((), ())
    store.put("here/leaf", b"x")
    assert store.list_level("nowhere") == Level((), ())
    assert store.list_level("here/leaf") == Level((), ())
    assert store.list_level("her") == Level((), ())


def test_list_level_goes_beyond_a_thousand_entries(place, store):
    if place.kind == "seaweed":
        pytest.skip("a thousand entries take too long there; moto pages in the same way")
    at_once(lambda number: [store.put(f"d{number}-{i}/leaf", b"x") for i in range(130)])

    assert len(own_names(store.list_level()).directories) == 130 * THREADS


def test_has_files_searches_every_depth_and_only_below_the_path(store):
    store.put("dir/deep/er/leaf", b"x")
    store.put("plain", b"x")
    store.put("prefixed/leaf", b"x")

    assert store.has_files("dir")
    assert store.has_files("dir/deep")
    assert not store.has_files("dir/deep/er/leaf")
    assert not store.has_files("plain")
    assert not store.has_files("pre")
    assert not store.has_files("nowhere")


# Small objects


@pytest.mark.parametrize(
    "body", [b"", b"x", bytes(range(256)), b"large" * 200_000], ids=["empty", "x", "bytes", "1 MB"]
)
def test_get_returns_what_put_wrote(body, store):
    store.put("a/b", body)

    found = store.get("a/b")
    assert found is not None
    assert found.body == body
    assert store.size("a/b") == len(body)


def test_put_replaces_and_changes_the_e_tag(store):
    store.put("x", b"one")
    first = store.get("x")
    store.put("x", b"two")
    second = store.get("x")

    assert second.body == b"two"
    assert first.e_tag != second.e_tag


def test_modification_times_and_now_use_the_same_clock(store):
    before = store.now()
    store.put("x", b"one")
    after = store.now()

    # Servers report whole seconds.
    assert before - 1 <= store.get("x").modified <= after + 1
    assert abs(after - time.time()) < 60


def test_missing_objects_are_none_or_false_and_never_an_exception(store):
    store.put("dir/leaf", b"x")

    for path in ("nowhere", "no/where", "dir", "dir/leaf/below"):
        assert store.get(path) is None, path
        assert store.size(path) is None, path
        assert store.swap(path, token(), "0" * 32) is None, path
        assert store.delete_if(path, "0" * 32) is False, path
    store.delete("nowhere")
    store.delete("no/where")
    assert store.delete_tree("nowhere") == Amount(0, 0)
    assert store.get("dir/leaf").body == b"x"


def test_delete_removes_one_object(store):
    store.put("dir/x", b"x")
    store.put("dir/xy", b"x")

    store.delete("dir/x")

    assert store.get("dir/x") is None
    assert store.get("dir/xy") is not None


# Conditional writes


def test_create_returns_the_same_e_tag_as_get(store):
    body = token()

    e_tag = store.create("marker", body)

    found = store.get("marker")
    assert found.body == body
    assert found.e_tag == e_tag


def test_create_does_not_replace_an_object(store):
    first = token()
    store.create("marker", first)

    assert store.create("marker", token()) is None
    assert store.get("marker").body == first


def test_of_eight_creators_exactly_one_wins(place, store):
    for number in range(3 if place.kind == "seaweed" else 15):
        bodies = [token() for _ in range(THREADS)]
        name = f"dir/marker{number}"

        tags = at_once(lambda i, name=name, bodies=bodies: store.create(name, bodies[i]))

        winners = [i for i, tag in enumerate(tags) if tag is not None]
        assert len(winners) == 1
        found = store.get(name)
        assert found.body == bodies[winners[0]]
        assert found.e_tag == tags[winners[0]]


def test_swap_replaces_only_the_object_with_the_e_tag(store):
    stale = store.create("marker", token())
    second = token()
    fresh = store.swap("marker", second, stale)

    assert fresh is not None
    assert fresh != stale
    assert store.get("marker").e_tag == fresh
    assert store.swap("marker", token(), stale) is None
    assert store.get("marker").body == second


def test_swap_of_something_deleted_is_none(store):
    e_tag = store.create("marker", token())
    store.delete("marker")

    assert store.swap("marker", token(), e_tag) is None
    assert store.get("marker") is None


def test_eight_threads_that_swap_lose_no_update(place, store):
    rounds = {"local": 50, "counting": 8, "seaweed": 4}[place.kind]
    store.put("counter", json.dumps({"count": 0, "token": ""}).encode())

    def increment(_: int) -> None:
        done = 0
        while done < rounds:
            current = store.get("counter")
            count = json.loads(current.body)["count"]
            body = json.dumps({"count": count + 1, "token": uuid.uuid4().hex}).encode()
            done += store.swap("counter", body, current.e_tag) is not None

    at_once(increment)

    assert json.loads(store.get("counter").body)["count"] == THREADS * rounds


def test_delete_if_deletes_only_the_object_with_the_e_tag(store):
    stale = store.create("marker", token())
    fresh = store.swap("marker", token(), stale)

    assert store.delete_if("marker", stale) is False
    assert store.get("marker").e_tag == fresh
    assert store.delete_if("marker", fresh) is True
    left = store.get("marker")
    assert left is None or left.body == ABSENT_BODY
    assert store.delete_if("marker", fresh) is False


def test_of_eight_conditional_deletions_at_most_one_reports_success(place, store):
    for number in range(3 if place.kind == "seaweed" else 15):
        name = f"marker{number}"
        e_tag = store.create(name, token())

        outcomes = at_once(lambda _, name=name, e_tag=e_tag: store.delete_if(name, e_tag))

        assert outcomes.count(True) == 1
        assert store.get(name) is None


# Trees


def test_delete_tree_deletes_everything_below_and_nothing_else(store):
    for path in ("t.lance/_versions/1", "t.lance/data/a/b", "t.lance/.marker"):
        store.put(path, b"12345")
    kept = ["t.lance2/leaf", "t.lanc/leaf", "t", "sibling/t.lance/leaf"]
    for path in [*kept, "t.deleted", "t.declared"]:
        store.put(path, b"x")

    assert store.measure("t.lance") == Amount(3, 15)
    assert store.measure("nowhere") == Amount(0, 0)
    removed = store.delete_tree("t.lance", first="_versions", also=["t.declared", "t.deleted", "never-there"])

    assert removed == Amount(3, 15)
    assert not store.has_files("t.lance")
    assert store.list_level("t.lance").files == ()
    assert [path for path in kept if store.get(path) is None] == []
    assert store.get("t.declared") is None
    assert store.get("t.deleted") is None


def test_copy_tree_copies_everything_below_and_nothing_else(store):
    for path in ("a/one", "a/b/c/two", "a/with space%", "ab/three", "a.four"):
        store.put(path, path.encode())
    copies = store.copy_tree("a", "x/y")
    assert sorted(copies) == ["x/y/b/c/two", "x/y/one", "x/y/with space%"]
    assert {path: store.get(path).body for path in copies} == {
        "x/y/one": b"a/one",
        "x/y/b/c/two": b"a/b/c/two",
        "x/y/with space%": b"a/with space%",
    }
    store.delete_tree("a")
    assert store.get("x/y/one").body == b"a/one"
    assert store.copy_tree("a", "z") == []


def test_delete_tree_of_a_missing_directory_deletes_the_other_objects(store):
    store.put("t.declared", b"x")

    assert store.delete_tree("t.lance", also=["t.declared"]) == Amount(0, 0)
    assert store.get("t.declared") is None


def test_delete_tree_leaves_a_plain_file_of_that_name(store):
    store.put("t.lance", b"somebody's file")

    store.delete_tree("t.lance")

    assert store.get("t.lance").body == b"somebody's file"


def test_delete_tree_deletes_more_than_a_thousand_files(place, store):
    if place.kind == "seaweed":
        pytest.skip("a thousand objects take too long there; moto takes the same requests")
    at_once(lambda number: [store.put(f"t/{number}/{i}", b"x") for i in range(130)])

    assert store.delete_tree("t", first="3") == Amount(130 * THREADS, 130 * THREADS)
    assert not store.has_files("t")


# Names


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_survive_every_operation(name, store):
    body, other = token(), token()
    e_tag = store.create(f"{name}/{name}", body)
    store.put(name + ".deleted", b"x" * 40)

    level = own_names(store.list_level())
    assert level.directories == (name,)
    assert [(file.name, file.size) for file in level.files] == [(name + ".deleted", 40)]
    assert [file.name for file in store.list_level(name).files] == [name]
    assert store.has_files(name)
    assert store.size(f"{name}/{name}") == len(body)
    assert store.create(f"{name}/{name}", other) is None
    fresh = store.swap(f"{name}/{name}", other, e_tag)
    assert store.get(f"{name}/{name}").body == other
    assert store.delete_if(f"{name}/{name}", e_tag) is False
    assert store.delete_if(f"{name}/{name}", fresh) is True
    store.put(f"{name}/{name}", body)
    assert store.delete_tree(name, also=[name + ".deleted"]).files == 1
    assert store.get(name + ".deleted") is None


@pytest.mark.parametrize("name", ODD_NAMES)
def test_locations_and_uris_lead_back_to_their_path(name, store):
    for path in (name, f"{name}.lance", f"deep/{name}/{name}"):
        assert store.relative(store.location(path)) == path
        assert store.relative(store.uri(path)) == path


@pytest.mark.parametrize("name", ODD_NAMES)
def test_lance_writes_to_the_paths_of_the_store(name, place, store):
    if place.kind == "seaweed" and name not in ODD_NAMES[:6]:
        pytest.skip("the keys are the same as with moto")
    options = store.storage_options or None
    for directory, address in ((name, store.location(name)), (f"{name}.uri", store.uri(f"{name}.uri"))):
        lance.write_dataset(pa.table({"x": [1, 2]}), address, storage_options=options)

        assert "_versions" in store.list_level(directory).directories
        assert lance.dataset(address, storage_options=options).count_rows() == 2


def test_uris_have_a_scheme_and_are_ascii(store):
    for name in ODD_NAMES:
        scheme, _, rest = store.uri(name).partition("://")
        assert scheme in {"file", "s3"}
        assert rest.isascii()
        assert " " not in rest


def test_locations_elsewhere_have_no_path(place, store):
    for elsewhere in ("/somewhere/else", "file:///somewhere/else", "s3://other-bucket/x", "relative/path", "gs://b/x"):
        assert store.relative(elsewhere) is None, elsewhere
    assert store.relative(place.root + "-beside/x") is None


def test_roots_with_odd_names_are_found_by_lance_and_by_the_store_alike(place):
    root = f"{place.root}/odd root%20&ü" if place.kind == "local" else f"{place.root}/odd%20root%2520&%C3%BC"
    store = place.open(root)
    options = store.storage_options or None

    lance.write_dataset(pa.table({"x": [1]}), store.location("t.lance"), storage_options=options)

    assert own_names(store.list_level()).directories == ("t.lance",)
    assert store.relative(store.location("t.lance")) == "t.lance"
    assert store.relative(store.uri("t.lance")) == "t.lance"
    store.close()


def test_two_stores_on_one_root_are_the_same(place, store):
    other = place.open()
    store.put("x", b"from one")

    assert other.get("x").body == b"from one"
    assert other.identity() == store.identity()
    other.close()


# Threads


def test_map_returns_results_in_order_and_raises_what_a_call_raises(store):
    assert store.map(lambda number: number * 2, range(50)) == list(range(0, 100, 2))
    assert store.map(str, []) == []

    def fail() -> None:
        raise LookupError("from a call")

    with pytest.raises(LookupError, match="from a call"):
        store.map(lambda call: call(), [fail, lambda: 1])


NESTED_CALLS = """
import json, sys
from pennon.store import open_store
root, options = json.loads(sys.argv[1])
store = open_store(root, options)
inner = lambda _: store.map(abs, [1, 2])
print(len(store.map(inner, range(40))))
store.close()
"""


def test_mapped_functions_may_map_themselves(place, store):
    # This runs in its own process: threads that wait for each other would keep this one from ending.
    arguments = json.dumps([place.root, store.storage_options])
    process = subprocess.Popen([sys.executable, "-c", NESTED_CALLS, arguments], stdout=subprocess.PIPE)
    try:
        output, _ = process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        pytest.fail("forty calls that each look at two things at once wait for each other for ever")
    finally:
        process.kill()
        process.communicate()
    assert output.strip() == b"40"


def test_close_ends_the_threads_and_may_be_repeated(place):
    store = place.open()
    before = set(threading.enumerate())
    store.map(abs, range(20))
    marker = store.create("marker", token())
    assert store.delete_if("marker", marker)

    store.close()
    store.close()

    assert [thread.name for thread in set(threading.enumerate()) - before if "pennon" in thread.name] == []


# Local disk


def test_find_empty_tables_returns_directories_without_files(tmp_path):
    store = open_store(str(tmp_path), {})
    (tmp_path / "empty.lance" / "also" / "empty").mkdir(parents=True)
    store.put("full.lance/deep/leaf", b"x")

    assert store.find_empty_tables(["full.lance", "empty.lance"], subdirectories=0) == {"empty.lance"}
    assert not store.has_files("empty.lance")


def test_find_empty_tables_checks_again_after_the_root_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "_CLOCK_NANOSECONDS", -1)
    store = open_store(str(tmp_path), {})
    store.put("t.lance/leaf", b"x")
    assert store.find_empty_tables(["t.lance"], subdirectories=0) == set()

    store.delete_tree("t.lance")
    (tmp_path / "t.lance").mkdir()

    assert store.find_empty_tables(["t.lance"], subdirectories=0) == {"t.lance"}


@pytest.fixture(params=["disk", "memory"])
def counting_root(request, tmp_path):
    """Return an empty directory on a file system that counts links: that of temporary files, or a tmpfs."""
    if request.param == "disk":
        top = tmp_path / "root"
        top.mkdir()
        yield top
        return
    if not Path("/dev/shm").is_dir():  # noqa: S108 - a tmpfs on Linux
        pytest.skip("there is no tmpfs")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def fill_with_tables_and_others(root):
    """Create all kinds of directories that a root may hold, and return the names that contain no file."""
    for name in ("data", "_transactions", "_versions"):
        (root / "table.lance" / name).mkdir(parents=True)
        (root / "table.lance" / name / "file").touch()
    for name in ("_transactions", "_versions"):
        (root / "rowless.lance" / name).mkdir(parents=True)
        (root / "rowless.lance" / name / "file").touch()
        (root / "hollow.lance" / name).mkdir(parents=True)
    (root / "declared.lance").mkdir()
    (root / "declared.lance" / ".lance-reserved").touch()
    (root / "empty.lance").mkdir()
    (root / "other").mkdir()
    return {"empty.lance", "hollow.lance"}


@pytest.mark.parametrize("surplus", [0, 1, -1, 1000], ids=lambda surplus: f"surplus={surplus}")
def test_find_empty_tables_is_right_whether_or_not_links_are_counted(counting_root, surplus):
    empty = fill_with_tables_and_others(counting_root)
    store = open_store(str(counting_root), {})
    directories = store.list_level().directories
    tables = [name for name in directories if name.endswith(".lance")]

    assert store.find_empty_tables(tables, subdirectories=len(directories) + surplus) == empty


def test_link_counts_are_not_used_if_that_of_the_root_is_wrong(counting_root):
    for name in ("data", "_transactions", "_versions"):
        (counting_root / "hollow.lance" / name).mkdir(parents=True)
    store = open_store(str(counting_root), {})

    assert store.find_empty_tables(["hollow.lance"], subdirectories=2) == {"hollow.lance"}


def test_a_link_in_the_place_of_a_table_is_not_followed_by_its_link_count(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    for name in ("data", "_transactions", "_versions"):
        (tmp_path / "outside" / name).mkdir(parents=True)
        (tmp_path / "outside" / name / "file").touch()
    (root / "t.lance").symlink_to(tmp_path / "outside")
    store = open_store(str(root), {})

    with pytest.raises(UnusableEntryError):
        store.find_empty_tables(["t.lance"], subdirectories=0)


def test_local_exclusive_admits_one_of_eight_threads_at_a_time(tmp_path):
    store = open_store(str(tmp_path), {})
    counter = tmp_path / "counter"
    counter.write_text("0")

    def increment(_: int) -> None:
        for _ in range(50):
            with store.exclusive("name"):
                counter.write_text(str(int(counter.read_text()) + 1))

    at_once(increment)

    assert counter.read_text() == str(THREADS * 50)


def test_local_swap_works_while_exclusive_is_held(tmp_path):
    store = open_store(str(tmp_path), {})
    e_tag = store.create("marker", token())

    with store.exclusive("marker"):
        assert store.swap("marker", token(), e_tag) is not None


# Six processes that work until they are killed. Each reports a success by a letter. They are forked to start together.
SIX_PROCESSES = """
import hashlib, itertools, json, os, sys
from pennon.store import open_store

def body(**content):
    filling = os.urandom(20_000).hex()
    check = hashlib.sha256(filling.encode()).hexdigest()
    return json.dumps({"filling": filling, "check": check, **content}).encode()

def swaps(store):
    current = store.get("counter")
    count = json.loads(current.body)["count"]
    return store.swap("counter", body(count=count + 1), current.e_tag) is not None

numbers = itertools.count()

def creates(store):
    return store.create(f"created/{next(numbers)}", body()) is not None

work = {"swaps": swaps, "creates": creates}[sys.argv[2]]
children = []
waiting, gate = os.pipe()
for letter in b"abcdef":
    child = os.fork()
    if child == 0:
        os.close(gate)
        os.read(waiting, 1)
        store = open_store(sys.argv[1], {})
        while True:
            if work(store):
                os.write(1, bytes([letter]))
    children.append(child)
os.write(1, b"%s\\n" % json.dumps(children).encode())
os.close(gate)
for child in children:
    os.waitpid(child, 0)
"""

HOLD_FOREVER = """
import os, signal, sys
from pennon.store import open_store
store = open_store(sys.argv[1], {})
with store.exclusive("name"), store._hold_lock("swap", "counter"):
    os.write(1, b"+")
    signal.pause()
"""


def acknowledged_by_killed(work: str, root: str, seed: int) -> int:
    """Run six processes, kill each at work, and return the number of successes that they reported."""
    chance = random.Random(seed)
    left = {letter: chance.randint(1, 60) for letter in b"abcdef"}
    command = [sys.executable, "-c", SIX_PROCESSES, root, work]
    total = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE) as host:
        children = dict(zip(b"abcdef", json.loads(host.stdout.readline()), strict=True))
        while letter := host.stdout.read(1):
            total += 1
            left[letter[0]] -= 1
            if left[letter[0]] == 0:
                os.kill(children[letter[0]], signal.SIGKILL)
    return total


def is_whole(body: bytes) -> bool:
    content = json.loads(body)
    return hashlib.sha256(content["filling"].encode()).hexdigest() == content["check"]


@pytest.mark.concurrency
def test_processes_killed_while_swapping_leave_a_whole_file_and_no_lock(tmp_path):
    store = open_store(str(tmp_path), {})
    store.put("counter", json.dumps({"count": 0}).encode())

    acknowledged = acknowledged_by_killed("swaps", str(tmp_path), seed=11)

    current = store.get("counter")
    assert is_whole(current.body)
    # A process may be killed after its swap and before its report, at most once each.
    assert acknowledged <= json.loads(current.body)["count"] <= acknowledged + 6
    assert store.swap("counter", token(), current.e_tag) is not None


@pytest.mark.concurrency
def test_processes_killed_while_creating_leave_whole_files_only(tmp_path):
    store = open_store(str(tmp_path), {})

    acknowledged = acknowledged_by_killed("creates", str(tmp_path), seed=12)

    files = store.list_level("created").files
    assert acknowledged <= len(files) <= acknowledged + 6
    assert all(is_whole(store.get(f"created/{file.name}").body) for file in files)


@pytest.mark.concurrency
def test_locks_of_a_killed_process_are_free_at_once(tmp_path):
    store = open_store(str(tmp_path), {})
    e_tag = store.create("counter", token())

    with subprocess.Popen([sys.executable, "-c", HOLD_FOREVER, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.read(1) == b"+"
        holder.kill()

    with store.exclusive("name"):
        assert store.swap("counter", token(), e_tag) is not None


def test_the_number_of_lock_files_is_bounded(tmp_path):
    store = open_store(str(tmp_path), {})
    for number in range(300):
        e_tag = store.create(f"m{number}", token())
        assert store.delete_if(f"m{number}", e_tag)
        with store.exclusive(f"m{number}"):
            pass

    assert len(list((tmp_path / LOCK_DIRECTORY).iterdir())) <= 2 * 64


def test_old_leftovers_of_killed_processes_are_deleted(tmp_path, monkeypatch):
    half_deleted = tmp_path / local.TRASH_DIRECTORY / "half"
    half_deleted.mkdir(parents=True)
    (half_deleted / "data").write_bytes(b"x")
    half_written = tmp_path / local.LOCK_DIRECTORY / "new-half"
    half_written.parent.mkdir()
    half_written.write_bytes(b"x")
    store = open_store(str(tmp_path), {})
    store.swap("lock", b"", "makes a lock file")

    store.delete_tree("young")
    assert half_deleted.exists()
    assert half_written.exists()

    monkeypatch.setattr(local, "_LEFTOVER_SECONDS", -60)
    store.delete_tree("old")
    assert not half_deleted.exists()
    assert [file.name[:4] for file in half_written.parent.iterdir()] == ["swap"]


def test_prune_removes_a_directory_only_while_it_is_empty(store):
    store.put("deep/down/file", b"x")
    store.prune("deep/down")
    assert store.get("deep/down/file") is not None

    store.delete("deep/down/file")
    store.prune("deep/down")
    assert store.list_names("") <= {local.LOCK_DIRECTORY}
    store.prune("never was")


def test_delete_removes_several_objects_and_ignores_missing_ones(store):
    for path in ("a", "b", "c"):
        store.put(path, b"x")

    store.delete("a", "absent", "b")

    assert {path for path in ("a", "b", "c") if store.get(path)} == {"c"}


@pytest.mark.parametrize("kind", ["dangling link", "link", "plain file"])
def test_delete_tree_of_a_directory_that_is_replaced_before_the_rename_leaves_nothing(tmp_path, monkeypatch, kind):
    """Another process replaces the directory after it was examined. Only the replacement itself is deleted."""
    store = open_store(str(tmp_path / "root"), {})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    store.put("t/file", b"1234")
    rename = os.rename

    def replace_then_rename(source, target, **folders):
        rename(tmp_path / "root" / "t", tmp_path / "aside")
        replacement = tmp_path / "root" / "t"
        if kind == "plain file":
            replacement.write_text("x")
        else:
            replacement.symlink_to(outside if kind == "link" else tmp_path / "nowhere")
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", replace_then_rename)
    assert store.delete_tree("t") == Amount(1)
    assert store.list_names("") == {local.LOCK_DIRECTORY, local.TRASH_DIRECTORY}
    assert store.list_names(local.TRASH_DIRECTORY) == set()
    assert (outside / "kept").read_text() == "kept"
