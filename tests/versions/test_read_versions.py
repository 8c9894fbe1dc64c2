"""list_table_versions, describe_table_version and batch_delete_table_versions."""

from __future__ import annotations

import pytest
from lance_namespace import ListTableVersionsRequest

from tests.support import declare_table, describe_table, fails, ipc


@pytest.fixture
def five(shelf):
    """Return a shelf with a table `t` that has the versions 1 to 5."""
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


def test_list_returns_all_versions_with_their_details(five):
    answer = five.ns.list_table_versions({"id": five.id("t")})
    assert [one.version for one in answer.versions] == [5, 4, 3, 2, 1]
    assert answer.page_token is None
    folder = five._store.absolute(five._store.relative(five.location("t"))) + "/_versions/"
    for one in answer.versions:
        assert one.manifest_path == f"{folder}{2**64 - 1 - one.version:020}.manifest"
        assert one.manifest_size == five._store.size(five._store.from_absolute(one.manifest_path))
        assert one.timestamp_millis > 1_600_000_000_000
    assert five.list_versions("t", descending=False) == [1, 2, 3, 4, 5]
    assert five.list_versions("t", descending=True) == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("descending", [False, True])
def test_pages_of_every_size_contain_all_versions(near_shelf, descending):
    shelf = near_shelf
    shelf.create("t", *([number] for number in range(1, 6)))
    whole = [5, 4, 3, 2, 1] if descending else [1, 2, 3, 4, 5]
    for limit in range(1, 7):
        cut = [whole[start : start + limit] for start in range(0, 5, limit)]
        assert pages(shelf, limit, descending=descending) == cut
    assert shelf.list_versions("t", limit=1000, descending=descending) == whole


def test_pages_continue_while_versions_are_added_and_deleted(near_shelf):
    shelf = near_shelf
    shelf.create("t", *([number] for number in range(1, 6)))
    first = shelf.ns.list_table_versions({"id": shelf.id("t"), "limit": 2})
    assert [one.version for one in first.versions] == [5, 4]
    shelf.append("t", [6])
    shelf.delete("t", (4, 5))
    second = shelf.ns.list_table_versions({"id": shelf.id("t"), "limit": 2, "page_token": first.page_token})
    assert [one.version for one in second.versions] == [3, 2]


def test_bad_page_tokens_and_limits_are_refused(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1], [2])
    assert shelf.list_versions("t", limit=0) == []
    with fails(13):
        shelf.list_versions("t", limit=-1)
    for token in ("nonsense", "1", "p1.", "p1.%%%"):
        for limit in (None, 1, 2):
            with fails(13):
                shelf.ns.list_table_versions({"id": shelf.id("t"), "limit": limit, "page_token": token})


def test_describe_returns_one_version_or_the_latest(five):
    for version in range(1, 6):
        one = five.describe_version("t", version)
        assert one.version == version
        assert one.manifest_path.endswith(f"/_versions/{2**64 - 1 - version:020}.manifest")
        assert one.manifest_size == five._store.size(five._store.from_absolute(one.manifest_path))
    assert five.describe_version("t").version == 5
    assert five.ns.describe_table_version({"id": five.id("t"), "version": 3}).version.version == 3


def test_missing_versions_and_tables_raise_not_found(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1])
    for version in (0, 2, 99, 2**62):
        with fails(11, str(version)):
            shelf.describe_version("t", version)
    for call in (shelf.list_versions, shelf.describe_version, lambda name: shelf.describe_version(name, 1)):
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


def test_declared_table_has_no_versions(near_shelf):
    shelf = near_shelf
    declare_table(shelf.ns, *shelf.id("t"))
    for limit in (None, 1, 2):
        assert shelf.list_versions("t", limit=limit) == []
        assert shelf.list_versions("t", limit=limit, descending=True) == []
    for version in (None, 1):
        with fails(11):
            shelf.describe_version("t", version)
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
    assert shelf.list_versions("t") == left
    assert len(shelf.files(location)) == len(left)
    for version in range(1, 6):
        if version in left:
            assert shelf.describe_version("t", version).version == version
        else:
            with fails(11):
                shelf.describe_version("t", version)
    if shelf.is_managed:
        assert shelf.version_rows() == {shelf.key("t"): left}
    assert shelf.rows("t") == shelf.plain_rows("t") == [1, 2, 3, 4, 5]
    assert shelf.append("t", [6]) == 6
    assert shelf.list_versions("t") == [*left, 6]


