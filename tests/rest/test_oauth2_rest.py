"""Tokens of an OAuth2 server: fetched, renewed, and never shown."""

from __future__ import annotations

from urllib.parse import parse_qs

import pyarrow as pa
import pytest

from pennon import RestNamespace
from pennon.errors import UnauthenticatedError
from tests.iceberg.hostile import Reply
from tests.support import create_namespace, list_namespaces

LIST = "GET /v1/namespace/%24/list"
INSERT = "POST /v1/table/t/insert"
TOKENS = "POST /tokens"


@pytest.fixture
def client(hostile):
    hostile.answer(LIST, Reply(body={"namespaces": ["a"]}))
    with RestNamespace(
        uri=hostile.uri,
        credential="id:se:cret",
        retry_timeout="1s",
        **{"oauth2-server-uri": f"{hostile.uri}/tokens", "scope": "lake", "audience": "aud", "resource": "res"},
    ) as opened:
        yield opened


def token(text: str, **more: object) -> Reply:
    return Reply(body={"access_token": text, "token_type": "bearer", **more})


def sent(hostile, route: str) -> list[str | None]:
    return [
        one.headers.get("Authorization")
        for one in hostile.asked
        if f"{one.method} {one.path}".partition("?")[0] == route
    ]


def test_a_token_is_fetched_once(hostile, client):
    hostile.answer(TOKENS, token("one", expires_in=3600))
    list_namespaces(client)
    list_namespaces(client)
    assert sent(hostile, LIST) == ["Bearer one"] * 2
    (asked,) = (one for one in hostile.asked if one.path == "/tokens")
    assert {key: value[0] for key, value in parse_qs(asked.body.decode()).items()} == {
        "grant_type": "client_credentials",
        "client_id": "id",
        "client_secret": "se:cret",
        "scope": "lake",
        "audience": "aud",
        "resource": "res",
    }


def test_a_token_is_renewed_before_it_expires(hostile, client):
    hostile.answer(TOKENS, token("one", expires_in=0.001), token("two"))
    list_namespaces(client)
    list_namespaces(client)
    assert sent(hostile, LIST)[-1] == "Bearer two"


def test_a_refused_token_is_renewed_once(hostile, client):
    hostile.answer(TOKENS, token("one"), token("two"), token("three"))
    hostile.answer("POST /v1/namespace/n/create", Reply(401), Reply(body={}), Reply(401))
    create_namespace(client, "n")
    changes = [one for one in hostile.asked if one.path.startswith("/v1/namespace/n/create")]
    assert [one.headers["Authorization"] for one in changes] == ["Bearer one", "Bearer two"]
    assert len({one.headers["Idempotency-Key"] for one in changes}) == 1
    with pytest.raises(UnauthenticatedError):
        create_namespace(client, "n")
    assert hostile.count(TOKENS) == 3


def test_rows_of_a_reader_are_not_sent_again_with_a_new_token(hostile, client):
    hostile.answer(TOKENS, token("one"), token("two"))
    hostile.answer(INSERT, Reply(401))
    with pytest.raises(UnauthenticatedError):
        client.insert_into_table({"id": ["t"]}, pa.table({"x": [1]}).to_reader())
    assert hostile.count(INSERT) == 1


def test_a_refused_credential_is_named_and_no_secret_is_shown(hostile, client):
    hostile.answer(TOKENS, Reply(401, {"error": "invalid_client"}))
    with pytest.raises(UnauthenticatedError, match="/tokens refused the credential") as caught:
        list_namespaces(client)
    assert "se:cret" not in str(caught.value)
    hostile.answer(TOKENS, token("fetched-secret"))
    hostile.answer(LIST, Reply(400, {"code": 13, "error": "id:se:cret fetched-secret"}))
    with pytest.raises(Exception, match=r"\*\*\*") as shown:
        list_namespaces(client)
    assert "secret" not in str(shown.value)
    assert "se:cret" not in repr(client) + repr(client._settings)
