"""Each kind of damage is planted with real files, found, and repaired if that is safe; nothing else is touched."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from pennon import DirectoryNamespace, LakeCatalog
from pennon.directory import layout
from pennon.directory.manifest import NAMESPACE, Row, upkeep
from pennon.directory.manifest_tables import trash
from pennon.directory.markers.marker import PURGING, REVIVING, Marker
from pennon.store import local
from pennon.store.probing import PROBE_PREFIX
from tests.directory.on_disk import manifest
from tests.doctor.patients import ROWS, shown
from tests.support import create_table, drop_table, ipc, wait_for_background_work
from tests.versions.shelf import unfinished

WITH_MANIFEST = ["v2", "compatibility", "managed"]
WITH_ROOT_TABLES = ["v1", "compatibility"]
LONG_AGO = time.time() - 40 * 86_400


def age(path: Path) -> None:
    """Date a directory and everything in it long ago."""
    for inner in [path, *path.rglob("*")]:
        os.utime(inner, (LONG_AGO, LONG_AGO))


def add_rows(patient, *rows: dict) -> None:
    """Append rows to the manifest with plain Lance, without any check."""
    schema = manifest(patient.namespace).schema
    lance.write_dataset(pa.Table.from_pylist(list(rows), schema), manifest(patient.namespace).uri, mode="append")


def location(patient, name: str) -> Path:
    """Return the directory of a table."""
    return Path(patient.lake[name].location)


def heal(patient, *expected: tuple[str, str], but: tuple[str, ...] = ()) -> None:
    """Find exactly this damage, repair it, and check that the catalog is healthy and nothing else has changed."""
    tables, before = patient.tables(), patient.files(but=but)
    found = patient.examine()
    assert sorted(shown(found.findings)) == sorted(expected)
    assert all(one.fixable for one in found.findings)
    assert patient.files(but=but) == before
    report = patient.examine(fix=True)
    assert sorted(shown(report.repaired)) == sorted(expected)
    assert shown(report.findings) == []
    assert report.is_healthy
    assert shown(patient.examine(deep=True).findings) == []
    assert patient.tables() == tables
    assert patient.files(but=but) == before


def keep(patient, *expected: tuple[str, str], advice: str = "", command: str | None = None) -> None:
    """Find exactly this damage, and check that a repair leaves it as it is and touches nothing."""
    before = patient.files()
    for fix in (False, True):
        report = patient.examine(fix=fix)
        assert sorted(shown(report.findings)) == sorted(expected)
        assert report.repaired == []
        assert report.is_healthy == all(severity == "note" for severity, _ in expected)
        assert all(one.advice and not one.fixable for one in report.findings)
        assert all(advice in one.advice for one in report.findings)
        assert command is None or command in [one.command for one in report.findings]
        assert patient.files() == before


# Leftovers


def test_old_probes_are_deleted_and_young_ones_kept(patient):
    old, young = (patient.path / f"{PROBE_PREFIX}-{uuid.uuid4().hex}" for _ in range(2))
    for probe in (old, young):
        (probe / "listed").mkdir(parents=True)
        (probe / "listed" / "a").write_bytes(b"a")
    age(old)
    heal(patient, ("warning", old.name), but=(old.name,))
    assert not old.exists()
    assert (young / "listed" / "a").exists()


def test_half_deleted_directories_and_half_written_files_are_deleted(patient, monkeypatch):
    create_table(patient.namespace, "extra", data=ipc(ROWS))
    doomed = patient.path / local.TRASH_DIRECTORY / uuid.uuid4().hex
    shutil.copytree(location(patient, "extra"), doomed)
    part = patient.path / local.LOCK_DIRECTORY / f"new-{uuid.uuid4().hex}"
    part.write_bytes(b"part")
    assert patient.examine().is_healthy, "they may belong to a process that runs"
    monkeypatch.setattr(local, "_LEFTOVER_SECONDS", -60)
    heal(
        patient,
        ("warning", f"{local.TRASH_DIRECTORY}/{doomed.name}"),
        ("warning", f"{local.LOCK_DIRECTORY}/{part.name}"),
    )
    assert not doomed.exists()
    assert not part.exists()


@pytest.mark.s3
def test_probe_left_in_a_bucket_is_deleted_when_it_is_old(open_patient, monkeypatch):
    from pennon.doctor import store_checks

    patient = open_patient("v2", "bucket")
    store = patient.namespace.catalog.store
    names = [f"{PROBE_PREFIX}-{uuid.uuid4().hex}" for _ in range(2)]
    store.put(f"{names[0]}/listed/a", b"a")
    store.put(f"{names[0]}/written", b"a")
    store.put(names[1], b"as older versions wrote it")
    assert patient.examine().is_healthy
    monkeypatch.setattr(store_checks, "_OLD_SECONDS", -60)
    report = patient.examine(fix=True)
    assert sorted(shown(report.repaired)) == sorted([("warning", name) for name in names])
    assert report.is_healthy
    assert not any(name.startswith(PROBE_PREFIX) for name in store.list_names(""))
    assert store.size(names[1]) is None


# The manifest


def test_upkeep_that_is_overdue_is_run(open_patient, monkeypatch):
    patient = open_patient("v2")
    wait_for_background_work()
    with monkeypatch.context() as patch:
        patch.setattr(upkeep.Upkeep, "record_commit", lambda *_: None)
        rows = [Row(f"many{number}", NAMESPACE) for number in range(upkeep.FEW_ROWS + 200)]
        patient.namespace.catalog.manifest.mutate(lambda draft: [draft.put(row) for row in rows])
        for number in range(upkeep.OVERDUE_VERSIONS + upkeep.KEPT_VERSIONS + 2):
            patient.lake.create_namespace(f"one{number}")
    tables, names = patient.tables(), patient.lake.namespaces()
    (found,) = patient.examine().findings
    assert (found.severity, found.subject, found.fixable) == ("warning", "__manifest", True)
    assert "old versions are not removed" in found.problem
    assert "object_id_btree" in found.problem or "are not indexed" in found.problem
    report = patient.examine(fix=True)
    assert shown(report.repaired) == [("warning", "__manifest")]
    assert report.is_healthy
    assert report.figures["manifest_versions"] <= upkeep.KEPT_VERSIONS + 8
    assert (patient.tables(), patient.lake.namespaces()) == (tables, names)


@pytest.mark.parametrize("kind", WITH_MANIFEST)
def test_unreadable_manifest_is_an_error_with_the_version_that_can_be_read(patient):
    wait_for_background_work()
    version = manifest(patient.namespace).version
    names = patient.lake.namespaces()
    patient.lake.create_namespace("late")
    wait_for_background_work()
    dataset = manifest(patient.namespace)
    (path,) = [
        file.path
        for fragment in dataset.get_fragments()
        for file in fragment.data_files()
        if file.path
        not in {
            file.path
            for fragment in dataset.checkout_version(version).get_fragments()
            for file in fragment.data_files()
        }
    ]
    Path(dataset.uri, "data", path).write_bytes(b"damaged")
    before = patient.files()
    with DirectoryNamespace(**patient.root.properties) as namespace:
        report = LakeCatalog(namespace, progress=False).doctor(fix=True, probe=False)
    (found,) = report.findings
    assert (found.severity, found.subject) == ("error", "__manifest")
    assert f"version {version} of it can be read" in found.advice
    assert patient.files() == before
    assert {check.name for check in report.checks if check.skipped} >= {"rows", "directories", "trash", "versions"}
    # The advice works.
    lance.dataset(str(patient.path / "__manifest"), version=version).restore()
    with DirectoryNamespace(**patient.root.properties) as namespace:
        assert LakeCatalog(namespace, progress=False).namespaces() == names


def test_manifest_of_a_newer_client_is_not_written(open_patient):
    patient = open_patient("v2")
    lance.dataset(manifest(patient.namespace).uri).update_metadata(
        {"lance.namespace.manifest.writer_feature_flags": str(1 << 30)}
    )
    keep(patient, ("warning", "__manifest"), advice="upgrade")


# Rows


@pytest.mark.parametrize("kind", WITH_MANIFEST)
def test_rows_that_cannot_be_used_are_reported_and_kept(patient):
    kept = location(patient, "a.kept").name
    add_rows(
        patient,
        {"object_id": "a$outside", "object_type": "table", "location": "../victim"},
        {"object_id": "lost$table", "object_type": "table", "location": kept.replace("kept", "lost")},
        {"object_id": "a$twin", "object_type": "table", "location": kept},
        {"object_id": "a$bad", "object_type": "namespace", "metadata": "{not json"},
        {"object_id": "a$odd", "object_type": "something"},
    )
    shutil.copytree(patient.path / kept, patient.path / kept.replace("kept", "lost"))
    keep(
        patient,
        ("warning", "a$outside"),
        ("warning", "lost$table"),
        ("warning", kept),
        ("warning", "a$bad"),
        ("warning", "a$odd"),
        command="pennon create-namespace lost --parents",
    )
    patient.lake.create_namespace("lost")
    assert "lost.table" in patient.lake.tables()
    assert "lost$table" not in [one.subject for one in patient.examine().findings]


@pytest.mark.parametrize("kind", WITH_MANIFEST)
def test_table_without_its_directory_is_an_error_until_it_is_dropped(patient):
    shutil.rmtree(location(patient, "a.kept"))
    keep(patient, ("error", "a.kept"), advice="backup", command="pennon drop a.kept")
    patient.lake.drop("a.kept")
    (found,) = patient.examine().findings
    assert (found.severity, found.subject, "cannot be restored" in found.problem) == ("warning", "a.kept", True)
    assert found.command.startswith("pennon purge a.kept --id ")
    patient.lake.purge("a.kept", force=True)
    assert patient.examine().is_healthy


@pytest.mark.parametrize("kind", WITH_ROOT_TABLES)
def test_root_table_without_its_directory(patient, kind):
    shutil.rmtree(location(patient, "kept"))
    if kind == "v1":
        assert shown(patient.examine().findings) == [], "there is nothing that shows that it was there"
    else:
        keep(patient, ("warning", "kept"), advice="backup")


# Directories


@pytest.mark.parametrize("kind", WITH_MANIFEST)
def test_directory_without_a_row_is_reported_and_kept(patient):
    orphan = patient.path / "0badcafe_a$orphan"
    shutil.copytree(location(patient, "a.kept"), orphan)
    keep(patient, ("note", orphan.name), advice="tomorrow")
    age(orphan)
    keep(
        patient,
        ("warning", orphan.name),
        advice='register_table({"id": ["a", "orphan"], "location": "0badcafe_a$orphan"}',
    )
    patient.namespace.register_table({"id": ["a", "orphan"], "location": orphan.name})
    assert patient.examine().is_healthy
    assert patient.tables()["a.orphan"] == ROWS["x"]


@pytest.mark.parametrize("kind", WITH_MANIFEST)
def test_files_of_a_creation_that_crashed_are_reported_and_kept(patient):
    crashed = patient.path / "0badcafe_a$crashed"
    shutil.copytree(location(patient, "a.kept") / "data", crashed / "data")
    age(crashed)
    keep(patient, ("warning", crashed.name), advice="delete")
    (patient.path / "stray").mkdir()
    keep(patient, ("warning", crashed.name), ("note", "stray"))


def test_root_tables_that_v2_does_not_see_can_be_migrated(open_patient):
    patient = open_patient("v2")
    shutil.copytree(location(patient, "a.kept"), patient.path / "old.lance")
    age(patient.path / "old.lance")
    keep(patient, ("warning", "old.lance"), command="pennon migrate")
    patient.lake.migrate()
    assert patient.examine().is_healthy
    assert "old" in patient.lake.tables()


# Markers


def plant_claim(patient, name: str, state: str, **more) -> None:
    marker = Marker(state, lease_until_ms=int(LONG_AGO * 1000), **more)
    (patient.path / layout.deleted_marker(name)).write_bytes(marker.with_new_nonce().body())


@pytest.mark.parametrize("kind", WITH_ROOT_TABLES)
def test_claims_of_dead_clients_are_settled(patient):
    # A creation that ended before its first version, and after it; a purge that ended in the middle.
    half = patient.path / "half.lance"
    shutil.copytree(location(patient, "kept") / "data", half / "data")
    plant_claim(patient, "half", REVIVING, what="create")
    plant_claim(patient, "kept", REVIVING, what="create")
    shutil.copytree(patient.path / "gone.lance", patient.path / "purged.lance")
    shutil.rmtree(patient.path / "purged.lance" / "_versions")
    plant_claim(patient, "purged", PURGING, deletion_id=uuid.uuid4().hex, deleted_at_ms=int(LONG_AGO * 1000), ttl_ms=1)
    damaged = ("half.lance", "half.deleted", "kept.deleted", "purged.lance", "purged.deleted")
    heal(
        patient,
        ("warning", "half.deleted"),
        ("warning", "kept.deleted"),
        ("warning", "purged.deleted"),
        but=(*damaged, "__manifest"),
    )
    assert [name for name in damaged if (patient.path / name).exists()] == []


@pytest.mark.parametrize("kind", WITH_ROOT_TABLES)
def test_claims_of_live_clients_are_left_alone(patient):
    marker = Marker(REVIVING).with_lease(REVIVING, "create")
    (patient.path / "busy.deleted").write_bytes(marker.body())
    before = patient.files()
    assert patient.examine(fix=True).is_healthy
    assert patient.files() == before


@pytest.mark.parametrize("kind", WITH_ROOT_TABLES)
def test_markers_that_cannot_be_read_or_belong_to_nothing(patient):
    write = {
        "bad.deleted": b"x" * 100,
        "forever.deleted": json.dumps({"deleted_at_ms": int(time.time() * 1000), "ttl_ms": "7d"}).encode(),
        "nothing.deregistered": b"reserved",
        "never.declared": b"reserved",
        "kept.deregistered": b"reserved",
    }
    for name in ("bad", "forever"):
        shutil.copytree(patient.path / "gone.lance", patient.path / f"{name}.lance")
    for name, body in write.items():
        (patient.path / name).write_bytes(body)
    keep(
        patient,
        ("warning", "bad.deleted"),
        ("warning", "forever.deleted"),
        ("note", "nothing.deregistered"),
        ("note", "never.declared"),
        ("warning", "kept.deregistered"),
        command="pennon purge forever --force",
    )
    assert "pennon migrate --markers" in [one.command for one in patient.examine().findings]
    patient.lake.migrate_markers()
    assert "kept.deregistered" not in [one.subject for one in patient.examine().findings]


@pytest.mark.parametrize("kind", WITH_ROOT_TABLES)
def test_dropped_root_table_without_data(patient):
    shutil.rmtree(patient.path / "gone.lance")
    keep(patient, ("warning", "gone.deleted"), command="pennon purge gone --force")
    patient.lake.purge("gone", force=True)
    assert patient.examine().is_healthy


# The trash


def begin_purge(patient) -> str:
    """Record the first step of a purge, as one that was interrupted, and return the directory."""

    def begin(draft):
        (entry,) = [one for one in trash.list_entries(draft) if one.identifier == ("a", "gone")]
        draft.put(replace(entry, state=trash.PURGING).row())
        return str(entry.original.location)

    return patient.namespace.catalog.manifest.mutate(begin)


@pytest.mark.parametrize("kind", WITH_MANIFEST)
def test_interrupted_purges_are_finished(patient):
    directory = begin_purge(patient)
    (finding,) = patient.examine().findings
    shutil.rmtree(patient.path / directory / "_versions")
    heal(patient, ("warning", finding.subject), but=(directory, "__manifest"))
    assert not (patient.path / directory).exists()
    assert ["a", "b", "gone"] in [table.id for table in patient.lake.trash()]


@pytest.mark.s3
def test_claims_and_purges_in_a_bucket_are_finished(open_patient):
    patient = open_patient("compatibility", "bucket")
    store, tables = patient.namespace.catalog.store, patient.tables()
    directory = begin_purge(patient)
    claim = Marker(REVIVING, what="create", lease_until_ms=int(LONG_AGO * 1000))
    store.put("half.lance/data/part.lance", b"part")
    store.create("half.deleted", claim.with_new_nonce().body())
    store.create("kept.deleted", claim.with_new_nonce().body())
    report = patient.examine(fix=True)
    assert {one.subject for one in report.repaired} > {"half.deleted", "kept.deleted"}
    assert len(report.repaired) == 3
    assert report.is_healthy
    assert not store.has_files(directory)
    assert store.list_names("").isdisjoint({"half.lance", "half.deleted", "kept.deleted"})
    assert patient.tables() == tables
    assert shown(patient.examine(deep=True).findings) == []


def test_what_is_due_is_a_note_and_is_not_purged(patient):
    create_table(patient.namespace, "brief", data=ipc(ROWS))
    drop_table(patient.namespace, "brief", ttl="0")
    (found,) = patient.examine(fix=True).findings
    assert (found.severity, found.subject, found.command) == ("note", "trash", "pennon purge")
    assert "'brief'" in found.problem
    assert patient.lake.undrop("brief").count() == 3


# Versions and tables


def test_committed_versions_are_finished(open_patient, monkeypatch):
    patient = open_patient("managed")
    with unfinished(monkeypatch):
        patient.lake["a.kept"].append({"x": [4]})
    folder = location(patient, "a.kept") / "_versions"
    staged = [path.name for path in folder.iterdir() if ".manifest-" in path.name]
    assert staged
    with DirectoryNamespace(
        **patient.root.properties, manifest_enabled="true", dir_listing_enabled="false"
    ) as namespace:
        lake = LakeCatalog(namespace, progress=False)
        assert shown(lake.doctor(probe=False).findings) == [("note", "a.kept, version 2")]
        report = lake.doctor(probe=False, fix=True)
        assert shown(report.repaired) == [("note", "a.kept, version 2")]
        assert lake.doctor(probe=False, deep=True).findings == []
        assert lake["a.kept"].to_arrow()["x"].to_pylist() == [1, 2, 3, 4]
    assert [path.name for path in folder.iterdir() if ".manifest-" in path.name] == []


def test_committed_version_without_a_file_is_an_error(open_patient, monkeypatch):
    patient = open_patient("managed")
    with unfinished(monkeypatch):
        patient.lake["a.kept"].append({"x": [4]})
    folder = location(patient, "a.kept") / "_versions"
    for path in folder.iterdir():
        if ".manifest-" in path.name:
            path.unlink()
    keep(patient, ("error", "a.kept, version 2"), advice="backup")


@pytest.mark.parametrize("kind", ["compatibility", "managed"])
def test_tables_that_cannot_be_opened_and_those_that_need_compaction(patient):
    for _ in range(12):
        patient.lake["a.b.kept"].append({"x": [4]})
    for path in (location(patient, "a.kept") / "_versions").glob("*.manifest"):
        path.write_bytes(b"damaged")
    patient.namespace.close()
    with DirectoryNamespace(**patient.namespace._properties) as namespace:
        lake = LakeCatalog(namespace, progress=False)
        assert lake.doctor(probe=False).is_healthy, "only a deep examination opens tables"
        report = lake.doctor(probe=False, deep=True)
    assert set(shown(report.findings)) == {("error", "a.kept"), ("note", "a.b.kept")}
    assert {one.command for one in report.findings} == {"pennon jobs verify a.kept", "pennon jobs compact a.b.kept"}


def test_managed_version_with_another_size_than_its_row_is_an_error(open_patient):
    patient = open_patient("managed")
    patient.lake["a.kept"].append({"x": [4]})
    (first, *_) = sorted((location(patient, "a.kept") / "_versions").glob("*.manifest"), reverse=True)
    first.write_bytes(first.read_bytes() + b"more")
    assert patient.examine().is_healthy
    (found,) = [one for one in patient.examine(deep=True).findings if one.severity == "error"]
    assert found.subject == "a.kept"


def test_v1_notes_a_manifest_that_it_does_not_use(open_patient):
    patient = open_patient("compatibility")
    v1 = {"manifest_enabled": "false", "dir_listing_enabled": "true"}
    with DirectoryNamespace(**patient.root.properties, **v1) as namespace:
        assert shown(LakeCatalog(namespace, progress=False).doctor(probe=False).findings) == [("note", "__manifest")]