def test_versions_are_deleted_on_every_store(five):
    location = five.location("t")
    assert five.delete("t", (1, 3)) == 2
    assert five.delete("t", (1, 3)) == 0
    assert five.list_versions("t") == [3, 4, 5]
    assert len(five.files(location)) == 3
    assert five.rows("t") == [1, 2, 3, 4, 5]


def test_deleting_the_latest_version_is_refused(near_shelf):
    shelf = near_shelf
    location = shelf.create("t", *([number] for number in range(1, 6)))
    for ranges in ([(5, 6)], [(0, -1)], [(5, -1)], [(1, 3), (4, 6)], [(1, 100)]):
        with fails(19, "latest"):
            shelf.delete("t", *ranges)
        assert shelf.list_versions("t") == [1, 2, 3, 4, 5]
        assert len(shelf.files(location)) == 5
    assert shelf.delete("t", (1, 5)) == 4


def test_bad_ranges_are_refused(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1], [2], [3])
    for bad in ((3, 1), (-1, 2), (2, -2), (-1, -1)):
        with fails(13):
            shelf.delete("t", (1, 2), bad)
        assert shelf.list_versions("t") == [1, 2, 3]


def test_missing_versions_raise_if_requested(near_shelf):
    shelf = near_shelf
    shelf.create("t", *([number] for number in range(1, 6)))
    assert shelf.delete("t", (2, 3), context={"ignore_missing": "false"}) == 1
    for ranges in ([(2, 3)], [(1, 4)], [(7, 9)], [(3, 4), (9, 10)]):
        with fails(11):
            shelf.delete("t", *ranges, context={"ignore_missing": "false"})
        assert shelf.list_versions("t") == [1, 3, 4, 5]
    assert shelf.delete("t", (1, 4), context={"ignore_missing": "true"}) == 2
    assert shelf.list_versions("t") == [4, 5]


def test_deleted_version_does_not_reappear(managed_shelf):
    """Neither by the next commit, nor when version management is turned off."""
    shelf = managed_shelf
    shelf.create("t", [1], [2], [3])
    shelf.delete("t", (1, 2))
    shelf.append("t", [4])
    assert shelf.version_rows() == {shelf.key("t"): [2, 3, 4]}
    shelf.ns.disable_table_version_management()
    assert shelf.list_versions("t") == [2, 3, 4]
    shelf.ns.enable_table_version_management()
    assert shelf.version_rows() == {shelf.key("t"): [2, 3, 4]}


@pytest.fixture
def deleted_parent(shelf):
    """Return a table `t` with a branch `a/b` and a deleted branch `a`, whose files remain as long as `a/b` exists."""
    shelf.create("t", [1])
    for name in ("a", "a/b"):
        shelf.ns.create_table_branch({"id": shelf.id("t"), "name": name})
    shelf.ns.insert_into_table({"id": shelf.id("t"), "branch": "a"}, ipc({"x": [2]}))
    shelf.open_plain("t").branches.delete("a")
    return shelf


def test_deleted_branch_has_no_versions_while_a_child_branch_exists(deleted_parent):
    shelf = deleted_parent
    for branch in ("a", "a/", "a//b", "./a", "b"):
        with fails(22):
            shelf.list_versions("t", branch=branch)
        for version in (None, 1, 2):
            with fails(22):
                shelf.ns.describe_table_version({"id": shelf.id("t"), "version": version, "branch": branch})
        with fails(22):
            shelf.delete("t", (1, 2), branch=branch)
        with fails(22):
            describe_table(shelf.ns, *shelf.id("t"), branch=branch)
    assert shelf.list_versions("t", branch="a/b") == [1]
    assert shelf.ns.describe_table_version({"id": shelf.id("t"), "branch": "a/b"}).version.version == 1


def test_deleted_branch_can_be_created_again_while_a_child_branch_exists(near_shelf):
    shelf = near_shelf
    shelf.create("t", [1])
    for name in ("a", "a/b"):
        shelf.ns.create_table_branch({"id": shelf.id("t"), "name": name})
    shelf.ns.insert_into_table({"id": shelf.id("t"), "branch": "a"}, ipc({"x": [2]}))
    shelf.ns.delete_table_branch({"id": shelf.id("t"), "name": "a"})
    shelf.ns.create_table_branch({"id": shelf.id("t"), "name": "a"})
    assert shelf.list_versions("t", branch="a") == [1]
    assert shelf.open_plain("t").checkout_version(("a", None)).count_rows() == 1
    assert shelf.open_plain("t").checkout_version(("a/b", None)).count_rows() == 1
