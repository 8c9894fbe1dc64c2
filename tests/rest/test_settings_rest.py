"""Properties, pickling and secrets."""

from __future__ import annotations

import pickle
import ssl
from concurrent.futures import ThreadPoolExecutor

import pytest

import pennon
from pennon import RestNamespace
from pennon.errors import LanceNamespaceError
from tests.iceberg.hostile import HostileServer, Reply
from tests.iceberg.irc_servers import self_signed
from tests.support import create_namespace, describe_table, fails, list_namespaces, list_tables

SECRETS = {"token": "hidden-token-7", "header.x-api-key": "hidden-key-7", "storage.secret_key": "hidden-secret-7"}


@pytest.mark.parametrize(
    ("properties", "naming"),
    [
        ({}, "uri"),
        ({"uri": ""}, "uri"),
        ({"uri": "ftp://host"}, "uri"),
        ({"uri": "http://user:secret@host"}, "uri"),
        ({"uri": "http://host?x=1"}, "uri"),
        ({"uri": "http://host", "root": "a"}, "root"),
        ({"uri": "http://host", "delimiter": ""}, "delimiter"),
        ({"uri": "http://host", "token": "a\nb"}, "token"),
        ({"uri": "http://host", "credential": "id:secret"}, "oauth2-server-uri"),
        ({"uri": "http://host", "oauth2-server-uri": "http://issuer"}, "credential"),
        ({"uri": "http://host", "credential": "id:s", "oauth2-server-uri": "issuer"}, "oauth2-server-uri"),
        ({"uri": "https://host", "credential": "id:s", "oauth2-server-uri": "http://issuer"}, "oauth2-server-uri"),
        ({"uri": "http://host", "header.x": "a\r\nb"}, "header.x"),
        ({"uri": "http://host", "read_timeout": "soon"}, "read_timeout"),
        ({"uri": "http://host", "max_answer_bytes": "-1"}, "max_answer_bytes"),
        ({"uri": "http://host", "tls.assert_hostname": "false"}, "tls.assert_hostname"),
    ],
)
def test_bad_properties_are_refused(properties, naming):
    with fails(13, naming):
        pennon.connect("rest", properties)


def test_opening_sends_nothing(hostile):
    with RestNamespace(uri=hostile.uri):
        assert hostile.asked == []


def test_secrets_are_sent_but_never_shown(hostile):
    hostile.answer("GET /v1/namespace/%24/list", Reply(400, {"code": 13, "error": "hidden-token-7, hidden-key-7"}))
    client = RestNamespace(uri=hostile.uri, **SECRETS)
    shown = [repr(client), repr(client._settings), client.namespace_id()]
    with pytest.raises(LanceNamespaceError, match=r"\*\*\*, \*\*\*"):
        list_namespaces(client)
    assert not any("hidden" in text for text in shown)
    assert hostile.asked[0].headers["Authorization"] == "Bearer hidden-token-7"
    assert hostile.asked[0].headers["x-api-key"] == "hidden-key-7"
    assert "hidden-secret-7" not in str(hostile.asked)


def test_a_pickled_client_does_the_same(hostile):
    hostile.answer("GET /v1/namespace/%24/list", Reply(body={"namespaces": ["a"]}))
    with RestNamespace(uri=hostile.uri, **SECRETS) as client:
        copy = pickle.loads(pickle.dumps(client))
        assert list_namespaces(copy) == list_namespaces(client) == ["a"]
        assert hostile.asked[0].headers["Authorization"] == hostile.asked[1].headers["Authorization"]


def test_threads_share_a_client(root, open_namespace):
    client = open_namespace(root)
    create_namespace(client, "a")
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: list_namespaces(client), range(64))) == [["a"]] * 64


def test_the_clients_own_storage_options_open_tables_unless_the_server_vends_some(hostile):
    hostile.answer(
        "POST /v1/table/t/describe",
        Reply(body={"location": "s3://b/t"}),
        Reply(body={"location": "s3://b/t", "storage_options": {"k": "vended", "expires_at_millis": "1"}}),
    )
    client = RestNamespace(uri=hostile.uri, **SECRETS)
    assert describe_table(client, "t").storage_options == {"secret_key": "hidden-secret-7"}
    assert describe_table(client, "t").storage_options == {"k": "vended", "expires_at_millis": "1"}


def test_another_delimiter_is_sent_and_names_that_hold_it_are_refused(root, open_namespace):
    served = open_namespace(root)
    create_namespace(served, "a")
    served.declare_table({"id": ["a", "t"]})
    with RestNamespace(uri=served._settings.uri, delimiter="..") as client:
        assert list_tables(client, "a") == ["t"]
        assert client.list_all_tables({}).tables == ["a$t"]
        with fails(13, "delimiter"):
            list_tables(client, "a..b")


def test_requests_name_headers_and_who_asks(hostile):
    hostile.answer("POST /v1/table/t/drop", Reply(body={}))
    client = RestNamespace(uri=hostile.uri)
    context = {"header.x-request-id": "r1", "purge": "true"}
    client.drop_table({"id": ["t"], "context": context, "identity": {"api_key": "k1"}})
    headers = hostile.asked[-1].headers
    assert (headers["x-request-id"], headers["x-pennon-context-purge"], headers["x-api-key"]) == ("r1", "true", "k1")
    for key in ("header.Host", "header.bad name", "header.Content-Length"):
        with fails(13):
            client.drop_table({"id": ["t"], "context": {key: "x"}})
    assert hostile.count("POST /v1/table/t/drop") == 1


def test_answers_hold_the_headers_of_the_server(hostile):
    hostile.answer("POST /v1/namespace/a/describe", Reply(body={}, headers={"X-Request-Id": "r7"}))
    found = RestNamespace(uri=hostile.uri).describe_namespace({"id": ["a"]})
    assert found.context["header.x-request-id"] == "r7"


def test_a_server_is_trusted_by_its_certificate_alone(tmp_path):
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with HostileServer(context) as server:
        server.answer("GET /v1/namespace/%24/list", Reply(body={"namespaces": ["a"]}))
        with fails(18, "TLS"):
            list_namespaces(RestNamespace(uri=server.uri, token="secret-token"))
        assert server.asked == []
        assert list_namespaces(RestNamespace(uri=server.uri, **{"tls.ssl_ca_cert": str(certificate)})) == ["a"]
