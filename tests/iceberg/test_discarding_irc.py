"""What was written for a new table is deleted only where no table of the server lies."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

from tests.support import describe_table, drop_table, fails, rename_table


def written(catalog, space, table) -> str:
    place = catalog.new_table_location([space, table])
    lance.write_dataset(pa.table({"x": [1]}), place)
    return place


def test_discard_deletes_only_locations_without_a_table(catalog, space, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    staged, adopted = written(catalog, space, "t"), written(catalog, space, "t")
    catalog.adopt_table([space, "t"], adopted)
    location = describe_table(catalog, space, "t").location
    for place in (str(outside), location, str(Path(staged).parent), f"{staged}/data"):
        with fails(19, "is not a new location of"):
            catalog.discard_table_location([space, "t"], place)
    with fails(19, "is not a new location of"):
        catalog.discard_table_location([space, "other"], staged)
    rename_table(catalog, space, "t", to="renamed")
    with fails(19, "renamed"):
        catalog.discard_table_location([space, "t"], location)
    catalog.discard_table_location([space, "t"], staged)
    assert not Path(staged).exists()
    assert outside.is_dir()
    assert lance.dataset(location).count_rows() == 1
    drop_table(catalog, space, "renamed", purge="true")
