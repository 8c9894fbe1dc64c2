from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from pennon import DirectoryNamespace
from pennon.cli import sources
from tests.cli.cli_support import ROWS, mode_options


def write(path: Path, kind: str, data: pa.Table = ROWS) -> Path:
    if kind in {"parquet", "pq"}:
        pq.write_table(data, path)
    elif kind == "csv":
        pyarrow.csv.write_csv(data, path)
    elif kind == "tsv":
        pyarrow.csv.write_csv(data, path, pyarrow.csv.WriteOptions(delimiter="\t"))
    elif kind == "csv.gz":
        body = io.BytesIO()
        pyarrow.csv.write_csv(data, body)
        path.write_bytes(gzip.compress(body.getvalue()))
    elif kind == "json":
        path.write_text(json.dumps(data.to_pylist()))
    elif kind in {"jsonl", "ndjson"}:
        path.write_text("".join(json.dumps(row) + "\n" for row in data.to_pylist()))
    elif kind == "feather":
        pyarrow.feather.write_feather(data, path)
    elif kind == "arrow":
        with pa.ipc.new_file(path, data.schema) as writer:
            writer.write_table(data)
    else:
        with pa.ipc.new_stream(path, data.schema) as writer:
            writer.write_table(data)
    return path


@pytest.mark.parametrize(
    "kind", ["parquet", "pq", "csv", "tsv", "csv.gz", "json", "jsonl", "ndjson", "arrow", "feather", "arrows"]
)
def test_a_table_is_created_from_a_file_of_every_format(pennon, root, tmp_path, kind):
    file = write(tmp_path / f"data.{kind}", kind)
    result = pennon("create", "made", str(file), root=root)
    assert result.json == {
        "id": ["made"],
        "created": True,
        "version": 1,
        "rows": 3,
        "columns": 2,
        "dry_run": False,
    }
    rows = pennon("head", "made", root=root).json["rows"]
    # CSV cannot distinguish an empty string from null.
    assert [{**row, "name": row["name"] or None} for row in rows] == ROWS.to_pylist()


@pytest.mark.parametrize("mode", ["v1", "v2", "compatibility"])
def test_a_table_is_created_in_every_mode(pennon, root, tmp_path, mode):
    file = write(tmp_path / "data.parquet", "parquet")
    assert pennon("create", "made", str(file), *mode_options(mode), root=root).code == 0
    assert pennon("count", "made", *mode_options(mode), root=root).json["rows"] == 3


def test_columns_of_several_files_are_matched_by_name(pennon, root, tmp_path):
    write(tmp_path / "a.parquet", "parquet")
    write(tmp_path / "b.parquet", "parquet", pa.table({"extra": [True], "id": [2.5]}))
    assert pennon("create", "made", str(tmp_path), root=root).json["rows"] == 4
    rows = pennon("head", "made", root=root).json["rows"]
    assert rows[0] == {"id": 1.0, "name": "one", "extra": None}
    assert rows[3] == {"id": 2.5, "name": None, "extra": True}


def test_incompatible_columns_are_bad_input(pennon, root, tmp_path):
    a = write(tmp_path / "a.parquet", "parquet")
    b = write(tmp_path / "b.parquet", "parquet", pa.table({"id": [[1]]}))
    result = pennon("create", "made", str(a), str(b), root=root)
    assert (result.code, result.out) == (2, "")
    assert "do not match" in result.err
    assert not root.exists()


