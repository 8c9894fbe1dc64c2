"""Commits to a bucket that are made in a temporary copy of the manifest, and clients that follow them."""

from __future__ import annotations

import json
import tempfile

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation

from pennon.directory.manifest import history
from pennon.directory.manifest.staged_commit import StagedCommit, list_changed_files
from pennon.errors import ServiceUnavailableError
from tests.support import create_namespace, drop_namespace, list_namespaces, wait_for_background_work

pytestmark = pytest.mark.s3

NAMES = [f"n{number:02}" for number in range(20)]


@pytest.fixture
def clients(s3_root, open_namespace):
    """Return two warm clients of a catalog with namespaces in one fragment."""
    first, second = open_namespace(s3_root, "v2"), open_namespace(s3_root, "v2")
    for name in NAMES:  # the sixteenth commit joins the fragments
        create_namespace(first, name)
    list_namespaces(second)
    create_namespace(second, "second")
    assert len(list_namespaces(first)) == 21
    wait_for_background_work()
    return first, second


def stored_names(s3_root, open_namespace):
    """Return what a new client lists."""
    return list_namespaces(open_namespace(s3_root, "v2"))


def test_rows_deleted_by_another_client_are_missed_at_once(clients, s3_root, open_namespace):
    first, second = clients
    for name in NAMES[:3]:
        drop_namespace(second, name)
        assert name not in list_namespaces(first)
    for name in NAMES[3:6]:
        drop_namespace(first, name)
        assert name not in list_namespaces(second)

    expected = [*NAMES[6:], "second"]
    assert list_namespaces(first) == list_namespaces(second) == stored_names(s3_root, open_namespace) == expected
    table = lance.dataset(f"{s3_root.uri}/__manifest", storage_options=s3_root.options)
    assert any(fragment.metadata.deletion_file for fragment in table.get_fragments())


def test_commit_is_two_uploads_and_the_version(clients, s3):
    first, _ = clients
    create_namespace(first, "x")
    wait_for_background_work()

    with s3.count() as count:
        create_namespace(first, "y")

    written = [request for request in count.requests if request.method == "PUT"]
    assert len(written) == 3, count.summary()
    assert "/_versions/" in str(written[-1])
    assert count.total <= 4, count.summary()


def test_lost_response_to_a_commit_that_succeeded_is_a_success(clients, s3_root, open_namespace, monkeypatch):
    first, _ = clients
    store = first._catalog.store
    create = type(store).create

    def lose_response(self, path, body):
        created = create(self, path, body)
        if self is not store:
            return created
        monkeypatch.undo()
        raise ServiceUnavailableError("the response is lost")

    monkeypatch.setattr(type(store), "create", lose_response)
    create_namespace(first, "x")

    assert "x" in list_namespaces(first)
    assert "x" in stored_names(s3_root, open_namespace)


def test_failed_commit_whose_version_is_absent_raises_and_changes_nothing(
    clients, s3_root, open_namespace, monkeypatch
):
    first, _ = clients
    store = first._catalog.store
    create = type(store).create

    def fail(self, path, body):
        # Clients of other tests in this process may still do their upkeep.
        if self is not store:
            return create(self, path, body)
        monkeypatch.undo()
        raise ServiceUnavailableError("no answer")

    monkeypatch.setattr(type(store), "create", fail)
    with pytest.raises(ServiceUnavailableError):
        create_namespace(first, "x")

    assert "x" not in list_namespaces(first)
    create_namespace(first, "x")
    assert "x" in stored_names(s3_root, open_namespace)


def test_files_of_a_commit_that_lost_are_deleted(clients, s3_root, open_namespace, monkeypatch):
    first, second = clients
    upload = StagedCommit.upload

    def upload_late(self, *beside):
        monkeypatch.undo()
        upload(self, *beside)
        create_namespace(second, "between")

    monkeypatch.setattr(StagedCommit, "upload", upload_late)
    create_namespace(first, "x")

    store = first._catalog.store
    table = lance.dataset(f"{s3_root.uri}/__manifest", storage_options=s3_root.options)
    data = {entry.name for entry in store.list_level("__manifest/data").files}
    lost = [name for name in store.list_names("__manifest/_transactions") if name.startswith(f"{table.version - 2}-")]
    assert {"between", "x"} <= set(stored_names(s3_root, open_namespace))
    assert len(lost) == 1
    assert {file.path for fragment in table.get_fragments() for file in fragment.metadata.files} <= data


def test_client_without_a_temporary_directory_commits_through_lance(clients, s3_root, open_namespace, monkeypatch):
    first, second = clients

    def refuse(*args, **options):
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", refuse)
    create_namespace(first, "x")
    create_namespace(second, "y")

    assert list_namespaces(first) == [*NAMES, "second", "x", "y"]
    assert stored_names(s3_root, open_namespace) == [*NAMES, "second", "x", "y"]


def test_root_that_was_created_again_is_noticed_before_a_commit(clients, s3_root, open_namespace):
    first, _ = clients
    store = first._catalog.store
    version = history.find_latest(store).version
    store.delete_tree("__manifest")
    other = open_namespace(s3_root, "v2")
    for number in range(version):
        create_namespace(other, f"new{number:02}")
    other.close()

    create_namespace(first, "x")

    assert stored_names(s3_root, open_namespace) == [*(f"new{number:02}" for number in range(version)), "x"]
    assert list_namespaces(first) == stored_names(s3_root, open_namespace)


@pytest.mark.parametrize("path", ["../escape.lance", "a/../../escape.lance", "/escape.lance", "..", ""])
def test_files_of_a_hostile_manifest_are_not_copied(tmp_path, path):
    dataset = lance.write_dataset(pa.table({"a": [1]}), tmp_path / "t")
    metadata = dataset.get_fragments()[0].metadata.to_json()
    metadata["files"][0]["path"] = path
    hostile = lance.FragmentMetadata.from_json(json.dumps(metadata))
    lance.LanceDataset.commit(
        dataset, LanceOperation.Overwrite(dataset.lance_schema, [hostile]), read_version=dataset.version
    )

    assert list_changed_files(lance.dataset(tmp_path / "t"), {}) is None
