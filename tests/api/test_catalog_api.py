"""A catalog: namespaces, listing, the trash, transactions, and how objects show themselves."""

from __future__ import annotations

import html.parser

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pennon
from pennon import LakeTable
from pennon.api.listing import Listing, format_html_table, format_value
from pennon.errors import (
    InvalidInputError,
    InvalidTableStateError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    TableSchemaValidationError,
    UnsupportedOperationError,
)
from pennon.identifiers import find_name_fault

ROWS = {"id": [1, 2, 3]}


def test_namespaces_are_created_listed_and_dropped(lake):
    lake.create_namespace("eu.raw", parents=True, properties={"owner": "shop"})
    lake.create_namespace("eu.raw", exist_ok=True)
    with pytest.raises(NamespaceAlreadyExistsError):
        lake.create_namespace("eu.raw")
    with pytest.raises(NamespaceNotFoundError):
        lake.create_namespace("us.raw")
    assert lake.namespaces() == ["eu", "eu.raw", "sales"]
    assert lake.namespaces(recursive=False) == ["eu", "sales"]
    assert lake.namespaces("eu") == ["eu.raw"]
    assert lake.namespace_properties("eu.raw")["owner"] == "shop"
    assert lake.set_namespace_properties("eu.raw", {"owner": None, "kind": "raw"}).get("owner") is None
    with pytest.raises(NamespaceNotEmptyError):
        lake.drop_namespace("eu")
    lake.drop_namespace("eu.raw")
    assert lake.namespaces() == ["eu", "sales"]


def test_tables_are_listed_by_namespace_and_pattern(lake):
    lake.create_namespace("sales.old")
    for name in ("sales.orders", "sales.items", "sales.old.orders", "/sales/odd.name"):
        lake.create_table(name, ROWS)
    assert lake.tables() == list(lake) == ["sales.items", "sales.`odd.name`", "sales.old.orders", "sales.orders"]
    assert lake.tables("sales.*") == ["sales.items", "sales.`odd.name`", "sales.orders"]
    assert lake.tables("**.orders") == ["sales.old.orders", "sales.orders"]
    assert lake.tables("sales.old") == ["sales.old.orders"]
    assert all(name in lake and lake[name].count() == 3 for name in lake)
    with pytest.raises(InvalidInputError):
        lake.tables("sales.[")
    with pytest.raises(NamespaceNotFoundError):
        lake.tables("nowhere")


def test_dropped_table_waits_in_the_trash_and_can_be_restored(lake, place):
    orders = lake.create_table("sales.orders", ROWS)
    lake.drop("sales.orders")
    with pytest.raises(TableNotFoundError):
        orders.count()
    if place.kind == "iceberg":
        with pytest.raises(UnsupportedOperationError, match="restore and purge them there"):
            lake.trash()
        return
    (dropped,) = lake.trash()
    assert dropped.id == ["sales", "orders"]
    assert "sales.orders" in repr(lake.trash())
    assert lake.undrop("sales.orders", new_name="sales.again").count() == 3
    lake.drop("sales.again")
    with pytest.raises(InvalidTableStateError):
        lake.purge("sales.again")
    assert [table.id for table in lake.purge("sales.again", dry_run=True, force=True).tables] == [["sales", "again"]]
    assert lake.purge("sales.again", force=True).failed == []
    assert lake.trash() == []
    with pytest.raises(TableNotFoundError):
        lake.undrop("sales.again")
    lake.create_table("sales.short", ROWS)
    lake.drop("sales.short", ttl="0")
    assert [table.id for table in lake.purge().tables] == [["sales", "short"]]


def test_namespace_is_restored_with_its_tables(lake, place):
    if place.kind == "iceberg":
        with pytest.raises(UnsupportedOperationError):
            lake.undrop_namespace("sales")
        return
    lake.create_table("sales.orders", ROWS)
    lake.drop_namespace("sales", cascade=True)
    assert lake.tables() == []
    assert lake.undrop_namespace("sales") == ["sales.orders"]
    lake.protect("sales.orders")
    with pytest.raises(InvalidTableStateError):
        lake.drop("sales.orders")
    lake.protect("sales.orders", on=False)
    lake.drop("sales.orders")


def test_renamed_table_keeps_its_rows(lake):
    lake.create_table("sales.orders", ROWS)
    lake.create_table("sales.taken", ROWS)
    with pytest.raises(TableAlreadyExistsError):
        lake.rename("sales.orders", "sales.taken")
    assert lake.rename("sales.orders", "sales.renamed").count() == 3
    assert lake.tables() == ["sales.renamed", "sales.taken"]


