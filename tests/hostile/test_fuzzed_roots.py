"""A root full of hostile entries: they do not harm anything else, and only the SDK's errors are raised.

Each example plants random rows, markers, files and links into a copy of one catalog, then runs every operation in every
mode over it. Afterwards the files beside the root are unchanged, the live tables have their rows, and what is no table
is still there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lance_namespace import CountTableRowsRequest

from pennon import DirectoryNamespace
from tests.hostile.fuzzed_places import BucketPlace, DiskPlace, Place
from tests.hostile.root_fuzzing import (
    EVIL_IDS,
    OUTSIDE,
    PlantedFile,
    PlantedLink,
    PlantedRow,
    files,
    links,
    read_operations,
    rows,
    run,
    tokens,
    write_operations,
)
from tests.servers import SeaweedS3
from tests.support import (
    MODES,
    create_namespace,
    create_table,
    declare_table,
    drop_table,
    ipc,
    list_tables,
    register_table,
)

if TYPE_CHECKING:
    import random
    from pathlib import Path

EXAMPLES = 8
EXAMPLES_IN_BUCKET = 1
LONG_FACTOR = 200

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")


@pytest.fixture(scope="module")
def bucket():
    """Start a real S3 server."""
    with SeaweedS3() as server:
        yield server.endpoint


@pytest.fixture(scope="module", params=["unmanaged", "managed"])
def template(request, tmp_path_factory) -> Path:
    """Create a catalog with live, declared and dropped tables of both kinds, and files beside it."""
    top = tmp_path_factory.mktemp("template")
    outside = top / "outside"
    lance.write_dataset(pa.table({"x": [13]}), str(outside / "victim.lance"))
    (outside / "notes.txt").write_text("not yours")
    root = top / "root"
    lance.write_dataset(pa.table({"x": [3]}), str(root / "plain.lance"))
    lance.write_dataset(pa.table({"x": [5]}), str(root / "ext/table"))
    (root / "raw").mkdir()
    (root / "raw/data.csv").write_text("a,b\n1,2\n")
    with DirectoryNamespace(root=str(root / "nested"), **MODES["v2"]) as nested:
        create_table(nested, "inner", data=ipc({"x": [6]}))
    with DirectoryNamespace(root=str(root)) as ns:
        create_namespace(ns, "a")
        create_table(ns, "a", "kept", data=ipc({"x": [4]}))
        if request.param == "managed":
            ns.enable_table_version_management()
        create_table(ns, "kept", data=ipc({"x": [1, 2]}))
        register_table(ns, "a", "ext", location="ext/table")
        declare_table(ns, "a", "empty")
        for name in (("gone",), ("a", "gone")):
            create_table(ns, *name)
            drop_table(ns, *name)
    return top


def plant(place: Place, planted: list[PlantedRow | PlantedFile | PlantedLink]) -> None:
    """Plant files before links, so that no file is written through a link, and all rows in one commit."""
    for entry in planted:
        if isinstance(entry, PlantedFile):
            place.write(entry.path, entry.body)
    for entry in planted:
        if isinstance(entry, PlantedLink):
            place.link(entry.path, entry.target.replace(OUTSIDE, place.outside))
    manifest = place.dataset("__manifest")
    new = [
        {
            "object_id": row.object_id,
            "object_type": row.object_type,
            "location": row.location and row.location.replace(OUTSIDE, place.outside),
            "metadata": row.metadata and row.metadata.replace(OUTSIDE, place.outside),
        }
        for row in planted
        if isinstance(row, PlantedRow)
    ]
    if new:
        lance.write_dataset(pa.Table.from_pylist(new, manifest.schema), manifest, mode="append")


def hashed_location(place: Place, parent: str, object_id: str) -> str:
    """Return the location of a table, from the manifest."""
    table = place.dataset(f"{parent}__manifest").to_table(filter=f"object_id = '{object_id}'")
    return parent + str(table["location"][0].as_py())


def evil_ids(planted: list[PlantedRow | PlantedFile | PlantedLink]) -> list[tuple[str, ...]]:
    """Return the identifiers that the entries are about; those of live tables are not among them."""
    ids = {tuple(entry.object_id.split("$")) for entry in planted if isinstance(entry, PlantedRow)}
    about = [identifier for identifier in EVIL_IDS if identifier in ids]
    return about or [EVIL_IDS[0]]


def check_root(place: Place, mode: str, *, planted: list, token: str, shuffle: random.Random) -> None:
    """Run all operations over a copy of the template with hostile entries, and check what must not change."""
    place.reset()
    live = {
        "kept.lance": [1, 2],
        "plain.lance": [3],
        hashed_location(place, "", "a$kept"): [4],
        "ext/table": [5],
        hashed_location(place, "nested/", "inner"): [6],
    }
    plant(place, planted)
    before = place.untouchable()
    hidden = hidden_tables(planted)
    evil = [("evil0",)] if mode == "v1" else evil_ids(planted)
    with DirectoryNamespace(**place.root.properties, **MODES[mode]) as ns:
        for call in read_operations(ns, evil, token):
            run(call)
        writes = write_operations(ns, evil)
        shuffle.shuffle(writes)
        for call in writes:
            run(call)
    for reader in MODES:
        with DirectoryNamespace(**place.root.properties, **MODES[reader]) as ns:
            run(ns.purge_tables)
            require_live_tables(ns, reader, hidden)
    assert place.untouchable() == before
    for location, values in live.items():
        assert place.dataset(location).to_table()["x"].to_pylist() == values, location


def hidden_tables(planted: list[PlantedRow | PlantedFile | PlantedLink]) -> set[str]:
    """Return tables that have no row of their own, and whose directory a row calls that of a dropped table."""
    rows_there = [
        row
        for row in planted
        if isinstance(row, PlantedRow) and row.object_type == "table" and row.object_id.startswith("__trash$")
    ]
    return {"plain"} if any("plain.lance" in str(row.location) for row in rows_there) else set()


def require_live_tables(ns: DirectoryNamespace, mode: str, hidden: set[str]) -> None:
    """Require that live tables are listed and can be read through the catalog."""
    if mode != "v2":
        assert {"kept", "plain"} <= set(list_tables(ns)) | hidden
    if mode != "v1":
        assert {"kept", "ext", "empty"} <= set(list_tables(ns, "a"))
    for name, count in ((("a", "kept"), 1), (("a", "ext"), 1), (("kept",), 2)):
        if len(name) == 1 or mode != "v1":
            assert ns.count_table_rows(CountTableRowsRequest(id=list(name))).count == count, name


entries = st.lists(st.one_of(rows, rows, rows, files, links), min_size=1, max_size=10)


def fuzz(place: Place, examples: int, mode: str, *, always_the_same: bool = False) -> None:
    # Shrinking a failure takes longer than a test may: the planted entries are few enough to read.
    @settings(
        max_examples=examples,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        database=None,
        derandomize=always_the_same,
    )
    @given(planted=entries, token=tokens, shuffle=st.randoms(use_true_random=False))
    def check(planted, token, shuffle) -> None:
        check_root(place, mode, planted=planted, token=token, shuffle=shuffle)

    check()


@pytest.mark.parametrize("mode", MODES)
def test_hostile_entries_on_disk_harm_nothing_else(template, tmp_path, mode):
    fuzz(DiskPlace(template, tmp_path / "work"), EXAMPLES, mode, always_the_same=True)


@pytest.mark.s3
@pytest.mark.parametrize("mode", MODES)
def test_hostile_entries_in_a_bucket_harm_nothing_else(template, bucket, mode):
    fuzz(BucketPlace(template, bucket), EXAMPLES_IN_BUCKET, mode, always_the_same=True)


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_many_hostile_entries_on_disk_harm_nothing_else(template, tmp_path, mode):
    fuzz(DiskPlace(template, tmp_path / "work"), LONG_FACTOR * EXAMPLES, mode)


@pytest.mark.s3
@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_many_hostile_entries_in_a_bucket_harm_nothing_else(template, bucket, mode):
    fuzz(BucketPlace(template, bucket), LONG_FACTOR * EXAMPLES_IN_BUCKET, mode)
