"""The policy file: what it grants, its problems with their lines, and its changes while a server runs."""

from __future__ import annotations

import logging

import pytest

from pennon.errors import InvalidInputError, UnauthenticatedError
from pennon.server.permissions import policy_file
from pennon.server.permissions.guard import PolicyGuard
from pennon.server.permissions.keys import create_key
from pennon.server.permissions.policy import parse_policy
from pennon.server.permissions.policy_file import PolicyFile
from pennon.server.permissions.rights import Principal, Right
from pennon.server.permissions.users import TOKEN_USER, Users
from pennon.yaml_documents.problems import InvalidFileError
from tests.server.permissions.policies import write_policy
from tests.support import fails

POLICY = """
issuers:
  - name: corp
    issuer: https://login.example.com
    audience: pennon
groups:
  analysts: [ann, corp:17]
grants:
  - {role: reader, namespace: sales, to: ann}
  - {role: writer, table: sales.eu.orders, to: [bob, group:corp:loaders]}
  - {role: owner, namespace: sales.eu, to: group:analysts}
  - {role: admin, namespace: /, to: root}
"""
SEE, READ, WRITE, CREATE, MANAGE, ADMINISTER = Right
READER = {SEE, READ}
WRITER = {*READER, WRITE}
OWNER = {*WRITER, CREATE, MANAGE}


@pytest.mark.parametrize(
    ("who", "kind", "identifier", "rights"),
    [
        ("ann", "namespace", "sales", READER),
        ("ann", "table", "sales.t", READER),
        ("ann", "table", "sales.us.t", READER),
        ("ann", "namespace", "sales.eu", OWNER),
        ("ann", "table", "sales.eu.orders", OWNER),
        ("ann", "table", "sales", set()),
        ("ann", "table", "sales2.t", set()),
        ("ann", "namespace", "sale", set()),
        ("ann", "namespace", "", {SEE}),
        ("bob", "table", "sales.eu.orders", WRITER),
        ("bob", "namespace", "sales.eu.orders", set()),
        ("bob", "table", "sales.eu.orders.x", set()),
        ("bob", "namespace", "sales.eu", {SEE}),
        ("bob", "namespace", "sales", {SEE}),
        ("bob", "table", "sales.eu.others", set()),
        ("bob", "namespace", "sales.us", set()),
        ("corp:17", "table", "sales.eu.others", OWNER),
        ("corp:18", "table", "sales.eu.others", set()),
        ("17", "table", "sales.eu.others", set()),
        ("root", "namespace", "", set(Right)),
        ("root", "table", "anything.at.all", set(Right)),
        ("nobody", "namespace", "", {SEE}),
        ("nobody", "namespace", "sales", set()),
    ],
)
def test_rights(who, kind, identifier, rights):
    policy = parse_policy(POLICY, "policy.yaml")
    names = tuple(identifier.split(".")) if identifier else ()
    assert policy.rights(Principal(who), names, kind) == rights


def test_groups_of_a_token_have_grants():
    policy = parse_policy(POLICY, "policy.yaml")
    loader = Principal("corp:5", frozenset({"corp:loaders"}))
    assert policy.rights(loader, ("sales", "eu", "orders"), "table") == WRITER
    # A group of a provider is not a group of the file.
    assert policy.rights(Principal("corp:5", frozenset({"corp:analysts"})), ("sales", "eu"), "namespace") == set()


def test_all_problems_are_reported_with_their_lines():
    key = create_key()
    text = f"""\
keys:
  - {{user: ann, id: "{key.id}", hash: "{key.text}"}}
  - {{user: token, id: "{key.id}", hash: "{key.hash}", expires: soon}}
issuers:
  - {{name: corp, issuer: "http://login.example.com", audience: a, algorithms: [none]}}
  - {{name: two, issuer: "https://two.example.com", algorithms: HS256, audience: a}}
group: {{}}
grants:
  - {{role: king, namespace: sales, to: ann}}
  - {{role: reader, namespace: sales, table: sales.t, to: ann}}
  - {{role: reader, table: "sales..t", to: []}}
  - {{role: reader, table: sales.t, tos: ann}}
  - {{role: reader, table: sales.t, to: ann, to: bob}}
"""
    with pytest.raises(InvalidFileError) as caught:
        parse_policy(text, "p.yaml")
    message = str(caught.value)
    assert [(one.line, one.path) for one in caught.value.problems if "unknown key" in one.message] == [
        (7, ("group",)),
        (12, ("grants", 3, "tos")),
    ]
    lines = {one.line for one in caught.value.problems}
    assert lines == {2, 3, 5, 6, 7, 9, 10, 11, 12, 13}
    assert "p.yaml:7: group: unknown key; did you mean 'groups'?" in message
    assert "p.yaml:9: grants[0].role: must be one of" in message
    assert key.text[10:30] not in message


