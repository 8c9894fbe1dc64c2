"""Errors of the operating system.

Missing permissions raise PermissionDeniedError, other failures InternalError. Operations work again once the cause is
removed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from lance_namespace.errors import LanceNamespaceError

from pennon import DirectoryNamespace
from pennon.directory.manifest import Manifest
from tests.directory.on_disk import directory, files, rows
from tests.support import (
    MODES,
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    fails,
    ipc,
    list_tables,
    remove_table,
    table_exists,
)

UNPRIVILEGED_USER = 65534
TOP = Path(__file__).parents[2]


@pytest.fixture
def open_place():
    """Yield a directory that every user of the machine can access."""
    place = Path(tempfile.mkdtemp(prefix="pennon-test-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@contextmanager
def permissions(top: Path, mode: int):
    """Set the permissions of a directory tree, and run as a user to whom they apply."""
    directories = [top, *(path for path in top.rglob("*") if path.is_dir())]
    before = {path: path.stat().st_mode for path in directories}
    for path in reversed(directories):
        path.chmod(mode)
    privileged = os.geteuid() == 0
    if privileged:
        os.seteuid(UNPRIVILEGED_USER)
    try:
        yield
    finally:
        if privileged:
            os.seteuid(0)
        for path in directories:
            path.chmod(before[path])


@pytest.fixture
def ns(open_place, mode, open_namespace):
    """Open a root with a table in it in each mode."""
    ns = open_namespace(open_place / "root", mode)
    create_table(ns, "t", data=ipc({"x": [1]}))
    return ns


WRITES = {
    "drop": lambda ns: remove_table(ns, "t"),
    "create": lambda ns: create_table(ns, "new"),
    "declare": lambda ns: declare_table(ns, "new"),
    "overwrite": lambda ns: create_table(ns, "t", mode="overwrite"),
    "deregister": lambda ns: deregister_table(ns, "t"),
}
MANIFEST_WRITES = {
    "create namespace": lambda ns: create_namespace(ns, "a"),
    "alter the root": lambda ns: ns.alter_namespace_properties([], {"k": "v"}),
    "rename": lambda ns: ns.rename_table({"id": ["t"], "new_table_name": "u"}),
}


def test_mutations_without_permission_raise_permission_denied_and_reads_work(ns, mode):
    before = files(ns)
    calls = WRITES if mode == "v1" else {**WRITES, **MANIFEST_WRITES}
    codes = {}
    with permissions(directory(ns), 0o555):
        for label, call in calls.items():
            try:
                codes[label] = call(ns)
            except Exception as error:  # noqa: BLE001 - the test reports errors of any class
                codes[label] = int(error.code) if hasattr(error, "code") else repr(error)
        assert list_tables(ns) == ["t"]
        assert rows(describe_table(ns, "t", load_detailed_metadata=True).location) == [1]
    assert codes == dict.fromkeys(calls, 15)
    assert files(ns) == before
    remove_table(ns, "t")
    assert list_tables(ns) == []


READ_ONLY = """
import sys
from pennon import DirectoryNamespace
from tests.directory.test_failures import MANIFEST_WRITES, WRITES
from tests.support import MODES, list_tables

with DirectoryNamespace(root=sys.argv[1], **MODES[sys.argv[2]]) as ns:
    for label, call in (WRITES if sys.argv[2] == "v1" else {**WRITES, **MANIFEST_WRITES}).items():
        try:
            call(ns)
        except Exception as error:
            assert getattr(error, "code", None) == 15, (label, repr(error))
        else:
            raise AssertionError(label)
    print(list_tables(ns))
