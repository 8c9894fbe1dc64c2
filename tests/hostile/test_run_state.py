"""Hostile state of pipeline runs: discarding a run deletes only what the run itself staged."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance_namespace.errors import LanceNamespaceError

from pennon.errors import InvalidTableStateError
from pennon.pipeline_runs.lease import _parse_owner
from pennon.pipeline_runs.report import RunReport
from pennon.pipeline_runs.run_state import RunState
from pennon.spark.address import Address
from pennon.spark.pipeline import Pipeline, pinned_reads, staged_notes
from pennon.spark.reading.pinned import pin
from pennon.spark.streaming.epochs import EpochLog
from pennon.spark.tables.run_files import RunDirectory
from pennon.store import open_store
from pennon.store.protocol import Blob
from tests.servers import CountingS3
from tests.support import MODES, create_table, describe_table, drop_table, fails, ipc, list_tables, register_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon import DirectoryNamespace
    from pennon.store import Store

PIPELINE = """
name: p
steps: {s: SELECT 1 AS x}
targets: [{table: t, from: s}]
"""
RUN = "r1"
STATE = f"__pennon/runs/p/{RUN}"
DEEP = b"[" * 100_000


@dataclass
class Home:
    """A catalog in a directory or bucket, and something beside it that is none of its business."""

    address: Address
    top: Store
    """The directory or bucket above the root, which is `root` in it."""

    @property
    def catalog(self) -> DirectoryNamespace:
        return self.address.directory()

    @property
    def root(self) -> Store:
        return self.catalog._store

    def put(self, path: str, body: bytes | dict[str, Any]) -> None:
        """Write an object below the root."""
        self.top.put(f"root/{path}", body if isinstance(body, bytes) else json.dumps(body).encode())

    def files(self, below: str = "") -> dict[str, bytes]:
        """Return every object, except the state of runs and internal files of stores."""
        found: dict[str, bytes] = {}
        level = self.top.list_level(below)
        for one in level.files:
            found[f"{below}/{one.name}"] = self.top.get(f"{below}/{one.name}".lstrip("/")).body
        for name in level.directories:
            if name not in {"__pennon", ".lance-trash", ".lance-locks", ".lance-guard"}:
                found |= self.files(f"{below}/{name}".lstrip("/"))
        return found

    def uri(self, path: str) -> str:
        return self.top.location(path)

    def discard(self) -> bool:
        return Pipeline.from_text(PIPELINE).discard(self.address, RUN)

    def stage(self, run: str | None = None, name: str = "t") -> tuple[str, dict[str, Any]]:
        """Write a new table as a run does before it publishes. Returns its location and its note."""
        run = run or uuid.uuid4().hex
        uri = self.catalog.new_table_location([name])
        options = self.address.storage_options
        dataset = lance.write_dataset(pa.table({"x": [1]}), uri, storage_options=options or None)
        (file,) = dataset.get_fragments()[0].metadata.files
        with RunDirectory(uri, lambda: options) as files:
            files.open_run(run)
            files.note(run, f"data/{file.path}")
        return uri, note(uri, run, files=[f"data/{file.path}"])

    def begin(self, target: Any = None, *, work: str = "target.0") -> None:
        """Write the state of a run that has staged its target."""
        self.put(f"{STATE}/run.json", {"format": 1, "fingerprint": "f", "reads": {}})
        if target is not None:
            self.put(f"{STATE}/done/{work}.json", target)


def note(uri: str, run: str | None = None, **changes: Any) -> dict[str, Any]:
    content = {
        "table": ["t"],
        "uri": uri,
        "read_version": 0,
        "preview": 1,
        "rows": 1,
        "bytes": 1,
        "files": [],
        "run": run or uuid.uuid4().hex,
        "new": True,
        "blobs": False,
        "empty": False,
        "evolution": None,
        "seconds": 0.1,
        "format": 1,
        "token": "x",
    }
    return {**content, **changes}


@pytest.fixture(scope="module")
def server() -> Iterator[CountingS3]:
    """Run an S3 server for all tests."""
    with CountingS3() as running:
        yield running


@pytest.fixture(params=["disk", pytest.param("bucket", marks=pytest.mark.s3)])
def place(request, tmp_path) -> tuple[str, dict[str, str]]:
    """Return an empty directory, on a disk or in a bucket, and the options that open it."""
    if request.param == "disk":
        return str(tmp_path), {}
    endpoint = request.getfixturevalue("server").endpoint
    return endpoint.uri(uuid.uuid4().hex), endpoint.storage_options()


def open_home(place: tuple[str, dict[str, str]], mode: str) -> Home:
    uri, options = place
    storage = {f"storage.{key}": value for key, value in options.items()}
    address = Address.of("dir", {"root": f"{uri.rstrip('/')}/root", **MODES[mode], **storage})
    home = Home(address, open_store(uri, options))
    home.top.put("outside/precious.txt", b"precious")
    home.top.put("outside/_pennon/run/..!precious.txt", b"1")
    home.top.put("outside/data/a.lance", b"precious")
    return home


@pytest.fixture(params=["compatibility", "v1", "v2"])
def home(request, place) -> Home:
    return open_home(place, request.param)


@pytest.fixture
def one_home(place) -> Home:
    return open_home(place, "compatibility")


def require_kept(home: Home, *texts: str) -> None:
    """Discard the run, and require that nothing changed and that the reason is reported."""
    tables = list_tables(home.catalog)
    before = home.files()
    with pytest.raises(InvalidTableStateError) as told:
        home.discard()
    assert home.files() == before
    assert list_tables(home.catalog) == tables
    for text in ("kept", *texts):
        assert text in str(told.value)


def test_what_a_run_staged_is_removed(home):
    before = home.files()
    _, staged = home.stage()
    home.begin(staged)
    assert home.files() != before
    assert home.discard() is True
    assert home.files() == before
    assert home.discard() is False


def test_what_a_run_staged_is_removed_by_its_intent_alone(home):
    before = home.files()
    run = uuid.uuid4().hex
    home.stage(run)
    home.begin({"run": run, "table": ["t"]}, work="staging.0")
    assert home.discard() is True
    assert home.files() == before


def test_discard_deletes_only_the_location_of_a_new_table(home):
    create_table(home.catalog, "live")
    home.put("raw/file.csv", b"a,b")
    root = home.uri("root")
    inside = [f"{root}{path}" for path in ("", "/__manifest", "/raw", "/__pennon", "/../outside", "/x.lance/..")]
    for uri in (home.uri("outside"), *inside):
        home.begin(note(uri))
        require_kept(home, STATE)


def test_a_foreign_address_is_not_even_opened(one_home):
    outside = one_home.uri("outside")
    for uri in ("s3://elsewhere/x", "memory://x", "https://h/x", "\0", f"file://{outside}", f"{outside}/"):
        one_home.begin(note(uri))
        require_kept(one_home)


def test_live_tables_are_kept(home):
    create_table(home.catalog, "live")
    location = describe_table(home.catalog, "live").location
    for run in (uuid.uuid4().hex, "run"):
        home.begin(note(location, run))
        require_kept(home, location)


def test_a_table_that_took_the_place_of_a_staged_one_is_kept(place):
    home = open_home(place, "v2")
    uri, staged = home.stage()
    register_table(home.catalog, "other", location=uri.rpartition("/")[2])
    home.begin(staged)
    require_kept(home, "other")
    # A client without a manifest finds the row as well.
    plain = open_home(place, "v1")
    require_kept(plain, "other")
    drop_table(home.catalog, "other")
    require_kept(home, uri)


def test_a_place_with_more_than_a_new_table_is_kept(one_home):
    uri, staged = one_home.stage()
    folder = uri.rpartition("/")[2]
    one_home.put(f"{folder}/inner.lance/_versions/1.manifest", b"x")
    one_home.begin(staged)
    require_kept(one_home, "inner.lance")


def test_what_another_run_staged_is_kept(one_home):
    _, staged = one_home.stage()
    one_home.begin({**staged, "run": uuid.uuid4().hex})
    require_kept(one_home, "nothing in it proves that this run wrote it")


def test_the_place_of_another_name_is_kept(one_home):
    uri, staged = one_home.stage(name="my_t")
    one_home.begin({"run": staged["run"], "table": ["t"]}, work="staging.0")
    require_kept(one_home, uri)
    one_home.begin(staged)
    require_kept(one_home, uri)


def test_notes_that_lead_out_of_a_table_delete_nothing(home):
    create_table(home.catalog, "t")
    location = describe_table(home.catalog, "t").location
    folder = location.rpartition("/")[2]
    for name in ("..!..!outside!precious.txt", "..!..!..!outside!precious.txt", "..!live", "x!..!y"):
        home.put(f"{folder}/_pennon/run/{name}", b"1")
        home.begin(note(location, "run", new=False, read_version=1))
        before = home.files()
        assert home.discard() is True
        assert home.files() == before


def test_notes_that_name_files_of_versions_delete_none(home):
    create_table(home.catalog, "t")
    location = describe_table(home.catalog, "t").location
    folder = location.rpartition("/")[2]
    versions = [name for name in home.root.list_names(f"{folder}/_versions") if name.endswith(".manifest")]
    data = sorted(home.root.list_names(f"{folder}/data"))
    before = home.files()
    for path in (*(f"_versions!{name}" for name in versions), *(f"data!{name}" for name in data)):
        home.put(f"{folder}/_pennon/run/{path}", b"1")
    home.put(f"{folder}/data/stray.lance", b"x")
    home.put(f"{folder}/_pennon/run/data!stray.lance", b"1")
    home.begin(note(location, "run", new=False, read_version=1))
    assert home.discard() is True
    left = {path: body for path, body in home.files().items() if "/_pennon/run/_versions" not in path}
    assert left == before
    assert lance.dataset(location, storage_options=home.address.storage_options or None).count_rows() == 3


def test_a_foreign_address_of_a_table_that_is_there_is_not_opened(home):
    create_table(home.catalog, "t")
    home.begin(note(home.uri("outside"), "run", new=False, read_version=1, blobs=True))
    before = home.files()
    assert home.discard() is True
    assert home.files() == before


BAD = {
    "table": ["u", [], "t", None, ["t", 1]],
    "uri": [1, None, ["x"]],
    "run": ["../../x", "a/b", "", 1, None, "x" * 1000, "."],
    "new": ["true", 1, None],
    "read_version": [-1, 1.5, "1", True, None, 1 << 70],
    "preview": ["1", None, -1],
    "rows": ["x", -1],
    "seconds": ["x", None],
    "files": ["data/x.lance", ["../../outside/precious.txt"], ["data/../x.lance"], [1], None, ["/etc/passwd"]],
    "evolution": [1, {}, {"schema": "!", "base": "", "fragments": []}],
}


def test_invalid_field_of_a_note_deletes_nothing(tmp_path):
    one_home = open_home((str(tmp_path), {}), "compatibility")
    _, staged = one_home.stage()
    for field, values in BAD.items():
        for value in values:
            one_home.begin({**staged, field: value})
            require_kept(one_home)
        if field != "evolution":
            one_home.begin({key: value for key, value in staged.items() if key != field})
            require_kept(one_home)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"1", b"null", b"\xff\xfe", DEEP, b'{"a": 1e999}', b'"' + b"9" * 5000]
)
def test_invalid_note_deletes_nothing(one_home, body):
    one_home.stage()
    one_home.begin()
    for work in ("target.0", "staging.0"):
        one_home.put(f"{STATE}/done/{work}.json", body)
        with pytest.raises(LanceNamespaceError):
            one_home.discard()
        one_home.root.delete(f"{STATE}/done/{work}.json")
    before = one_home.files()
    one_home.put(f"{STATE}/run.json", body)
    with suppress(LanceNamespaceError):
        one_home.discard()
    assert one_home.files() == before


def test_note_of_unknown_work_deletes_nothing(one_home):
    _, staged = one_home.stage()
    for work in ("target.1", "target.", "target.x", "target.-1", "target.00", "staging.7"):
        one_home.begin(staged, work=work)
        require_kept(one_home, work)
        one_home.root.delete(f"{STATE}/done/{work}.json")


def test_one_invalid_note_does_not_protect_the_rest(one_home):
    before = one_home.files()
    _, staged = one_home.stage()
    one_home.begin(staged)
    one_home.put(f"{STATE}/done/target.9.json", b"{")
    with fails(19, "target.9.json"):
        one_home.discard()
    assert one_home.files() == before
    one_home.root.delete(f"{STATE}/done/target.9.json")
    assert one_home.discard() is True


def test_a_run_is_not_taken_up_at_the_place_of_a_table(home):
    create_table(home.catalog, "live")
    location = describe_table(home.catalog, "live").location
    before = home.files()
    state = RunState(home.root, "p", RUN)
    for uri in (location, home.uri("outside"), home.uri("root/__manifest")):
        with fails(19, "is not a new location of"):
            staged_notes.restore_write(home.address, staged_notes.parse_note(state, 0, note(uri), ("t",)))
    assert home.files() == before
    uri, staged = home.stage()
    restored = staged_notes.restore_write(home.address, staged_notes.parse_note(state, 0, staged, ("t",)))
    assert restored.destination.uri == uri


def test_a_run_reads_no_table_but_where_the_catalog_has_it(home):
    create_table(home.catalog, "t")
    lance.write_dataset(
        pa.table({"x": [9]}), home.uri("outside/t"), storage_options=home.address.storage_options or None
    )
    pinned, dataset = pin(home.address, ("t",))
    made = str(dataset.get_version()["timestamp"])
    good = {"table": ["t"], "version": 1, "branch": None, "uri": pinned.uri, "made": made, "travel": None}
    content = {"sources": {"s": good}, "tables": [good], "names": [[["t"], ["t"]]]}
    assert pinned_reads.restore_reads(content, home.address)[0].sources["s"].open().count_rows() == 3
    bad = [{"uri": home.uri("outside/t")}, {"uri": home.uri("root/__manifest")}, {"uri": 1}, {"version": "1"}]
    bad += [
        {"table": "t"},
        {"table": []},
        {"branch": 1},
        {"version": -1},
        {"table": ["gone"], "uri": home.uri("outside/t")},
    ]
    for change in bad:
        for key in ("sources", "tables"):
            one = {**good, **change}
            with fails(19):
                pinned_reads.restore_reads({**content, key: {"s": one} if key == "sources" else [one]}, home.address)
    for whole in (None, [], 1, {}, {**content, "names": 1}, {**content, "sources": [1]}):
        with fails(19):
            pinned_reads.restore_reads(whole, home.address)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", DEEP, b"[1]", b"7", b'{"host": 1}', b'{"host": "h", "machine": "m", "token": "t", "process": 1e999}']
    + [b'{"host": "h", "machine": "m", "token": "t", "process": %s}' % one for one in (b"-1", b"0", b"true", b'"1"')]
    + [b'{"host": "h", "machine": "m", "token": "t", "process": 99999999999999999999999}'],
)
def test_unreadable_lease_has_no_owner(body):
    assert _parse_owner(Blob(body, "e")) is None


def test_step_results_are_in_the_directory_of_the_run(tmp_path):
    state = RunState(open_store(str(tmp_path), {}), "p", RUN)
    good = state.data_path("step.s")
    assert state.require_data_path("step.s", good) == good
    for path in (
        None,
        1,
        "",
        "../x",
        f"{STATE}/data/../../x",
        good + "/..",
        f"{STATE}/data/step.s-",
        "/etc",
        good[:-1],
    ):
        with fails(19, "step.s"):
            state.require_data_path("step.s", path)


@pytest.mark.parametrize(
    "change", [{"pipeline": 1}, {"checks": 1}, {"checks": [1]}, {"checks": [{}]}, {"seconds": "x"}]
)
def test_invalid_report_is_rejected(tmp_path, change):
    state = RunState(open_store(str(tmp_path), {}), "p", RUN)
    report = RunReport("p", RUN, "published", "atomic", "now", 1.0, resumed=False).document()
    assert state.published_report(report).run_id == RUN
    with fails(19, "outcome.json"):
        state.published_report({**report, **change})


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", DEEP, b'{"query": "q", "epoch": 1e999, "version": 1}', b'{"query": 1, "epoch": 1}']
)
def test_the_state_of_a_stream_that_cannot_be_read_is_refused(one_home, body):
    from pennon.spark.tables.destination import locate_table

    create_table(one_home.catalog, "t", data=ipc({"x": [1]}))
    destination = locate_table(one_home.address, ("t",))
    with destination.files() as files:
        epochs = EpochLog(files, destination, "s")
        assert epochs.last() is None
        files.write(epochs._path, body)
        with fails(19, "cannot be read"):
            epochs.last()


_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["", "..", "/", "t", "a/../..", "data/../../x", "9" * 5000, "{outside}", "{live}", "{root}"]),
)
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
_NOTE_KEYS = sorted(note("", "x"))
_changes = st.dictionaries(st.sampled_from(_NOTE_KEYS), _values, max_size=4)
_notes = st.one_of(
    st.builds(
        lambda uri, changes: {**note(uri, "0" * 32), **changes}, st.sampled_from(["{live}", "{outside}"]), _changes
    ),
    _values,
)
_STATE_FILES = ("run.json", "outcome.json", "lease.json", "done/target.0.json", "done/staging.json", "done/s.json")
_state_files = st.dictionaries(st.sampled_from(_STATE_FILES), _notes, min_size=1, max_size=4)


def fuzz_run_state(home: Home, settings_of_run: settings) -> None:
    """Write random state of a run and discard the run: tables and files beside the root must not change."""
    create_table(home.catalog, "live", data=ipc({"x": [1]}))
    live = describe_table(home.catalog, "live").location
    home.begin()
    before = home.files()

    @settings_of_run
    @given(state=_state_files)
    def check(state) -> None:
        home.begin()
        for name, content in state.items():
            text = json.dumps(content).replace("{live}", live).replace("{outside}", home.uri("outside"))
            home.put(f"{STATE}/{name}", text.replace("{root}", home.uri("root")).encode())
        with suppress(LanceNamespaceError):
            home.discard()
        assert home.files() == before
        home.top.delete_tree(f"root/{STATE}")

    check()


def test_random_state_of_a_run_deletes_nothing(one_home):
    fuzz_run_state(one_home, settings(max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck)))


@pytest.mark.soak
def test_much_random_state_of_a_run_deletes_nothing(home):
    fuzz_run_state(home, settings(max_examples=2_000, suppress_health_check=list(HealthCheck), database=None))


def _changed(base: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Change some fields of a document, and remove others."""
    values = st.one_of(_values, st.integers(0, 1 << 64))
    return st.builds(
        lambda changes, removed: {key: value for key, value in {**base, **changes}.items() if key not in removed},
        st.dictionaries(st.sampled_from(sorted(base)), values, max_size=2),
        st.sets(st.sampled_from(sorted(base)), max_size=1),
    )


