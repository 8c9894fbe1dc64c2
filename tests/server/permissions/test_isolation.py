"""What one user learns of the tables of another: nothing, by any operation."""

from __future__ import annotations

import pytest

from tests.server.http_client import namespace_path, table_path
from tests.server.permissions.test_matrix import BY_ID, LANCE, filled
from tests.support import create_namespace, create_table

ONE_OBJECT = [case for case in LANCE if "{id}" in BY_ID[case.name].path]


def ask(client, case, *names: str):
    """Send the request of a case about an object; return the answer without the names in it."""
    operation = BY_ID[case.name]
    identifier = "%24".join([*names, "transaction"] if "ransaction" in case.name else names)
    path = operation.path.replace("{id}", identifier).replace("{index_name}", "none")
    body = case.body if isinstance(case.body, bytes) else filled(case.body, {"table": "t", "new": "new"})
    answer = client.call(operation.method, f"{path}?{case.query}", body)
    text = str(answer.body)
    for number, name in enumerate(names):
        text = (
            text.replace(f"'{name}", f"'X{number}")
            .replace(f".{name}", f".X{number}")
            .replace(f"${name}", f"$X{number}")
        )
        text = text.replace(f"/{name}", f"/X{number}")
    return answer.status, text, sorted(set(answer.headers) - {"date"})


@pytest.mark.parametrize("case", ONE_OBJECT, ids=lambda case: f"{case.name}-{case.least}")
def test_tables_of_others_are_answered_as_missing_ones(secured, case):
    ann = secured.lance["ann"]
    if case.least == "root":
        return
    there, missing = ask(ann, case, "bobs", "his_table"), ask(ann, case, "gone_space", "gone_table")
    assert there == missing
    assert ask(ann, case, "bobs", "other_table") == there
    # Also beside tables that ann can see, and in namespaces that she can see for their sake.
    assert ask(ann, case, "shared", "deep", "two") == ask(ann, case, "shared", "deep", "absent")
    assert ask(ann, case, "shared", "deep", "m07") == ask(ann, case, "shared", "deep", "absent")
    assert ask(ann, case, "shared", "hidden") == ask(ann, case, "shared", "missing")


READS = ["TableExists", "DescribeTable", "CountTableRows", "ListTableTags", "InsertIntoTable", "DropTable"]


@pytest.mark.parametrize("name", READS)
def test_the_answer_is_the_one_that_admins_get_for_a_missing_table(secured, name):
    case = next(one for one in LANCE if one.name == name)
    for names in (
        ("shared", "deep", "absent"),
        ("gone_space", "gone_table"),
        ("gone_space", "gone_deep", "gone_table"),
    ):
        assert ask(secured.lance["ann"], case, *names) == ask(secured.lance["root"], case, *names)
    case = next(one for one in LANCE if one.name == "NamespaceExists")
    for names in (("gone_space",), ("gone_space", "gone_table"), ("shared", "missing")):
        assert ask(secured.lance["ann"], case, *names) == ask(secured.lance["root"], case, *names)


def test_creating_in_a_hidden_namespace_fails_as_in_a_missing_one(secured):
    for name in ("CreateTable", "DeclareTable", "CreateNamespace"):
        case = next(one for one in LANCE if one.name == name)
        by_ann = ask(secured.lance["ann"], case, "gone_space", "gone_table")
        assert by_ann[0] == ask(secured.lance["root"], case, "gone_space", "gone_table")[0] == 404
        assert ask(secured.lance["ann"], case, "bobs", "new_table") == ask(
            secured.lance["ann"], case, "gone_space", "gone_table"
        )


def test_batches_with_a_table_of_somebody_else_are_answered_as_with_a_missing_one(secured, secured_catalog):
    ann = secured.lance["ann"]
    create_table(secured_catalog, "anns", "batched")

    def commit(*names: str):
        operations = [{"deregister_table": {"id": list(one)}} for one in (("anns", "batched"), names)]
        answer = ann.call("POST", "/table/batch-commit", {"operations": operations})
        return answer.status, str(answer.body).replace(names[-1], "X").replace(names[0], "X")

    assert commit("bobs", "his_table") == commit("gone_space", "gone_table")
    assert ann.call("POST", "/table/anns%24batched/exists", {}).status == 200


def listed(client, path: str, field: str, limit: int | None = None) -> list[list[str]]:
    """Return all pages of a listing."""
    pages, token = [], None
    while True:
        query = "&".join([*([f"limit={limit}"] if limit else []), *([f"page_token={token}"] if token else [])])
        answer = client.call("GET", f"{path}?{query}")
        assert answer.status == 200, answer
        pages.append(answer.body[field])
        token = answer.body.get("page_token")
        if not token:
            return pages


