"""list_table_versions, describe_table_version and batch_delete_table_versions."""

from __future__ import annotations

import pytest
from lance_namespace import ListTableVersionsRequest

from tests.support import declare_table, describe_table, fails, ipc


@pytest.fixture
def five(shelf):
    """Give a table `t` with the versions 1 to 5."""
    shelf.create("t", *([number] for number in range(1, 6)))
    return shelf


def pages(shelf, limit: int, *, descending: bool) -> list[list[int]]:
    found, token = [], None
    while True:
        request = ListTableVersionsRequest(id=shelf.id("t"), limit=limit, descending=descending, page_token=token)
        answer = shelf.ns.list_table_versions(request)
        found.append([one.version for one in answer.versions])
        token = answer.page_token
        if token is None:
            return found


def test_all_versions_are_listed_with_what_is_known_of_them(five):
    answer = five.ns.list_table_versions({"id": five.id("t")})
    assert [one.version for one in answer.versions] == [5, 4, 3, 2, 1]
    assert answer.page_token is None
    folder = five._store.absolute(five._store.relative(five.location("t"))) + "/_versions/"
    for one in answer.versions:
        assert one.manifest_path == f"{folder}{2**64 - 1 - one.version:020}.manifest"
        assert one.manifest_size == five._store.size(five._store.from_absolute(one.manifest_path))
        assert one.timestamp_millis > 1_600_000_000_000
    assert five.listed("t", descending=False) == [1, 2, 3, 4, 5]
    assert five.listed("t", descending=True) == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("descending", [False, True])
def test_pages_of_every_size(near_shelf, descending):
    shelf = near_shelf
    shelf.create("t", *([number] for number in range(1, 6)))
    whole = [5, 4, 3, 2, 1] if descending else [1, 2, 3, 4, 5]
    for limit in range(1, 7):
        cut = [whole[start : start + limit] for start in range(0, 5, limit)]
        assert pages(shelf, limit, descending=descending) == cut
    assert shelf.listed("t", limit=1000, descending=descending) == whole


def test_pages_go_on_where_they_were_while_versions_come_and_go(near_shelf):
    shelf = near_shelf
    shelf.create("t", *([number] for number in range(1, 6)))
    first = shelf.ns.list_table_versions({"id": shelf.id("t"), "limit": 2})
    assert [one.version for one in first.versions] == [5, 4]
    shelf.append("t", [6])
    shelf.delete("t", (4, 5))
    second = shelf.ns.list_table_versions({"id": shelf.id("t"), "limit": 2, "page_token": first.page_token})
    assert [one.version for one in second.versions] == [3, 2]


def test_bad_pages(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1], [2])
    assert shelf.listed("t", limit=0) == []
    with fails(13):
        shelf.listed("t", limit=-1)
    for token in ("nonsense", "1", "p1.", "p1.%%%"):
        for limit in (None, 1, 2):
            with fails(13):
                shelf.ns.list_table_versions({"id": shelf.id("t"), "limit": limit, "page_token": token})


def test_one_version_and_the_latest_are_described(five):
    for version in range(1, 6):
        one = five.described("t", version)
        assert one.version == version
        assert one.manifest_path.endswith(f"/_versions/{2**64 - 1 - version:020}.manifest")
        assert one.manifest_size == five._store.size(five._store.from_absolute(one.manifest_path))
    assert five.described("t").version == 5
    assert five.ns.describe_table_version({"id": five.id("t"), "version": 3}).version.version == 3


def test_what_is_not_there(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1])
    for version in (0, 2, 99, 2**62):
        with fails(11, str(version)):
            shelf.described("t", version)
    for call in (shelf.listed, shelf.described, lambda name: shelf.described(name, 1)):
        with fails(4, "none"):
            call("none")
    with fails(4):
        shelf.delete("none", (0, -1))
    for call in ("list_table_versions", "describe_table_version"):
        with fails(1, "nowhere"):
            getattr(shelf.ns, call)({"id": ["nowhere", "t"]})
        with fails(13):
            getattr(shelf.ns, call)({"id": []})
    with fails(1, "nowhere"):
        shelf.ns.batch_delete_table_versions({"id": ["nowhere", "t"], "ranges": []})


def test_a_declared_table_has_no_versions(near_shelf):
    shelf = near_shelf
    declare_table(shelf.ns, *shelf.id("t"))
    for limit in (None, 1, 2):
        assert shelf.listed("t", limit=limit) == []
        assert shelf.listed("t", limit=limit, descending=True) == []
    for version in (None, 1):
        with fails(11):
            shelf.described("t", version)
    assert shelf.delete("t", (0, -1)) == 0


# Deleting


