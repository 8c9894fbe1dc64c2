"""What is missing, and how every operation says so: 1 for a namespace, 4 for a table."""

from __future__ import annotations

from pennon.testing import MissingObjects
from pennon.testing.missing_objects import FREE, TABLE_READS, TABLE_WRITES, by_name, rename_missing
from tests.contract.disk import OnDisk, contents, directory, write_table
from tests.support import (
    create_namespace,
    create_table,
    fails,
)


class TestMissingObjects(OnDisk, MissingObjects):
    pass


def test_properties_of_a_missing_namespace_cannot_be_altered(nested):
    create_namespace(nested, "a")
    create_table(nested, "t")
    for names in (["x"], ["a", "x"], ["x", "y"], ["t"]):
        with fails(1, naming=names[-1]):
            nested.alter_namespace_properties(names, {"k": "v"})


@by_name({**TABLE_READS, **TABLE_WRITES})
def test_missing_parent_raises_namespace_not_found(nested, call):
    create_namespace(nested, "a")
    create_table(nested, "t")
    write_table(directory(nested) / FREE)
    before = contents(nested)
    for names in (["x", "t"], ["a", "x", "t"], ["x", "y", "z", "t"], ["t", "t"]):
        with fails(1):
            call(nested, *names)
    assert contents(nested) == before


@by_name({**TABLE_READS, **TABLE_WRITES})
def test_v1_raises_namespace_not_found_for_a_nested_table(root, open_namespace, call):
    ns = open_namespace(root, "v1")
    create_table(ns, "t")
    write_table(directory(ns) / FREE)
    before = contents(ns)
    with fails(0 if call is rename_missing else 1):
        call(ns, "a", "t")
    assert contents(ns) == before
