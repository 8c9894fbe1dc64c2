"""A healthy catalog has no findings, on every store and in every mode, and is not changed."""

from __future__ import annotations

from functools import partial

import pytest

from pennon import DirectoryNamespace, LakeCatalog
from pennon.directory.manifest import TABLE, Row
from tests.doctor.patients import shown
from tests.support import Root, wait_for_background_work

S3 = pytest.param("bucket", marks=pytest.mark.s3)


@pytest.mark.parametrize("store", ["disk", S3])
def test_healthy_catalog_has_no_findings(open_patient, kind, store):
    patient = open_patient(kind, store)
    wait_for_background_work()
    before = patient.tables()
    for fix in (False, True):
        report = patient.examine(fix=fix, deep=True, probe=True)
        assert shown(report.findings) == []
        assert report.is_healthy
        assert report.repaired == []
    assert {check.name for check in report.checks if check.skipped} <= {"manifest", "rows", "versions"}
    assert report.figures["tables"] == len(patient.lake.tables())
    assert all(promise.kept for promise in report.promises)
    assert len(report.promises) >= 10
    assert patient.tables() == before


def test_examination_changes_no_file(patient):
    wait_for_background_work()
    before = patient.files()
    top = sorted(path.name for path in patient.path.iterdir())
    assert patient.examine(deep=True, probe=True).is_healthy
    assert patient.files() == before
    assert sorted(path.name for path in patient.path.iterdir()) == top


def test_another_client_finds_the_same(open_patient):
    patient = open_patient("compatibility")
    with DirectoryNamespace(**patient.root.properties) as namespace:
        report = LakeCatalog(namespace, progress=False).doctor(deep=True)
    assert report.is_healthy
    assert "compat" not in report.catalog
    assert patient.root.uri in report.catalog


def test_every_check_has_a_title_and_takes_time(open_patient):
    titles = []
    report = open_patient("managed").lake.doctor(progress=lambda title, count: titles.append((title, count)))
    assert [title for title, _ in titles] == [check.title for check in report.checks]
    assert {count for _, count in titles} == {len(report.checks)}
    assert all(check.seconds >= 0 for check in report.checks)


def test_empty_and_missing_roots(tmp_path):
    with DirectoryNamespace(root=str(tmp_path / "nothing")) as namespace:
        report = LakeCatalog(namespace, progress=False).doctor()
        assert [(one.severity, "there is no directory" in one.problem) for one in report.findings] == [("error", True)]
        assert all(check.skipped for check in report.checks[1:])
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "empty").mkdir()
    with DirectoryNamespace(root=str(tmp_path / "empty")) as namespace:
        report = LakeCatalog(namespace, progress=False).doctor()
        assert shown(report.findings) == [("note", "/")]
        assert report.is_healthy
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.s3
def test_missing_bucket_is_one_error(s3):
    options = {f"storage.{key}": value for key, value in s3.endpoint.storage_options().items()}
    with DirectoryNamespace(root="s3://no-such-bucket/root", **options) as namespace:
        report = LakeCatalog(namespace, progress=False).doctor()
    assert [one.severity for one in report.findings] == ["error"]
    assert all(check.skipped for check in report.checks[1:])


@pytest.mark.s3
@pytest.mark.parametrize("mode", ["v1", "v2", "compatibility"])
def test_requests_do_not_grow_with_the_number_of_tables(s3, mode, open_namespace):
    counts = {}
    for number in (10, 1_500):
        prefix = f"many-{mode}-{number}"
        suffix = "_x" if mode == "v2" else ".lance"
        names = [f"{one:08x}{suffix}" for one in range(number)]
        s3.fill(prefix, {f"{name}/_versions/1.manifest": b"x" for name in names})
        namespace = open_namespace(Root(s3.endpoint.uri(prefix), s3.endpoint.storage_options()), mode)
        if mode != "v1":
            rows = [Row(f"t{one}", TABLE, name) for one, name in enumerate(names)]
            namespace.catalog.manifest.mutate(partial(put_all, rows))
        wait_for_background_work()
        with s3.count() as count:
            assert LakeCatalog(namespace, progress=False).doctor(probe=False).is_healthy
        counts[number] = count.total
    # A page of a listing has 1,000 entries, and the root is listed twice.
    assert counts[1_500] - counts[10] <= 2, counts
    assert counts[10] <= 16, counts


def put_all(rows, draft):
    for row in rows:
        draft.put(row)
