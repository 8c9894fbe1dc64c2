"""Creating tables: modes, properties, where they are put."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pennon.testing import TableCreation
from tests.contract.disk import OnDisk, directory
from tests.support import (
    create_namespace,
    create_table,
    describe_table,
    fails,
    list_tables,
    remove_table,
)


class TestTableCreation(OnDisk, TableCreation):
    pass


def test_v1_refuses_properties_that_it_cannot_keep(root, open_namespace):
    ns = open_namespace(root, "v1")
    with fails(0, naming="properties"):
        create_table(ns, "t", properties={"k": "v"})
    assert list_tables(ns) == []
    create_table(ns, "t")
    assert describe_table(ns, "t").properties is None


@pytest.mark.parametrize("mode_of_root", ["v1", "compatibility"])
def test_root_tables_are_in_a_directory_of_their_name(root, open_namespace, mode_of_root):
    ns = open_namespace(root, mode_of_root)
    assert create_table(ns, "t").location == str(directory(ns) / "t.lance")


def test_other_tables_are_in_hashed_directories_that_are_never_reused(root, open_namespace):
    ns = open_namespace(root, "v2")
    create_namespace(ns, "a")
    seen = set()
    for names in (["t"], ["a", "t"]):
        for _ in range(2):
            location = Path(create_table(ns, *names).location)
            assert location.parent == directory(ns)
            assert re.fullmatch(r"[0-9a-f]{8}_" + re.escape("$".join(names)), location.name)
            seen.add(location.name)
            remove_table(ns, *names)
    assert len(seen) == 4


def test_compatibility_mode_puts_nested_tables_into_hashed_directories(root, open_namespace):
    ns = open_namespace(root, "compatibility")
    create_namespace(ns, "a")
    location = Path(create_table(ns, "a", "t").location)
    assert re.fullmatch(r"[0-9a-f]{8}_a\$t", location.name)