@pytest.mark.parametrize(
    ("ranges", "left"),
    [
        ([(1, 2)], [2, 3, 4, 5]),
        ([(2, 4)], [1, 4, 5]),
        ([(0, 5)], [5]),
        ([(1, 2), (3, 4)], [2, 4, 5]),
        ([(3, 4), (1, 3)], [4, 5]),
        ([(1, 4), (2, 5), (1, 4)], [5]),
        ([(3, 3)], [1, 2, 3, 4, 5]),
        ([(6, 99)], [1, 2, 3, 4, 5]),
        ([(6, -1)], [1, 2, 3, 4, 5]),
        ([], [1, 2, 3, 4, 5]),
    ],
)
def test_versions_are_deleted_by_ranges(near_shelf, ranges, left):
    shelf = near_shelf
    location = shelf.create("t", *([number] for number in range(1, 6)))
    assert shelf.delete("t", *ranges) == 5 - len(left)
    assert shelf.listed("t") == left
    assert len(shelf.files(location)) == len(left)
    for version in range(1, 6):
        if version in left:
            assert shelf.described("t", version).version == version
        else:
            with fails(11):
                shelf.described("t", version)
    if shelf.is_managed:
        assert shelf.version_rows() == {shelf.key("t"): left}
    assert shelf.rows("t") == shelf.plain_rows("t") == [1, 2, 3, 4, 5]
    assert shelf.append("t", [6]) == 6
    assert shelf.listed("t") == [*left, 6]


def test_versions_are_deleted_on_every_store(five):
    location = five.location("t")
    assert five.delete("t", (1, 3)) == 2
    assert five.delete("t", (1, 3)) == 0
    assert five.listed("t") == [3, 4, 5]
    assert len(five.files(location)) == 3
    assert five.rows("t") == [1, 2, 3, 4, 5]


def test_the_latest_version_stays(near_shelf):
    shelf = near_shelf
    location = shelf.create("t", *([number] for number in range(1, 6)))
    for ranges in ([(5, 6)], [(0, -1)], [(5, -1)], [(1, 3), (4, 6)], [(1, 100)]):
        with fails(19, "latest"):
            shelf.delete("t", *ranges)
        assert shelf.listed("t") == [1, 2, 3, 4, 5]
        assert len(shelf.files(location)) == 5
    assert shelf.delete("t", (1, 5)) == 4


def test_bad_ranges(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1], [2], [3])
    for bad in ((3, 1), (-1, 2), (2, -2), (-1, -1)):
        with fails(13):
            shelf.delete("t", (1, 2), bad)
        assert shelf.listed("t") == [1, 2, 3]


def test_missing_versions_are_an_error_if_asked_for(near_shelf):
    shelf = near_shelf
    shelf.create("t", *([number] for number in range(1, 6)))
    assert shelf.delete("t", (2, 3), context={"ignore_missing": "false"}) == 1
    for ranges in ([(2, 3)], [(1, 4)], [(7, 9)], [(3, 4), (9, 10)]):
        with fails(11):
            shelf.delete("t", *ranges, context={"ignore_missing": "false"})
        assert shelf.listed("t") == [1, 3, 4, 5]
    assert shelf.delete("t", (1, 4), context={"ignore_missing": "true"}) == 2
    assert shelf.listed("t") == [4, 5]


def test_a_deleted_version_does_not_come_again(managed_shelf):
    """Not by the next writer, and not when the files decide again."""
    shelf = managed_shelf
    shelf.create("t", [1], [2], [3])
    shelf.delete("t", (1, 2))
    shelf.append("t", [4])
    assert shelf.version_rows() == {shelf.key("t"): [2, 3, 4]}
    shelf.ns.disable_table_version_management()
    assert shelf.listed("t") == [2, 3, 4]
    shelf.ns.enable_table_version_management()
    assert shelf.version_rows() == {shelf.key("t"): [2, 3, 4]}


@pytest.fixture
def deleted_parent(shelf):
    """Give a table `t` with a branch `a/b`, and a branch `a` that pylance deleted; its files stay as long as `a/b`."""
    shelf.create("t", [1])
    for name in ("a", "a/b"):
        shelf.ns.create_table_branch({"id": shelf.id("t"), "name": name})
    shelf.ns.insert_into_table({"id": shelf.id("t"), "branch": "a"}, ipc({"x": [2]}))
    shelf.open_plain("t").branches.delete("a")
    return shelf


def test_versions_of_a_deleted_branch_are_gone_while_a_branch_below_it_exists(deleted_parent):
    shelf = deleted_parent
    for branch in ("a", "a/", "a//b", "./a", "b"):
        with fails(22):
            shelf.listed("t", branch=branch)
        for version in (None, 1, 2):
            with fails(22):
                shelf.ns.describe_table_version({"id": shelf.id("t"), "version": version, "branch": branch})
        with fails(22):
            shelf.delete("t", (1, 2), branch=branch)
        with fails(22):
            describe_table(shelf.ns, *shelf.id("t"), branch=branch)
    assert shelf.listed("t", branch="a/b") == [1]
    assert shelf.ns.describe_table_version({"id": shelf.id("t"), "branch": "a/b"}).version.version == 1


def test_a_deleted_branch_is_created_again_at_once_while_a_branch_below_it_exists(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1])
    for name in ("a", "a/b"):
        shelf.ns.create_table_branch({"id": shelf.id("t"), "name": name})
    shelf.ns.insert_into_table({"id": shelf.id("t"), "branch": "a"}, ipc({"x": [2]}))
    shelf.ns.delete_table_branch({"id": shelf.id("t"), "name": "a"})
    shelf.ns.create_table_branch({"id": shelf.id("t"), "name": "a"})
    assert shelf.listed("t", branch="a") == [1]
    assert shelf.open_plain("t").checkout_version(("a", None)).count_rows() == 1
    assert shelf.open_plain("t").checkout_version(("a/b", None)).count_rows() == 1