"""


def test_mutations_on_a_read_only_file_system_raise_permission_denied_and_reads_work(ns, mode):
    mount = 'mount --bind "$2" "$2" && mount -o remount,bind,ro "$2" && exec "$0" -c "$1" "$2" "$3"'
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-m", "true"], check=False, capture_output=True).returncode:
        pytest.skip("mounting needs rights")
    command = [unshare, "-m", "sh", "-c", mount, sys.executable, READ_ONLY, str(directory(ns)), mode]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=TOP)
    assert (done.returncode, done.stdout) == (0, "['t']\n"), done.stderr


def test_reads_without_permission_raise_permission_denied(ns, mode):
    with permissions(directory(ns), 0o000), DirectoryNamespace(root=ns._store.identity(), **MODES[mode]) as fresh:
        for client in (ns, fresh):
            for call in (list_tables, lambda ns: describe_table(ns, "t"), lambda ns: table_exists(ns, "t")):
                with fails(15):
                    call(client)
    assert list_tables(ns) == ["t"]


def test_root_that_is_a_file_raises_internal_error(tmp_path, mode, open_namespace):
    (tmp_path / "root").write_text("a file")
    ns = open_namespace(tmp_path / "root", mode)
    with fails(18):
        create_table(ns, "t")
    with fails(18):
        declare_table(ns, "t")
    assert (tmp_path / "root").read_text() == "a file"


def block_deletion(ns):
    """Put a file where deleted directories are moved to."""
    trash = directory(ns) / ".lance-trash"
    if trash.exists():
        trash.rmdir()
    trash.write_text("in the way")
    return trash


@pytest.mark.parametrize("mode_of_root", ["v1", "compatibility"])
def test_drop_that_cannot_delete_fails_and_can_be_retried(root, open_namespace, mode_of_root):
    ns = open_namespace(root, mode_of_root)
    create_table(ns, "t")
    trash = block_deletion(ns)
    with fails(18, naming="t"):
        remove_table(ns, "t")
    trash.unlink()
    with fails(4, naming="t"):
        remove_table(ns, "t")
    assert list_tables(ns) == []
    assert not [path for path in files(ns) if not path.startswith("__manifest/")]


@pytest.mark.parametrize("mode_of_root", ["v1", "compatibility"])
def test_name_can_be_created_after_a_drop_that_could_not_delete(root, open_namespace, mode_of_root):
    ns = open_namespace(root, mode_of_root)
    create_table(ns, "t", data=ipc({"x": [1]}))
    trash = block_deletion(ns)
    with fails(18):
        remove_table(ns, "t")
    trash.unlink()
    made = create_table(ns, "t", data=ipc({"x": [2]}), mode="overwrite")
    assert rows(made.location) == [2]
    assert list_tables(ns) == ["t"]


def test_manifest_table_is_dropped_even_if_its_files_cannot_be_deleted(root, open_namespace):
    ns = open_namespace(root, "v2")
    location = create_table(ns, "t").location
    trash = block_deletion(ns)
    with fails(18, naming="t"):
        remove_table(ns, "t")
    assert list_tables(ns) == []
    assert rows(location) == [1, 2, 3]
    (failed,) = ns.purge_tables().failed
    assert failed.id == ["t"]
    trash.unlink()
    assert ns.purge_tables().failed == []
    assert not Path(location).exists()


def test_broken_table_cannot_be_opened_but_can_be_described_and_dropped(root, mode, open_namespace):
    ns = open_namespace(root, mode)
    location = Path(create_table(ns, "t").location)
    for path in (location / "_versions").iterdir():
        path.write_bytes(b"broken")
    with pytest.raises(LanceNamespaceError, match="t") as caught:
        describe_table(ns, "t", load_detailed_metadata=True)
    assert int(caught.value.code) in {18, 19}
    assert describe_table(ns, "t").location == str(location)
    remove_table(ns, "t")
    assert list_tables(ns) == []


def test_unreadable_manifest_raises_internal_error_and_is_not_changed(root, open_namespace):
    ns = open_namespace(root, "v2")
    create_namespace(ns, "a")
    for path in (directory(ns) / "__manifest/_versions").iterdir():
        path.write_bytes(b"broken")
    before = files(ns)
    fresh = open_namespace(root, "v2")
    for call in (list_tables, lambda ns: create_namespace(ns, "b"), lambda ns: create_table(ns, "t")):
        with fails(18):
            call(fresh)
    assert files(ns) == before


@pytest.mark.parametrize("operation", [create_table, declare_table])
@pytest.mark.parametrize("readable", [True, False], ids=["manifest readable", "manifest unreadable"])
def test_new_table_is_kept_if_the_commit_response_is_lost(root, open_namespace, monkeypatch, operation, readable):
    """The store commits the row, the response is lost, and perhaps the store is unreachable afterwards."""
    ns = open_namespace(root, "v2")
    create_namespace(ns, "n")
    versions = directory(ns) / "__manifest/_versions"
    commit = Manifest.mutate
    saved = {}

    def commit_and_lose_response(self, plan):
        commit(self, plan)
        saved.update({path: path.read_bytes() for path in versions.iterdir()})
        if not readable:
            for path in saved:
                path.write_bytes(b"broken")
        raise OSError("connection reset")

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "mutate", commit_and_lose_response)
        with fails(18, "connection reset"):
            operation(ns, "n", "t")
    for path, content in saved.items():
        path.write_bytes(content)
    fresh = open_namespace(root, "v2")
    found = describe_table(fresh, "n", "t", check_declared=True)
    assert found.is_only_declared is (operation is declare_table)
    assert operation is declare_table or len(rows(found.location)) > 0
