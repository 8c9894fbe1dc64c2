"""Namespaces on REST catalogs."""

from __future__ import annotations

import pytest

from tests.iceberg.irc_servers import only_on_apache
from tests.support import (
    create_namespace,
    create_table,
    describe_namespace,
    drop_namespace,
    fails,
    list_namespaces,
    list_tables,
    namespace_exists,
)


@pytest.fixture
def managed_by() -> str:
    return "storage"


def test_a_namespace_has_its_properties(catalog, space):
    create_namespace(catalog, space, "a", properties={"owner": "me"})
    assert describe_namespace(catalog, space, "a").properties["owner"] == "me"
    assert list_namespaces(catalog, space) == ["a"]
    namespace_exists(catalog, space, "a")


def test_root_exists_and_cannot_be_dropped(catalog, space):
    namespace_exists(catalog)
    assert space in list_namespaces(catalog)
    assert list_tables(catalog) == []
    with fails(13):
        drop_namespace(catalog)
    with fails(2):
        create_namespace(catalog)


def test_modes_of_creation(catalog, space):
    create_namespace(catalog, space, "a", properties={"v": "1"})
    with fails(2, f"{space}.a"):
        create_namespace(catalog, space, "a")
    assert create_namespace(catalog, space, "a", mode="exist_ok").properties["v"] == "1"
    create_table(catalog, space, "a", "t")
    assert create_namespace(catalog, space, "a", mode="overwrite", properties={"v": "2"}).properties["v"] == "2"
    assert list_tables(catalog, space, "a") == []


def test_a_namespace_needs_its_parent(catalog, space):
    with fails(1, f"{space}.none"):
        create_namespace(catalog, space, "none", "b")
    assert list_namespaces(catalog, space) == []


def test_missing_namespaces_raise_not_found(catalog, space):
    for ask in (describe_namespace, namespace_exists, drop_namespace, list_tables, list_namespaces):
        with fails(1, f"{space}.none"):
            ask(catalog, space, "none")
    drop_namespace(catalog, space, "none", mode="skip")


def test_a_namespace_that_is_not_empty_stays(catalog, space):
    create_namespace(catalog, space, "a")
    with fails(3, space):
        drop_namespace(catalog, space)
    create_table(catalog, space, "a", "t")
    with fails(3, f"{space}.a"):
        drop_namespace(catalog, space, "a")
    drop_namespace(catalog, space, behavior="cascade")
    with fails(1):
        namespace_exists(catalog, space)
    create_namespace(catalog, space)
    assert list_namespaces(catalog, space) == []


@only_on_apache("our server has no tables of other kinds")
def test_a_cascade_never_drops_tables_of_other_kinds(catalog, space, irc):
    import urllib3

    body = {"name": "other", "schema": {"type": "struct", "fields": []}}
    urllib3.request("POST", f"{irc.uri}/v1/namespaces/{space}/tables", json=body, timeout=60.0)
    create_table(catalog, space, "t")
    assert list_tables(catalog, space) == ["t"]
    with fails(3, "other"):
        drop_namespace(catalog, space, behavior="cascade")
    assert list_tables(catalog, space) == ["t"]
    with fails(5, "other"):
        create_table(catalog, space, "other", mode="overwrite")


def test_properties_change(catalog, space):
    create_namespace(catalog, space, "a", properties={"x": "1", "y": "2"})
    left = catalog.alter_namespace_properties([space, "a"], {"x": None, "z": "3", "none": None})
    assert (left.get("x"), left["y"], left["z"]) == (None, "2", "3")


@pytest.mark.parametrize("name", ["a b", "ä", "a%1Fb", "x?y#z", "it's", "a+b", "%2F"])
def test_odd_names_round_trip(catalog, space, name):
    create_namespace(catalog, space, name)
    assert list_namespaces(catalog, space) == [name]
    describe_namespace(catalog, space, name)
    create_table(catalog, space, name, name)
    assert list_tables(catalog, space, name) == [name]
    drop_namespace(catalog, space, name, behavior="cascade")
    assert list_namespaces(catalog, space) == []


def test_pages_are_read_to_the_end(connect, irc, space, catalog):
    for number in range(7):
        create_namespace(catalog, space, f"n{number}")
        create_table(catalog, space, f"t{number}")
    paged = connect(irc.uri, **{"rest-page-size": "2"})
    assert list_namespaces(paged, space) == [f"n{number}" for number in range(7)]
    assert list_tables(paged, space) == [f"t{number}" for number in range(7)]
    from lance_namespace import ListTablesRequest

    first = paged.list_tables(ListTablesRequest(id=[space], limit=3))
    rest = paged.list_tables(ListTablesRequest(id=[space], limit=10, page_token=first.page_token))
    assert (first.tables, rest.tables, rest.page_token) == (["t0", "t1", "t2"], ["t3", "t4", "t5", "t6"], None)
