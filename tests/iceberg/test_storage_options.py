"""Credentials that a server hands out reach Lance."""

from __future__ import annotations

import pytest

from tests.iceberg.hostile import HostileServer, Reply
from tests.support import describe_table

CONFIG = {
    "s3.access-key-id": "id",
    "s3.secret-access-key": "key",
    "s3.session-token": "token",
    "s3.session-token-expires-at-ms": "1999999999999",
    "s3.endpoint": "http://127.0.0.1:1",
    "s3.path-style-access": "true",
    "client.region": "eu-west-1",
}
WANTED = {
    "aws_access_key_id": "id",
    "aws_secret_access_key": "key",
    "aws_session_token": "token",
    "expires_at_millis": "1999999999999",
    "aws_endpoint": "http://127.0.0.1:1",
    "allow_http": "true",
    "aws_virtual_hosted_style_request": "false",
    "aws_region": "eu-west-1",
}


def table(location: str, **answer: object) -> Reply:
    metadata = {"location": location, "table-uuid": "u", "properties": {"table_type": "lance"}}
    return Reply(body={"metadata": metadata, **answer})


@pytest.fixture
def server():
    with HostileServer() as hostile:
        yield hostile


def options(client) -> dict[str, str] | None:
    return describe_table(client, "a", "t").storage_options


def test_options_come_with_the_table(server, connect):
    server.answer("GET /v1/namespaces/a/tables/t", table("s3://bucket/t", config=CONFIG))
    client = connect(server.uri, root=None)
    assert options(client) == WANTED
    assert server.asked[-1].headers["X-Iceberg-Access-Delegation"] == "vended-credentials"


def test_prefix_options_override_and_user_options_win(server, connect):
    credentials = [
        {"prefix": "s3://other/", "config": {"s3.access-key-id": "wrong"}},
        {"prefix": "s3://bucket/", "config": {"s3.access-key-id": "better"}},
        "nonsense",
    ]
    answer = table("s3://bucket/t", config=CONFIG, **{"storage-credentials": credentials})
    server.answer("GET /v1/namespaces/a/tables/t", answer)
    assert options(connect(server.uri, root=None))["aws_access_key_id"] == "better"
    mine = connect(server.uri, root=None, **{"storage.aws_access_key_id": "mine"})
    assert options(mine)["aws_access_key_id"] == "mine"


def test_options_of_the_server_can_be_ignored(server, connect):
    server.answer("GET /v1/namespaces/a/tables/t", table("s3://bucket/t", config=CONFIG))
    client = connect(server.uri, root=None, **{"vended-credentials-enabled": "false"})
    assert options(client) is None
    assert "X-Iceberg-Access-Delegation" not in server.asked[-1].headers


def test_table_on_a_disk_has_no_options(server, connect):
    server.answer("GET /v1/namespaces/a/tables/t", table("file:///tmp/none", config=CONFIG))
    assert options(connect(server.uri, root=None)) is None
