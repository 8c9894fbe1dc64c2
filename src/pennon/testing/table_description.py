"""Describing tables: place, version, tag, statistics, and what costs nothing is all that is given unasked."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from lance_namespace import TableExistsRequest

from pennon.testing.calls import create_table, describe_table, fails, ipc, table_exists
from pennon.testing.contract import Contract, Place


class TableDescription(Contract):
    """Describing tables: location, version, tag, statistics."""

    @pytest.fixture
    def grown(self, place: Place) -> Any:
        """A table with three versions, a deleted row, a tag on the second and metadata."""
        ns, parent = place
        location = create_table(ns, *parent, "t", data=ipc({"x": [1, 2, 3]})).location
        dataset = self.append(location, [4])
        dataset.tags.create("second", 2)
        dataset.delete("x = 1")
        return ns, [*parent, "t"]

    def test_plain_description_contains_the_location(self, grown: Any) -> None:
        ns, names = grown
        found = describe_table(ns, *names)
        assert (found.table, found.namespace) == ("t", names[:-1])
        assert self.rows(found.location) == [2, 3, 4]
        assert (found.version, found.var_schema, found.stats, found.metadata) == (None, None, None, None)
        assert (found.table_uri, found.storage_options, found.is_only_declared) == (None, None, None)

    def test_details_are_those_of_the_latest_version(self, grown: Any) -> None:
        ns, names = grown
        found = describe_table(ns, *names, load_detailed_metadata=True)
        assert found.version == 3
        assert [field.name for field in found.var_schema.fields] == ["x"]
        assert (found.stats.num_fragments, found.stats.num_deleted_rows) == (2, 1)
        assert found.is_only_declared is False

    def test_details_of_a_version_are_its_own(self, grown: Any) -> None:
        ns, names = grown
        for version, fragments, deleted in ((1, 1, 0), (2, 2, 0), (3, 2, 1)):
            found = describe_table(ns, *names, version=version, load_detailed_metadata=True)
            assert found.version == version
            assert (found.stats.num_fragments, found.stats.num_deleted_rows) == (fragments, deleted)

    def test_a_version_that_exists_can_be_asked_for(self, grown: Any) -> None:
        ns, names = grown
        for version in (1, 2, 3):
            assert describe_table(ns, *names, version=version).location == describe_table(ns, *names).location
            ns.table_exists(TableExistsRequest(id=names, version=version))

    def test_missing_version_raises_version_not_found(self, grown: Any) -> None:
        ns, names = grown
        for version in (0, 4, 99, 2**31, 2**63, 2**64 - 1):
            for details in (None, True):
                with fails(11, naming=str(version)):
                    describe_table(ns, *names, version=version, load_detailed_metadata=details)
            with fails(11, naming=str(version)):
                ns.table_exists(TableExistsRequest(id=names, version=version))

    def test_huge_version_raises_version_not_found(self, grown: Any) -> None:
        ns, names = grown
        for version in (2**64, 2**80):
            with fails(11, naming=str(version)):
                describe_table(ns, *names, version=version)

    def test_a_tag_leads_to_its_version(self, grown: Any) -> None:
        ns, names = grown
        found = describe_table(ns, *names, tag="second", load_detailed_metadata=True)
        assert found.version == 2
        assert describe_table(ns, *names, tag="second").location == found.location

    def test_missing_tag_raises_tag_not_found(self, grown: Any) -> None:
        ns, names = grown
        for tag in ("third", "", "2", "a/b", "it's"):
            with fails(8, naming=tag):
                describe_table(ns, *names, tag=tag)

    def test_version_and_tag_together_are_refused(self, grown: Any) -> None:
        ns, names = grown
        with fails(13):
            describe_table(ns, *names, version=2, tag="second")

    def test_missing_branch_raises_branch_not_found(self, grown: Any) -> None:
        ns, names = grown
        with fails(22, naming="nowhere"):
            describe_table(ns, *names, branch="nowhere", load_detailed_metadata=True)

    def test_details_of_a_branch_are_its_own(self, grown: Any) -> None:
        ns, names = grown
        branch = self.open_dataset(describe_table(ns, *names).location).create_branch("side", 1)
        branch.insert(pa.table({"x": [9]}))
        found = describe_table(ns, *names, branch="side", load_detailed_metadata=True)
        assert found.version == self.open_dataset(found.location).checkout_version(("side", None)).version
        assert (found.stats.num_fragments, found.stats.num_deleted_rows) == (2, 0)

    def test_the_uri_is_complete_and_opens(self, grown: Any) -> None:
        ns, names = grown
        uri = describe_table(ns, *names, with_table_uri=True).table_uri
        assert uri.startswith("file:///")
        assert self.rows(uri) == [2, 3, 4]

    def test_uri_escapes_special_characters(self, place: Place) -> None:
        ns, parent = place
        create_table(ns, *parent, "a b%41?#é")
        uri = describe_table(ns, *parent, "a b%41?#é", with_table_uri=True).table_uri
        assert uri.isascii()
        assert not set(" ?#") & set(uri)
        assert self.rows(uri) == [1, 2, 3]

    def test_details_hold_the_tables_metadata(self, place: Place) -> None:
        ns, parent = place
        table = pa.table({"x": [1]})
        location = create_table(ns, *parent, "t", data=ipc(table)).location
        self.open_dataset(location).update_metadata({"k": "v"})
        assert describe_table(ns, *parent, "t", load_detailed_metadata=True).metadata == {"k": "v"}

    def test_table_exists_returns_or_raises_not_found(self, place: Place) -> None:
        ns, parent = place
        create_table(ns, *parent, "t")
        assert table_exists(ns, *parent, "t") is not None
        with fails(4):
            table_exists(ns, *parent, "T")
