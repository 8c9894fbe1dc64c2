"""Which files of a table belong to nothing."""

from __future__ import annotations

import pytest

from pennon.spark.jobs.table_files import Named, Stored, ended, missing, place, unnamed, wrong_sizes

SEGMENT = "0d9df3c8-6a63-4d39-8f1e-1f1f7a0c1d11"
OTHER = "99999999-6a63-4d39-8f1e-1f1f7a0c1d11"


def judged(path: str, named: Named | None = None, modified: float = 0, **options) -> str | None:
    found = unnamed({path: Stored(1, modified)}, named or Named(), branches=["b", "b/c"], now=1000, age=100, **options)
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
def test_files_that_nothing_names_are_orphans_once_they_are_old(path):
    assert judged(path) == "orphans"
    assert judged(path, modified=901) == "recent"
    assert judged(path, modified=900) == "orphans"
    assert judged(path, Named(files={path})) is None
    assert judged(path, kept={path}) is None


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
def test_files_that_are_not_judged(path):
    assert judged(path) is None


@pytest.mark.parametrize(
    "path",
    ["data/notes.txt", "data/a/notes.txt", "_deletions/x", "_indices/mine/x", f"_indices/{SEGMENT}", "_versions/x.bak"],
)
def test_files_that_lance_would_not_name_so_are_strange_and_never_orphans(path):
    assert judged(path) == "strange"


def test_large_values_belong_to_their_data_file():
    assert judged("data/a/1.blob", Named(files={"data/a.lance"})) is None
    assert judged("tree/b/data/a/1.blob", Named(files={"data/a.lance"})) == "orphans"


def test_all_files_of_an_index_segment_belong_to_it():
    assert judged(f"_indices/{SEGMENT}/anything", Named(indexes={SEGMENT: None})) is None
    assert judged(f"_indices/{OTHER}/anything", Named(indexes={SEGMENT: None})) == "orphans"


def test_a_branch_inside_of_another_ones_directory_is_told_apart():
    assert place("tree/b/c/data/x.lance", ["b", "b/c"]) == ("tree/b/c/", "data", "x.lance")
    assert place("tree/b/data/x.lance", ["b", "b/c"]) == ("tree/b/", "data", "x.lance")


def test_missing_files_and_indexes_are_named():
    named = Named(files={"data/a.lance", "data/b.lance"}, indexes={SEGMENT: 10, OTHER: None})
    assert missing({"data/a.lance": Stored(1, 0)}, named) == [f"_indices/{SEGMENT}", "data/b.lance"]
    there = {"data/a.lance": Stored(1, 0), "data/b.lance": Stored(1, 0), f"_indices/{SEGMENT}/x": Stored(10, 0)}
    assert missing(there, named) == []


def test_sizes_that_differ_are_named():
    named = Named(files={"data/a.lance"}, sizes={"a.lance": 5}, indexes={SEGMENT: 10})
    listed = {
        "data/a.lance": Stored(4, 0),
        f"_indices/{SEGMENT}/x": Stored(3, 0),
        f"_indices/{SEGMENT}/y": Stored(4, 0),
    }
    assert wrong_sizes(listed, named) == [
        "data/a.lance has 4 bytes instead of 5",
        f"_indices/{SEGMENT} has 7 bytes instead of 10",
    ]


def test_long_lists_of_findings_end():
    assert ended(["a", "b"], 2) == ["a", "b"]
    assert ended(["a", "b", "c"], 1) == ["a", "... and 2 more"]
