"""Who we are to a server, and that secrets stay secrets."""

from __future__ import annotations

import logging
import pickle
from urllib.parse import parse_qs

import pytest

from pennon import IcebergNamespace
from pennon import connect as connect_by_name
from pennon.errors import InvalidInputError
from tests.iceberg.hostile import HostileServer, Reply
from tests.support import fails, list_namespaces

SECRETS = {
    "token": "tok-very-secret",
    "credential": "client:cred-very-secret",
    "header.X-Api-Key": "header-very-secret",
    "storage.aws_secret_access_key": "storage-very-secret",
}


@pytest.fixture
def server():
    with HostileServer() as hostile:
        hostile.answer("GET /v1/namespaces", Reply(body={"namespaces": [["a"]]}))
        yield hostile


def sent(server, route: str) -> list[str | None]:
    return [one.headers.get("Authorization") for one in server.asked if f"{one.method} {one.path}" == route]


def token(text: str, **more: object) -> Reply:
    return Reply(body={"access_token": text, "token_type": "bearer", **more})


def test_no_authentication_sends_no_header(server, connect):
    list_namespaces(connect(server.uri))
    assert sent(server, "GET /v1/namespaces") == [None]


def test_a_bearer_token_and_headers_are_sent(server, connect):
    list_namespaces(connect(server.uri, token="tok", **{"header.X-Api-Key": "k"}))
    assert sent(server, "GET /v1/config") == sent(server, "GET /v1/namespaces") == ["Bearer tok"]
    assert server.asked[-1].headers["X-Api-Key"] == "k"


def test_client_credentials_are_exchanged_once(server, connect):
    server.answer("POST /v1/oauth/tokens", token("one", expires_in=3600))
    client = connect(server.uri, credential="id:se:cret", scope="PRINCIPAL", audience="aud", resource="res")
    list_namespaces(client)
    list_namespaces(client)
    asked = [one for one in server.asked if one.path == "/v1/oauth/tokens"]
    assert len(asked) == 1
    form = {key: value[0] for key, value in parse_qs(asked[0].body.decode()).items()}
    assert form == {
        "grant_type": "client_credentials",
        "client_id": "id",
        "client_secret": "se:cret",
        "scope": "PRINCIPAL",
        "audience": "aud",
        "resource": "res",
    }
    assert set(sent(server, "GET /v1/namespaces")) == {"Bearer one"}


def test_token_is_renewed_before_it_expires(server, connect):
    server.answer("POST /v1/oauth/tokens", token("one", expires_in=0.001), token("two"))
    client = connect(server.uri, credential="id:secret")
    list_namespaces(client)
    assert sent(server, "GET /v1/namespaces")[-1] == "Bearer two"
    assert server.count("POST /v1/oauth/tokens") == 2


@pytest.mark.parametrize("status", [401, 419])
def test_refused_request_authenticates_once_more(server, connect, status):
    server.answer("POST /v1/oauth/tokens", token("one"), token("two"))
    server.answer("GET /v1/namespaces", Reply(status), Reply(body={"namespaces": [["a"]]}))
    assert list_namespaces(connect(server.uri, credential="id:secret")) == ["a"]
    assert sent(server, "GET /v1/namespaces") == ["Bearer one", "Bearer two"]
    server.answer("GET /v1/namespaces", Reply(401))
    with fails(16):
        list_namespaces(connect(server.uri, credential="id:secret"))
    assert len(sent(server, "GET /v1/namespaces")) == 4


def test_a_refused_token_is_not_tried_again(server, connect):
    server.answer("GET /v1/namespaces", Reply(401))
    with fails(16):
        list_namespaces(connect(server.uri, token="tok"))
    assert server.count("GET /v1/namespaces") == 1


def test_token_comes_from_a_separate_server(server, connect):
    with HostileServer() as other:
        other.answer("POST /token", token("there"))
        list_namespaces(connect(server.uri, credential="only-a-secret", **{"oauth2-server-uri": f"{other.uri}/token"}))
        assert b"client_id" not in other.asked[0].body
    assert sent(server, "GET /v1/namespaces") == ["Bearer there"]


