"""Tags: names for versions."""

from __future__ import annotations

import pytest
from lance_namespace import (
    CreateTableBranchRequest,
    CreateTableTagRequest,
    DeleteTableTagRequest,
    DescribeTableRequest,
    GetTableTagVersionRequest,
    ListTableTagsRequest,
    UpdateTableTagRequest,
)

from tests.support import declare_table, fails
from tests.table.tables import append, by_path, numbers, opened, version


def create(ns, tag, at=1, **options):
    return ns.create_table_tag(CreateTableTagRequest(id=["t"], tag=tag, version=at, **options))


def update(ns, tag, at, **options):
    return ns.update_table_tag(UpdateTableTagRequest(id=["t"], tag=tag, version=at, **options))


def delete(ns, tag):
    return ns.delete_table_tag(DeleteTableTagRequest(id=["t"], tag=tag))


def get(ns, tag):
    return ns.get_table_tag_version(GetTableTagVersionRequest(id=["t"], tag=tag))


def listed(ns, **options):
    return ns.list_table_tags(ListTableTagsRequest(id=["t"], **options))


@pytest.fixture
def tagged(namespace):
    """Return a namespace whose table `t` has two versions."""
    numbers(namespace)
    append(namespace, "t", {"x": [10], "s": ["word10"]})
    return namespace


def test_a_tag_names_a_version(tagged):
    create(tagged, "first", 1)
    assert get(tagged, "first").version == 1
    assert get(tagged, "first").branch is None
    found = listed(tagged).tags
    assert list(found) == ["first"]
    assert found["first"].version == 1
    assert found["first"].branch is None
    assert found["first"].manifest_size > 0
    assert opened(tagged, version="first").count_rows() == 10


def test_creating_a_tag_creates_no_version(tagged):
    create(tagged, "first", 1)
    update(tagged, "first", 2)
    delete(tagged, "first")
    assert version(tagged) == 2


def test_a_table_without_tags_lists_none(tagged):
    answer = listed(tagged)
    assert answer.tags == {}
    assert not answer.page_token


def test_creating_an_existing_tag_raises_tag_exists(tagged):
    create(tagged, "first", 1)
    with fails(9, "first"):
        create(tagged, "first", 2)
    assert get(tagged, "first").version == 1


@pytest.mark.parametrize("at", [99, 3, 0])
def test_a_tag_of_a_missing_version_raises_version_not_found(tagged, at):
    with fails(11):
        create(tagged, "first", at)
    create(tagged, "first", 1)
    with fails(11):
        update(tagged, "first", at)
    assert get(tagged, "first").version == 1


def test_a_tag_of_a_version_beyond_64_bits_raises_version_not_found(ours):
    numbers(ours)
    with fails(11):
        create(ours, "first", 1 << 64)
    assert listed(ours).tags == {}


def test_an_update_moves_a_tag(tagged):
    create(tagged, "moving", 1)
    update(tagged, "moving", 2)
    assert get(tagged, "moving").version == 2
    assert opened(tagged, version="moving").count_rows() == 11


def test_a_missing_tag_raises_tag_not_found(tagged):
    create(tagged, "there", 1)
    for ask in (lambda: get(tagged, "gone"), lambda: update(tagged, "gone", 1), lambda: delete(tagged, "gone")):
        with fails(8, "gone"):
            ask()
    assert list(listed(tagged).tags) == ["there"]


def test_deleting_a_tag_keeps_its_version(tagged):
    create(tagged, "short", 1)
    delete(tagged, "short")
    assert listed(tagged).tags == {}
    assert opened(tagged, version=1).count_rows() == 10
    with fails(8):
        delete(tagged, "short")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "..", "x\n", "a\\b", ".lock"])
def test_an_invalid_tag_name_raises_invalid_input(tagged, name):
    with fails(13):
        create(tagged, name)
    assert listed(tagged).tags == {}


def test_tags_come_in_pages(tagged):
    names = [f"t{i}" for i in range(7)]
    for name in reversed(names):
        create(tagged, name)
    found, token = [], None
    while True:
        answer = listed(tagged, limit=3, page_token=token)
        assert len(answer.tags) <= 3
        found += list(answer.tags)
        token = answer.page_token
        if not token:
            break
    assert found == names


def test_a_bad_page_raises_invalid_input(ours):
    numbers(ours)
    for options in ({"page_token": "p1.what?"}, {"limit": -1}):
        with fails(13):
            listed(ours, **options)


def test_a_tag_can_name_a_version_of_a_branch(tagged):
    tagged.create_table_branch(CreateTableBranchRequest(id=["t"], name="side"))
    append(tagged, "t", {"x": [11, 12], "s": ["a", "b"]}, branch="side")
    create(tagged, "aside", 3, branch="side")
    assert (get(tagged, "aside").version, get(tagged, "aside").branch) == (3, "side")
    assert listed(tagged).tags["aside"].branch == "side"
    assert by_path(tagged, version="aside").count_rows() == 13
    with fails(11):
        create(tagged, "nowhere", 3)


def test_a_tag_on_a_branch_is_described_there(ours):
    numbers(ours)
    ours.create_table_branch({"id": ["t"], "name": "side"})
    append(ours, "t", {"x": [11, 12], "s": ["a", "b"]}, branch="side")
    create(ours, "aside", 2, branch="side")
    answer = ours.describe_table(DescribeTableRequest(id=["t"], tag="aside", load_detailed_metadata=True))
    assert answer.version == 2


def test_a_tag_of_a_missing_branch_raises_branch_not_found(tagged):
    with fails(22, "nowhere"):
        create(tagged, "first", 1, branch="nowhere")
    assert listed(tagged).tags == {}


def test_the_main_branch_has_a_name(tagged):
    create(tagged, "first", 1, branch="main")
    assert get(tagged, "first").branch is None


def test_tags_of_a_missing_table_raise_table_not_found(namespace):
    asks = (
        lambda: listed(namespace),
        lambda: create(namespace, "a"),
        lambda: update(namespace, "a", 1),
        lambda: delete(namespace, "a"),
        lambda: get(namespace, "a"),
    )
    for ask in asks:
        with fails(4):
            ask()


def test_tags_of_a_declared_table_raise_invalid_table_state(ours):
    declare_table(ours, "t")
    for ask in (lambda: listed(ours), lambda: create(ours, "a"), lambda: get(ours, "a")):
        with fails(19):
            ask()