def test_transaction_publishes_several_tables_in_one_commit(lake, place):
    orders, items = (lake.create_table(f"sales.{name}", ROWS) for name in ("orders", "items"))
    if place.kind != "iceberg":
        with pytest.raises(UnsupportedOperationError, match="pennon manage-versions"), lake.transaction() as t:
            t.append("sales.orders", ROWS)
        place.manage_versions()
    with lake.transaction() as t:
        t.append("sales.orders", {"id": [4]}).append("sales.orders", iter([pa.record_batch({"id": [5]})]))
        t.append("sales.items", pa.table({"id": pa.array([4], pa.int32())}))
        assert (orders.count(), items.count()) == (3, 3)
    assert (orders.count(), items.count()) == (5, 4)
    assert t.versions == {("sales", "orders"): orders.version, ("sales", "items"): items.version}


def test_failed_transaction_publishes_nothing(lake, place):
    place.manage_versions()
    orders = lake.create_table("sales.orders", ROWS)
    with pytest.raises(TableNotFoundError), lake.transaction() as t:
        t.append("sales.orders", {"id": [4]}).append("sales.none", {"id": [4]})
    with pytest.raises(TableSchemaValidationError), lake.transaction() as t:
        t.append("sales.orders", {"id": [4]}).append("sales.orders", {"id": ["text"]})
    with pytest.raises(ZeroDivisionError), lake.transaction() as t:
        t.append("sales.orders", {"id": [4]}).append("sales.orders", (1 // 0 for _ in "x"))
    assert (orders.count(), orders.version) == (3, 1)
    with pytest.raises(InvalidInputError, match="with"):
        t.append("sales.orders", ROWS)
    with pytest.raises(InvalidInputError):
        _ = t.versions


def test_transaction_creates_tables(lake, place):
    place.manage_versions()
    lake.create_table("sales.orders", ROWS)
    with pytest.raises(TableNotFoundError), lake.transaction() as t:
        t.create_table("sales.new", ROWS).append("sales.none", ROWS)
    assert lake.tables() == ["sales.orders"]
    with lake.transaction() as t:
        t.create_table("sales.new", ROWS, properties={"owner": "shop"}).append("sales.orders", ROWS)
        assert "sales.new" not in lake
    assert (lake["sales.new"].count(), lake["sales.orders"].count()) == (3, 6)


def test_objects_show_what_they_are(lake):
    orders = lake.create_table("sales.orders", {"id": [1], "note": ["<script>alert(1)</script>"]})
    assert repr(orders) == "LakeTable('sales.orders')"
    assert repr(orders.at(tag="t")) == "LakeTable('sales.orders', tag='t')"
    assert "sales.orders" in lake._repr_html_()
    page = orders._repr_html_()
    assert "note" in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
    assert "&lt;script&gt;" in orders.where("id = 1")._repr_html_()
    assert "where='id = 1'" in repr(orders.where("id = 1"))
    assert "TableNotFoundError" in LakeTable(lake.namespace, ("sales", "none"))._repr_html_()
    assert repr(orders.history()).startswith("version  committed_at")


def test_secrets_are_not_shown():
    lake = pennon.open("s3://bucket/lake", storage_options={"secret_access_key": "hunter2hunter2"})
    remote = pennon.open("http://127.0.0.1:1", token="hunter2hunter2", properties={"retry_timeout": "0"})
    for one in (lake, remote, lake.transaction(), remote._table(("t",)).search()):
        assert "hunter2" not in repr(one)
    assert "hunter2" not in remote._repr_html_()


class _Texts(html.parser.HTMLParser):
    """Collects the texts and tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert attrs == []

    def handle_data(self, data):
        self.texts.append(data)


names = st.text(min_size=1, max_size=20).filter(lambda name: find_name_fault(name, at_root=True) is None)


@settings(max_examples=200)
@given(names, st.one_of(st.text(max_size=30), st.binary(max_size=9), st.floats(), st.lists(st.text(max_size=5))))
def test_hostile_names_and_values_are_shown_as_text(name, value):
    for shown in (repr(LakeTable(None, (name,))), repr(Listing([name])), format_value(value)):
        assert shown.replace("\n", "").isprintable()
    page = _Texts()
    page.feed(format_html_table([name], [[name, format_value(value)]]) + Listing([name])._repr_html_())
    page.close()
    assert page.tags <= {"table", "thead", "tbody", "tr", "th", "td"}
    assert "".join(page.texts).count(name) >= 2