def test_names_that_do_not_exist_are_problems():
    text = """\
groups: {readers: [ann, group:x, nowhere:ann]}
grants:
  - {role: reader, namespace: a, to: group:reader}
  - {role: reader, namespace: a, to: [elsewhere:ann, group:elsewhere:all]}
"""
    with pytest.raises(InvalidFileError) as caught:
        parse_policy(text, "p.yaml")
    assert [one.line for one in caught.value.problems] == [1, 1, 3, 4, 4]
    assert "there is no group 'reader'; did you mean 'readers'?" in str(caught.value)


@pytest.mark.parametrize("text", ["", "- a", "a: [", "!!python/object:os.system {}", "grants: &a [*a]", "\xff"])
def test_what_is_no_policy_raises(text):
    with pytest.raises(InvalidInputError, match=r"p\.yaml"):
        parse_policy(text.encode("latin-1"), "p.yaml")


def test_keys_belong_to_their_users(tmp_path):
    written = write_policy(tmp_path / "p.yaml", ["ann", "bob"], "grants: []\n")
    users = Users(PolicyFile.open(written.file), token="the-token-of-the-server")
    assert users.authenticate(written.keys["ann"]) == Principal("ann")
    assert users.authenticate(written.keys["bob"]) == Principal("bob")
    assert users.authenticate("the-token-of-the-server") is TOKEN_USER
    ann = written.keys["ann"]
    other = ann[:-1] + ("0" if ann[-1] != "0" else "1")
    for wrong in (other, ann.upper(), ann + " ", ann[4:], create_key().text, "", "pnk_", "a.b.c", "ünïcode"):
        with pytest.raises(UnauthenticatedError) as caught:
            users.authenticate(wrong)
        assert not wrong or wrong not in str(caught.value)
    text = written.file.read_text()
    assert all(key.rpartition("_")[2] not in text for key in written.keys.values())


def test_expired_keys_are_refused(tmp_path):
    key = create_key()
    for expires, valid in (("2020-01-31", False), ("2020-01-31T12:00:00Z", False), ("2999-01-31", True)):
        (tmp_path / "p.yaml").write_text(f"keys:\n  {key.line('ann', expires)}\n")
        users = Users(PolicyFile.open(tmp_path / "p.yaml"))
        if valid:
            assert users.authenticate(key.text) == Principal("ann")
        else:
            with pytest.raises(UnauthenticatedError, match="expired"):
                users.authenticate(key.text)


def test_a_change_is_in_force_and_an_invalid_one_is_not(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(policy_file, "CHECK_SECONDS", 0.0)
    written = write_policy(tmp_path / "p.yaml", ["ann"], "grants: [{role: reader, namespace: a, to: ann}]\n")
    source = PolicyFile.open(written.file)
    guard, users, ann = PolicyGuard(source), Users(source), Principal("ann")
    guard.require(ann, Right.READ, ("a", "t"), kind="table")
    with fails(15):
        guard.require(ann, Right.WRITE, ("a", "t"), kind="table")
    good = written.file.read_text()
    written.file.write_text(good.replace("reader", "writer"))
    guard.require(ann, Right.WRITE, ("a", "t"), kind="table")
    with caplog.at_level(logging.ERROR):
        written.file.write_text(good.replace("reader", "emperor"))
        guard.require(ann, Right.WRITE, ("a", "t"), kind="table")
        written.file.unlink()
        guard.require(ann, Right.WRITE, ("a", "t"), kind="table")
    assert "emperor" in caplog.text
    assert "Cannot read the policy" in caplog.text
    written.file.write_text("grants: []\n")
    with fails(1):
        guard.require(ann, Right.READ, ("a", "t"), kind="table")
    with pytest.raises(UnauthenticatedError):
        users.authenticate(written.keys["ann"])


def test_what_cannot_be_seen_is_not_found():
    guard = PolicyGuard(_Fixed())
    bob = Principal("bob")
    cases = [
        (Right.READ, "table", ("sales", "eu", "others"), 4, "Table not found: 'sales.eu.others'"),
        (Right.READ, "table", ("sales", "us", "t"), 1, "Namespace not found: 'sales.us'"),
        (Right.SEE, "namespace", ("sales", "us"), 1, "Namespace not found: 'sales.us'"),
        (Right.CREATE, "table", ("sales", "us", "t"), 1, "parent of 'sales.us.t'"),
        (Right.CREATE, "table", ("sales", "eu", "new"), 15, "'create' on table 'sales.eu.new'"),
        (Right.READ, "namespace", ("sales",), 15, "'read' on namespace 'sales'"),
        (Right.MANAGE, "table", ("sales", "eu", "orders"), 15, "bob needs the right 'manage'"),
    ]
    for right, kind, identifier, code, text in cases:
        with fails(code, text):
            guard.require(bob, right, identifier, kind=kind)
    names = [("sales", "eu", name) for name in ("a", "orders", "z")]
    assert guard.visible(bob, names, kind="table") == [("sales", "eu", "orders")]


class _Fixed:
    def current(self):
        return parse_policy(POLICY, "policy.yaml")