def test_listings_show_only_what_is_visible(secured):
    ann, bob = secured.lance["ann"], secured.lance["bob"]
    assert listed(ann, "/namespace/%24/list", "namespaces") == [["anns", "shared"]]
    assert listed(bob, "/namespace/%24/list", "namespaces") == [["bobs", "shared"]]
    assert listed(secured.lance["nobody"], "/namespace/%24/list", "namespaces") == [[]]
    assert listed(ann, "/namespace/shared/list", "namespaces") == [["deep"]]
    assert listed(ann, "/namespace/shared%24deep/list", "namespaces") == [[]]
    assert listed(ann, "/namespace/shared%24deep/table/list", "tables") == [["one"]]
    assert listed(bob, "/namespace/shared%24deep/table/list", "tables") == [["one", "two"]]
    tables = [name for page in listed(bob, "/table", "tables") for name in page]
    assert tables == ["bobs$his_table", "shared$deep$one", "shared$deep$two"]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_and_tokens_depend_on_visible_names_only(secured, limit):
    bob = secured.lance["bob"]
    pages = listed(bob, "/namespace/shared%24deep/table/list", "tables", limit)
    assert pages == ([["one"], ["two"]] if limit == 1 else [["one", "two"]])
    assert listed(bob, "/namespace/shared%24deep/list", "namespaces", limit) == [[]]
    # The token after a visible table is the same, however many tables that bob cannot see follow it.
    assert listed(secured.lance["ann"], "/namespace/shared%24deep/table/list", "tables", limit) == [["one"]]
    for client, path, key in (
        (secured.iceberg["ann"], namespace_path("shared", "deep") + "/tables", "identifiers"),
        (secured.iceberg["ann"], "/namespaces?parent=shared%1Fdeep", "namespaces"),
    ):
        join = "&" if "?" in path else "?"
        body = client.get(f"{path}{join}pageSize={limit}").body
        assert [one["name"] for one in body[key]] == (["one"] if key == "identifiers" else [])
        assert not body.get("next-page-token")


def test_iceberg_answers_for_hidden_objects_as_for_missing_ones(secured):
    ann, root = secured.iceberg["ann"], secured.iceberg["root"]

    def answers(client, *names: str):
        table, space = table_path(*names), namespace_path(*names[:-1])
        change = {"requirements": [], "updates": []}
        rename = {
            "source": {"namespace": list(names[:-1]), "name": names[-1]},
            "destination": {"namespace": ["anns"], "name": "stolen"},
        }
        found = [
            client.get(table),
            client.call("HEAD", table),
            client.call("DELETE", table),
            client.call("POST", table, change),
            client.call("POST", "/tables/rename", rename),
            client.get(space) if names[0] != "shared" else client.get(table),
            client.get(space + "/tables") if names[0] != "shared" else client.get(table),
        ]
        return [(one.status, str(one.body).replace(names[-1], "X").replace(names[0], "X")) for one in found]

    assert (
        answers(ann, "bobs", "his_table")
        == answers(ann, "gone_space", "gone_table")
        == answers(root, "gone_space", "gone_table")
    )
    assert answers(ann, "shared", "deep", "two") == answers(ann, "shared", "deep", "absent")
    assert answers(ann, "shared", "deep", "absent") == answers(root, "shared", "deep", "absent")


def test_requests_without_a_user_are_refused_in_both_protocols(secured):
    lance, iceberg = secured.lance["ann"], secured.iceberg["ann"]
    for token in ("", "Bearer", "Bearer pnk_0000", "Basic YTpi", "Bearer a.b.c"):
        answer = lance.call("GET", "/namespace/%24/list", None, Authorization=token)
        assert answer.lance_error == (401, 16)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert iceberg.get("/config", Authorization=token).error == (401, "NotAuthorizedException")


def test_owners_work_in_their_namespace(secured, secured_catalog):
    create_namespace(secured_catalog, "anns", "inner")
    ann = secured.lance["ann"]
    assert ann.call("POST", "/table/anns%24inner%24mine/declare", {}).status == 200
    assert ann.call("POST", "/table/anns%24inner%24mine/describe", {}).status == 200
    assert secured.lance["bob"].call("POST", "/table/anns%24inner%24mine/describe", {}).lance_error == (404, 1)
