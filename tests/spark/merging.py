"""Tables of several fragments for tests of merges, their rows, and their files."""

from __future__ import annotations

from pathlib import Path

import lance


def write_table(lake, name, data, *, rows_per_file=4, **options):
    """Write a table of small fragments into the root of a lake with Lance."""
    uri = f"{dict(lake.address.properties)['root']}/{name}.lance"
    return lance.write_dataset(data, uri, max_rows_per_file=rows_per_file, **options)


def open_latest(lake, name="t"):
    """Open the latest version of a table."""
    return lance.dataset(f"{dict(lake.address.properties)['root']}/{name}.lance")


def read_rows(lake, name="t", by="id"):
    """Return the rows of a table, sorted by a column, nulls first."""
    found = open_latest(lake, name).to_table().to_pylist()
    return sorted(found, key=lambda row: (row[by] is not None, row[by]))


def list_files(lake, name="t"):
    """Return the data files, deletion files and notes in a table's directory."""
    root = Path(dict(lake.address.properties)["root"]) / f"{name}.lance"
    kinds = ("data", "_deletions", "_pennon")
    there = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    return {path for path in there if path.startswith(kinds)}


def find_referenced_files(lake, name="t"):
    """Return the files to which any version of a table refers."""
    found = set()
    latest = open_latest(lake, name)
    for version in latest.versions():
        for fragment in latest.checkout_version(version["version"]).get_fragments():
            found |= {f"data/{file.path}" for file in fragment.metadata.files}
            if fragment.metadata.deletion_file is not None:
                found.add(fragment.metadata.deletion_file.path(fragment.fragment_id))
    return found


def assert_clean(lake, name="t"):
    """Assert that the table has only files to which a version refers."""
    assert list_files(lake, name) == find_referenced_files(lake, name)
