"""Classifying the files of a table: referenced, recent, orphaned or strange."""

from __future__ import annotations

import pytest

from pennon.spark.jobs.table_files import (
    ReferencedFiles,
    StoredFile,
    find_missing,
    find_unreferenced,
    find_wrong_sizes,
    split_path,
)

SEGMENT = "0d9df3c8-6a63-4d39-8f1e-1f1f7a0c1d11"
OTHER = "99999999-6a63-4d39-8f1e-1f1f7a0c1d11"


def classify(path: str, referenced: ReferencedFiles | None = None, modified: float = 0, **options) -> str | None:
    found = find_unreferenced(
        {path: StoredFile(1, modified)},
        referenced or ReferencedFiles(),
        branches=["b", "b/c"],
        now=1000,
        age=100,
        **options,
    )
    for kind in ("orphans", "recent", "strange"):
        if getattr(found, kind):
            return kind
    return None


@pytest.mark.parametrize(
    "path",
    [
        "data/a.lance",
        "data/a/1.blob",
        "_deletions/0-1-2.arrow",
        "_deletions/0-1-2.bin",
        f"_indices/{SEGMENT}/page_data.lance",
        "_transactions/1-x.txn",
        "_versions/18446744073709551614.manifest-0a",
        "_versions/d17016270002276403150.manifest",
        "tree/b/data/a.lance",
        "tree/b/c/_transactions/1-x.txn",
    ],
)
def test_old_unreferenced_files_are_orphans(path):
    assert classify(path) == "orphans"
    assert classify(path, modified=901) == "recent"
    assert classify(path, modified=900) == "orphans"
    assert classify(path, ReferencedFiles(files={path})) is None
    assert classify(path, kept={path}) is None


@pytest.mark.parametrize(
    "path",
    [
        "_versions/latest_version_hint.json",
        "_versions/18446744073709551614.manifest",
        "_versions/7.manifest",
        "_refs/tags/x.json",
        ".lance-reserved",
        "tree/gone/data/a.lance",
        "notes.txt",
        "_mem_wal/x/1",
    ],
)
def test_other_files_are_ignored(path):
    assert classify(path) is None


@pytest.mark.parametrize(
    "path",
    ["data/notes.txt", "data/a/notes.txt", "_deletions/x", "_indices/mine/x", f"_indices/{SEGMENT}", "_versions/x.bak"],
)
def test_files_with_foreign_names_are_strange_and_never_orphans(path):
    assert classify(path) == "strange"


def test_blobs_belong_to_their_data_file():
    assert classify("data/a/1.blob", ReferencedFiles(files={"data/a.lance"})) is None
    assert classify("tree/b/data/a/1.blob", ReferencedFiles(files={"data/a.lance"})) == "orphans"


def test_every_file_of_an_index_segment_belongs_to_the_segment():
    assert classify(f"_indices/{SEGMENT}/anything", ReferencedFiles(indexes={SEGMENT: None})) is None
    assert classify(f"_indices/{OTHER}/anything", ReferencedFiles(indexes={SEGMENT: None})) == "orphans"


def test_split_path_finds_the_innermost_branch():
    assert split_path("tree/b/c/data/x.lance", ["b", "b/c"]) == ("tree/b/c/", "data", "x.lance")
    assert split_path("tree/b/data/x.lance", ["b", "b/c"]) == ("tree/b/", "data", "x.lance")


def test_missing_files_and_index_segments_are_found():
    referenced = ReferencedFiles(files={"data/a.lance", "data/b.lance"}, indexes={SEGMENT: 10, OTHER: None})
    assert find_missing({"data/a.lance": StoredFile(1, 0)}, referenced) == [f"_indices/{SEGMENT}", "data/b.lance"]
    there = {
        "data/a.lance": StoredFile(1, 0),
        "data/b.lance": StoredFile(1, 0),
        f"_indices/{SEGMENT}/x": StoredFile(10, 0),
    }
    assert find_missing(there, referenced) == []


def test_files_with_wrong_sizes_are_found():
    referenced = ReferencedFiles(files={"data/a.lance"}, sizes={"a.lance": 5}, indexes={SEGMENT: 10})
    listed = {
        "data/a.lance": StoredFile(4, 0),
        f"_indices/{SEGMENT}/x": StoredFile(3, 0),
        f"_indices/{SEGMENT}/y": StoredFile(4, 0),
    }
    assert find_wrong_sizes(listed, referenced) == [
        "data/a.lance has 4 bytes instead of 5",
        f"_indices/{SEGMENT} has 7 bytes instead of 10",
    ]