@pytest.mark.parametrize("reply", [Reply(400, {"error": "no"}), Reply(body={}), Reply(body=b"{"), token(5)])
def test_bad_answer_of_the_token_server_raises(server, connect, reply):
    server.answer("POST /v1/oauth/tokens", reply)
    with pytest.raises(Exception) as caught:
        list_namespaces(connect(server.uri, credential="id:cred-very-secret"))
    assert int(caught.value.code) in {16, 18}
    assert "very-secret" not in str(caught.value)


def test_secrets_show_nowhere(server, connect, caplog):
    caplog.set_level(logging.DEBUG)
    echo = " ".join(SECRETS.values()) + " tok-very-secret"
    server.answer("POST /v1/oauth/tokens", token("tok-very-secret"))
    server.answer("GET /v1/namespaces", Reply(400, {"error": {"message": echo, "type": "tok-very-secret"}}))
    client = connect(server.uri, **SECRETS)
    with pytest.raises(Exception) as caught:
        list_namespaces(client)
    texts = [str(caught.value), repr(caught.value), repr(client), repr(client._settings), client.namespace_id()]
    for text in (*texts, caplog.text):
        assert "very-secret" not in text
    assert pickle.loads(pickle.dumps(client))._settings == client._settings


def test_a_token_that_was_fetched_shows_nowhere_either(server, connect):
    server.answer("POST /v1/oauth/tokens", token("fetched-very-secret"))
    server.answer("GET /v1/namespaces", Reply(400, {"error": {"message": "Bearer fetched-very-secret is bad"}}))
    with pytest.raises(Exception) as caught:
        list_namespaces(connect(server.uri, credential="id:hunter22"))
    assert "fetched" not in str(caught.value)
    assert "is bad" in str(caught.value)


def test_requests_are_signed(server, connect):
    pytest.importorskip("botocore")
    keys = {"client.access-key-id": "AKID", "client.secret-access-key": "sign-very-secret"}
    signing = {"rest.sigv4-enabled": "true", "rest.signing-region": "eu-west-1", "rest.signing-name": "glue"}
    list_namespaces(connect(server.uri, **keys, **signing))
    header = sent(server, "GET /v1/namespaces")[0]
    assert header.startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert "/eu-west-1/glue/aws4_request" in header
    assert "very-secret" not in str(server.asked)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"uri": ""},
        {"uri": "localhost:8181"},
        {"uri": "ftp://x"},
        {"uri": "http://"},
        {"uri": "http://user:very-secret@x"},
        {"uri": "http://x?token=very-secret"},
        {"uri": "http://x:port"},
        {"uri": "http://x", "unknown": "1"},
        {"uri": "http://x", "managed_by": "me"},
        {"uri": "http://x", "rest-page-size": "0"},
        {"uri": "http://x", "rest-page-size": "many"},
        {"uri": "http://x", "read_timeout": "soon"},
        {"uri": "http://x", "rest.sigv4-enabled": "perhaps"},
        {"uri": "http://x", "token": ""},
        {"uri": "http://x", "header.A": "b\r\nC: d"},
        {"uri": "http://x", "oauth2-server-uri": "nowhere"},
        {"uri": "http://x", "root": "ftp://y"},
    ],
)
def test_bad_properties_are_named(properties):
    with pytest.raises(InvalidInputError) as caught:
        IcebergNamespace(**properties)
    assert "very-secret" not in str(caught.value)


def test_secrets_do_not_leave_https(connect):
    client = connect("https://catalog.example", credential="id:secret", **{"oauth2-server-uri": "http://far.example/t"})
    with fails(13, "plain http"):
        list_namespaces(client)


def test_connect_opens_it_by_its_short_name(server):
    with connect_by_name("iceberg", {"uri": server.uri}) as client:
        assert list_namespaces(client) == ["a"]