def test_large_data_is_read_through_a_temporary_file(pennon, root, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spool"))
    (tmp_path / "spool").mkdir()
    data = pa.table({"id": range(200_000), "vector": pa.array([[1.0, 2.0]] * 200_000, pa.list_(pa.float32(), 2))})
    file = write(tmp_path / "data.parquet", "parquet", data)
    assert pennon("create", "made", str(file), root=root).json["rows"] == 200_000
    assert pennon("count", "made", "--where", "id >= 199990", root=root).json["rows"] == 10
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_a_table_is_created_from_stdin(process, root, tmp_path, format_):
    file = write(tmp_path / "data", format_)
    with file.open("rb") as stdin:
        result = process("create", "made", "-", "--format", format_, "--root", str(root), stdin=stdin)
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["rows"] == 3


def test_stdin_needs_a_format(pennon, root):
    assert pennon("create", "made", "-", root=root).code == 2
    assert not root.exists()


def test_existing_name_is_a_conflict_before_the_file_is_read(pennon, lake):
    result = pennon("create", "plain", "no-such-file.parquet", root=lake)
    assert (result.code, result.err) == (4, "Error: Table already exists: 'plain'\n")


def test_name_of_a_namespace_is_a_conflict(pennon, lake, tmp_path):
    file = write(tmp_path / "data.csv", "csv")
    for arguments in (["create", "prod", str(file)], ["create", "prod", str(file), "--dry-run"]):
        assert pennon(*arguments, root=lake).code == 4


def test_overwrite_creates_a_version(pennon, lake, tmp_path):
    file = write(tmp_path / "data.json", "json", pa.table({"other": [1]}))
    assert pennon("create", "plain", str(file), "--mode", "overwrite", root=lake).json["version"] == 2
    assert pennon("head", "plain", root=lake).json["rows"] == [{"other": 1}]
    assert pennon("count", "plain", "--version", "1", root=lake).json["rows"] == 3


def test_exist_ok_leaves_an_existing_table_unchanged(pennon, lake, tmp_path):
    file = write(tmp_path / "data.json", "json", pa.table({"other": [1]}))
    for mode in ("exist_ok", "ExistOk"):
        assert pennon("create", "plain", str(file), "--mode", mode, root=lake).json["created"] is False
    assert pennon("count", "plain", root=lake).json == {"id": ["plain"], "version": 1, "rows": 3}


def test_a_declared_table_is_filled(pennon, lake, tmp_path):
    file = write(tmp_path / "data.csv", "csv")
    assert pennon("create", "prod.promised", str(file), root=lake).json["version"] == 1
    assert pennon("count", "prod.promised", root=lake).json["rows"] == 3


def test_properties_are_set(pennon, root, tmp_path):
    file = write(tmp_path / "data.csv", "csv")
    pennon("create", "made", str(file), "--set", "owner=shop", "--set", "note=a=b", root=root)
    assert pennon("info", "made", root=root).json["properties"] == {"owner": "shop", "note": "a=b"}


def test_a_dry_run_reads_and_changes_nothing(pennon, root, tmp_path):
    file = write(tmp_path / "data.csv", "csv")
    result = pennon("create", "made", str(file), "--dry-run", root=root)
    assert (result.json["rows"], result.json["version"], result.json["dry_run"]) == (3, None, True)
    assert "would be created" in pennon("create", "made", str(file), "--dry-run", "--table", root=root).out
    assert not root.exists()


@pytest.mark.parametrize(
    ("name", "body", "options"),
    [
        ("data.parquet", b"no parquet", []),
        ("data.csv", b"", []),
        ("data.csv", b"a,b\n1\n", []),
        ("data.csv", b"a,a\n1,2\n", []),
        ("data.json", b"[1, 2]", []),
        ("data.json", b"{broken", []),
        ("data.json", b"", []),
        ("data.arrow", b"ARROW1 or not", []),
        ("data.arrow", b"", []),
        ("data.xyz", b"1", []),
        ("data.csv", b"a\n1\n", ["--format", "xml"]),
        ("data.csv", b"a\n1\n", ["--mode", "sometimes"]),
        ("data.csv", b"a\n1\n", ["--delimiter", "ab"]),
        ("data.csv", b"a\n1\n", ["--set", "nothing"]),
    ],
)
def test_unreadable_file_is_bad_input_and_creates_nothing(pennon, root, name, body, options):
    file = Path(name)
    file.write_bytes(body)
    result = pennon("create", "made", str(file), *options, root=root)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Error: ")
    assert result.err.count("\n") == 1
    assert not root.exists() or pennon("ls", root=root).json["entries"] == []


def test_missing_files_and_empty_directories_are_bad_input(pennon, root, tmp_path):
    assert "does not exist" in pennon("create", "made", str(tmp_path / "nope.csv"), root=root).err
    (tmp_path / "empty").mkdir()
    result = pennon("create", "made", str(tmp_path / "empty"), root=root)
    assert (result.code, "no file of a known format" in result.err) == (2, True)


def test_a_namespace_that_is_not_there_is_not_found(pennon, lake, tmp_path):
    file = write(tmp_path / "data.csv", "csv")
    assert pennon("create", "nope.made", str(file), root=lake).code == 3


def test_ctrl_c_while_a_file_is_read_creates_nothing(lake, tmp_path):
    spool = tmp_path / "spool"
    spool.mkdir()
    command = [sys.executable, "-m", "pennon", "create", "half", "-", "--format", "csv", "--root", str(lake)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(spool)},
    )
    try:
        # More than fits into a pipe: the write blocks until the command reads.
        process.stdin.write(b"a,b\n" + b"1,2\n" * 50_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        # The command does not wait for the program that writes: stdin stays open.
        process.wait(90)
        out, err = process.stdout.read(), process.stderr.read()
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            with suppress(BrokenPipeError):
                stream.close()
    assert (process.returncode, out, err) == (130, b"", b"Error: interrupted\n")
    assert list(spool.iterdir()) == []
    with DirectoryNamespace(root=str(lake)) as namespace:
        assert namespace.list_tables({"id": []}).tables == ["my.table", "plain"]


def test_namespaces_are_created(pennon, root):
    assert pennon("create-namespace", "prod", "--set", "owner=me", root=root).json == {
        "id": ["prod"],
        "created": True,
        "dry_run": False,
    }
    assert pennon("create-namespace", "prod", root=root).code == 4
    assert pennon("create-namespace", "prod", "--mode", "exist_ok", root=root).json["created"] is False
    assert pennon("info", "prod", root=root).json["properties"] == {"owner": "me"}


def test_parents_option_creates_missing_parents(pennon, root):
    result = pennon("create-namespace", "a.b.c", root=root)
    assert (result.code, "--parents" in result.err) == (3, True)
    assert pennon("create-namespace", "a.b.c", "--parents", "--dry-run", root=root).json["dry_run"] is True
    assert not root.exists()
    assert pennon("create-namespace", "a.b.c", "--parents", root=root).code == 0
    assert pennon("tree", "--namespaces", "--table", root=root).out.splitlines()[-1] == "3 namespaces, 0 tables"


def test_overwriting_a_namespace_needs_confirmation(pennon, lake):
    refused = pennon("create-namespace", "prod", "--mode", "overwrite", root=lake)
    assert (refused.code, "use --yes" in refused.err) == (6, True)
    assert pennon("count", "prod.events", root=lake).code == 0
    assert pennon("create-namespace", "prod", "--mode", "overwrite", "--yes", root=lake).code == 0
    assert pennon("ls", "prod", root=lake).json["entries"] == []


@pytest.mark.parametrize("address", ["/", "a..b", "__mine"])
def test_a_bad_namespace_is_bad_input(pennon, root, address):
    assert pennon("create-namespace", address, root=root).code == 2
    assert not root.exists()


def test_v1_has_no_namespaces(pennon, v1_lake):
    assert pennon("create-namespace", "a2", *mode_options("v1"), root=v1_lake).code == 5
