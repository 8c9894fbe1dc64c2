"""The commands `pennon access`: keys, checks and explanations of a policy."""

from __future__ import annotations

import pytest

POLICY = """\
issuers:
  - {name: corp, issuer: "https://login.example.com", audience: pennon}
grants:
  - {role: reader, namespace: prod, to: [ann, group:corp:staff]}
  - {role: owner, table: prod.events, to: bob}
"""


@pytest.fixture
def policy(root):
    root.mkdir()
    file = root / "policy.yaml"
    file.write_text(POLICY)
    return file


def test_a_new_key_fits_the_line_for_the_policy(pennon, root, policy):
    result = pennon("access", "key", "ann", "--days", "30", root=root)
    assert result.code == 0
    policy.write_text(f"keys:\n  {result.json['line']}\n{POLICY}")
    checked = pennon("access", "check", "--policy", str(policy), root=root)
    assert checked.json == {"keys": 1, "issuers": 1, "grants": 3}
    assert result.json["key"] not in result.json["line"]
    assert pennon("access", "key", "token", root=root).code == 2
    assert pennon("access", "key", "a: b", root=root).code == 2


def test_check_shows_all_problems(pennon, root, policy):
    policy.write_text("grants:\n  - {role: king, namespace: a, to: ann}\nother: 1\n")
    result = pennon("access", "check", "--policy", str(policy), root=root)
    assert result.code == 2
    assert f"{policy}:2: grants[0].role" in result.err
    assert f"{policy}:3: other: unknown key" in result.err


@pytest.mark.parametrize(
    ("arguments", "allowed", "reason"),
    [
        (["ann", "read", "prod.events"], True, "policy.yaml:4 grants reader on namespace 'prod' to ann"),
        (["ann", "QueryTable", "prod.events"], True, "policy.yaml:4 grants reader"),
        (["ann", "write", "prod.events"], False, "it needs a role of writer, owner, admin"),
        (
            ["ann", "write", "prod.events"],
            False,
            "on namespace 'prod' to ann, which is not enough",
        ),
        (["ann", "read", "other.events"], False, "'other.events' is not visible"),
        (["bob", "see", "prod", "--namespace"], True, "makes the namespaces above it visible"),
        (["bob", "read", "prod.other"], False, "is not visible"),
        (["corp:7", "read", "prod.events"], False, "no grant to corp:7 has"),
        (["corp:7", "read", "prod.events", "--group", "corp:staff"], True, "to group:corp:staff"),
        (["eve", "see", "/", "--namespace"], True, "everybody"),
    ],
)
def test_explain_names_the_grant(pennon, policy, arguments, allowed, reason):
    result = pennon("access", "explain", *arguments, "--policy", str(policy))
    assert result.code == 0
    assert result.json["allowed"] is allowed
    assert any(reason in one for one in result.json["reasons"]), result.json


def test_explain_needs_a_known_action_and_a_policy(pennon, root, policy, monkeypatch):
    unknown = pennon("access", "explain", "ann", "fly", "prod.events", "--policy", str(policy), root=root)
    assert (unknown.code, "known: see, read" in unknown.err) == (2, True)
    assert pennon("access", "explain", "ann", "read", "prod.events", root=root).code == 2
    monkeypatch.setenv("PENNON_SERVE_POLICY", str(policy))
    assert pennon("access", "explain", "ann", "read", "prod.events", root=root).json["allowed"]
