"""Commits to one table through the catalog, at most one for each job. Needs Lance, but no Spark."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from pennon.spark.address import Address
from pennon.spark.tables import job_commits
from pennon.spark.tables.destination import Destination, locate_table
from tests.servers import CountingS3
from tests.support import MODES, create_namespace, create_table, drop_table, fails, ipc

PLACES = {
    "v1": ("v1", ["t"], False),
    "compatibility": ("compatibility", ["t"], False),
    "v2": ("v2", ["a", "t"], False),
    "managed": ("compatibility", ["a", "t"], True),
}


@pytest.fixture(scope="session")
def s3():
    with CountingS3() as server:
        yield server


class Place:
    """A catalog with one table of one column, x."""

    def __init__(self, properties, mode, identifier, *, managed):
        self.address = Address.of("dir", {**properties, **MODES[mode]})
        self.catalog = self.address.connect()
        self.identifier = tuple(identifier)
        for depth in range(1, len(identifier)):
            create_namespace(self.catalog, *identifier[:depth])
        if managed:
            self.catalog.enable_table_version_management()
        create_table(self.catalog, *identifier, data=ipc({"x": [1]}))

    @property
    def destination(self) -> Destination:
        return locate_table(self.address, self.identifier)

    def append(self, *rows: int) -> LanceOperation.Append:
        where = self.destination
        data = pa.table({"x": list(rows)})
        return LanceOperation.Append(write_fragments(data, where.uri, storage_options=where.options))

    def commit(self, operation, read_version=1, **options):
        return job_commits.commit(self.address, self.identifier, operation, read_version=read_version, **options)

    def rows(self) -> list[int]:
        return sorted(self.destination.latest().to_table()["x"].to_pylist())


def _place(request, tmp_path, store, name):
    mode, identifier, managed = PLACES[name]
    properties = {"root": str(tmp_path / "root")}
    if store == "s3":
        endpoint = request.getfixturevalue("s3").endpoint
        properties = {"root": endpoint.uri(f"committing-{tmp_path.name}"), **endpoint.properties()}
    return Place(properties, mode, identifier, managed=managed)


@pytest.fixture(
    params=[
        *[pytest.param(("local", name), id=f"local-{name}") for name in PLACES],
        *[pytest.param(("s3", name), id=f"s3-{name}", marks=pytest.mark.s3) for name in ("compatibility", "managed")],
    ]
)
def place(request, tmp_path):
    return _place(request, tmp_path, *request.param)


@pytest.fixture(params=["compatibility", "managed"])
def near(request, tmp_path):
    return _place(request, tmp_path, "local", request.param)


def test_commit_appends_and_names_the_job_in_the_transaction(place):
    done = place.commit(place.append(2, 3), job_id="nightly 7")
    assert (done.version, done.already) == (2, False)
    assert place.rows() == [1, 2, 3]
    made = place.destination.latest().read_transaction(2)
    assert made.transaction_properties == {"pennon.job": "nightly 7"}


def test_second_commit_with_the_same_job_returns_the_first(place):
    place.commit(place.append(2), job_id="j")
    place.commit(place.append(3))
    again = place.commit(place.append(2), job_id="j")
    assert (again.version, again.already) == (2, True)
    assert place.rows() == [1, 2, 3]
    other = place.commit(place.append(4), job_id="j2", read_version=3)
    assert (other.version, other.already) == (4, False)


def test_append_is_rebased_on_concurrent_commits(place):
    first, second = place.append(2), place.append(3)
    assert place.commit(first).version == 2
    assert place.commit(second, job_id="late").version == 3
    assert place.rows() == [1, 2, 3]


def test_append_during_an_overwrite_raises_concurrent_modification(place):
    late = place.append(2)
    schema = pa.schema([("x", pa.int64())])
    place.commit(LanceOperation.Overwrite(schema, place.append(9).fragments))
    for job_id in (None, "j"):
        with fails(14, naming="t'"):
            place.commit(late, job_id=job_id)
    assert place.rows() == [9]


def test_commit_to_dropped_table_raises_not_found(near):
    operation = near.append(2)
    drop_table(near.catalog, *near.identifier)
    for job_id in (None, "j"):
        with fails(4, naming="t'"):
            near.commit(operation, job_id=job_id)


def test_commit_to_recreated_table_raises_concurrent_modification(tmp_path):
    near = _place(None, tmp_path, "local", "v2")
    operation, uri = near.append(2), near.destination.uri
    drop_table(near.catalog, *near.identifier)
    create_table(near.catalog, *near.identifier, data=ipc({"x": [7]}))
    with fails(14, naming="created again"):
        near.commit(operation, expected_uri=uri)
    assert near.rows() == [7]


@pytest.mark.parametrize("bad", ["", "x" * 513, 7])
def test_bad_job_id_raises_invalid_input_and_commits_nothing(near, bad):
    with fails(13):
        near.commit(near.append(2), job_id=bad)
    assert near.rows() == [1]


def test_commit_with_lost_response_is_found(place, monkeypatch):
    real = LanceDataset.commit

    def answer_lost(*arguments, **options):
        real(*arguments, **options)
        raise OSError("connection reset by peer")

    monkeypatch.setattr(LanceDataset, "commit", answer_lost)
    done = place.commit(place.append(2))
    assert (done.version, done.already) == (2, False)
    assert place.rows() == [1, 2]


def test_error_before_the_commit_is_raised(near, monkeypatch):
    def unreachable(*_, **__):
        raise OSError("connection refused")

    operation = near.append(2)
    monkeypatch.setattr(LanceDataset, "commit", unreachable)
    with fails(18, naming="connection refused"):
        near.commit(operation, job_id="j")
    assert near.rows() == [1]


def test_job_without_a_commit_is_not_done(place):
    """The file of the transaction exists, as after a crash just before the commit, but no version."""
    where = place.destination
    leftover = job_commits.create_transaction(place.append(5), 1, "j")
    LanceDataset.commit(where.uri, leftover, storage_options=where.options, detached=True)
    assert job_commits.find_job(place.address, place.identifier, "j") is None
    done = place.commit(place.append(2), job_id="j")
    assert (done.version, done.already) == (2, False)
    assert place.rows() == [1, 2]


def test_concurrent_runs_of_a_job_commit_once(near, monkeypatch):
    """Both runs search for the job before either of them commits."""
    both = threading.Barrier(2)
    real = job_commits.find_job_in

    def looked(*arguments):
        found = real(*arguments)
        both.wait(30)
        return found

    monkeypatch.setattr(job_commits, "find_job_in", looked)
    operations = [near.append(2), near.append(2)]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda operation: near.commit(operation, job_id="twin"), operations))
    assert near.rows() == [1, 2]
    assert sorted(one.already for one in done) == [False, True]
    assert {one.version for one in done} == {2}
    with near.destination.files() as files:
        assert not [name for name in files.names("_versions") if ".manifest-" in name]


@pytest.mark.s3
def test_finding_a_job_costs_the_same_for_any_history(s3, tmp_path, request):
    place = _place(request, tmp_path, "s3", "compatibility")
    with s3.count() as short:
        assert job_commits.find_job(place.address, place.identifier, "j") is None
    for number in range(5):
        place.commit(place.append(number))
    with s3.count() as long:
        assert job_commits.find_job(place.address, place.identifier, "j") is None
    assert long.total == short.total, long.summary()


def test_commit_to_branch_leaves_main_unchanged(near):
    main = lance.dataset(near.destination.uri)
    main.create_branch("dev")
    branch = locate_table(near.address, near.identifier, "dev")
    data = write_fragments(pa.table({"x": [2]}), branch.latest())
    done = near.commit(LanceOperation.Append(data), branch="dev", job_id="j")
    assert branch.latest().version == done.version
    assert sorted(branch.latest().to_table()["x"].to_pylist()) == [1, 2]
    assert near.rows() == [1]
    assert job_commits.find_job(near.address, near.identifier, "j", "dev") is not None
    assert job_commits.find_job(near.address, near.identifier, "j") is None
    with fails(22, naming="nope"):
        near.commit(LanceOperation.Append(data), branch="nope")
