"""Describing tables: place, version, tag, statistics, and what costs nothing is all that is given unasked."""

from __future__ import annotations

import shutil

from pennon.testing import TableDescription
from tests.contract.disk import OnDisk
from tests.support import create_table, describe_table, fails


class TestTableDescription(OnDisk, TableDescription):
    def test_a_negative_version_is_refused(self, grown):
        ns, names = grown
        with fails(13):
            ns.describe_table({"id": names, "version": -1})
        with fails(13):
            ns.table_exists({"id": names, "version": -1})


def test_table_deleted_from_disk_is_not_described(place):
    ns, parent = place
    shutil.rmtree(create_table(ns, *parent, "t").location)
    with fails(4, naming="t'"):
        describe_table(ns, *parent, "t", load_detailed_metadata=True)
    with fails(4, naming="t'"):
        describe_table(ns, *parent, "t", version=1)