def fuzz_resumed_state(home: Home, settings_of_run: settings) -> None:
    """Read random state as a run does that is resumed: only errors of the SDK are raised, and nothing is changed."""
    create_table(home.catalog, "live")
    state = RunState(home.root, "p", RUN)
    pinned, dataset = pin(home.address, ("live",))
    made = str(dataset.get_version()["timestamp"])
    read = {"table": ["live"], "version": 1, "branch": None, "uri": pinned.uri, "made": made, "travel": None}
    content = {"sources": {"s": read}, "tables": [read], "names": [[["live"], ["live"]]]}
    reads = st.one_of(_changed(content), st.builds(lambda one: {**content, "tables": [one]}, _changed(read)))
    _, staged = home.stage()
    report = RunReport("p", RUN, "published", "atomic", "now", 1.0, resumed=False).document()
    before = home.files()

    @settings_of_run
    @given(read=reads, note=_changed(staged), outcome=_changed(report))
    def check(read, note, outcome) -> None:
        with suppress(LanceNamespaceError):
            pinned_reads.restore_reads(read, home.address)
        with suppress(LanceNamespaceError):
            staged_notes.restore_write(home.address, staged_notes.parse_note(state, 0, note, ("t",)))
        with suppress(LanceNamespaceError):
            state.published_report(outcome)

    check()
    assert home.files() == before


def test_resuming_with_random_state_raises_errors_of_the_sdk_alone(one_home):
    fuzz_resumed_state(one_home, settings(max_examples=100, derandomize=True, suppress_health_check=list(HealthCheck)))


@pytest.mark.soak
def test_resuming_with_much_random_state_raises_errors_of_the_sdk_alone(home):
    fuzz_resumed_state(home, settings(max_examples=5_000, suppress_health_check=list(HealthCheck), database=None))


def test_a_note_without_an_evolution_is_restored(one_home):
    _, staged = one_home.stage()
    del staged["evolution"]
    state = RunState(one_home.root, "p", RUN)
    parsed = staged_notes.parse_note(state, 0, staged, ("t",))
    assert staged_notes.restore_write(one_home.address, parsed).evolution is None
