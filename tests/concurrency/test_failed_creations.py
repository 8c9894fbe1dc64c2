"""Creations that fail, over a table that the client does not know."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from tests.concurrency.places import column, entries
from tests.concurrency.workers import attempt, read_catalog
from tests.servers import CountingS3
from tests.support import Root, create_table, declare_table, fails, ipc, list_tables

pytestmark = pytest.mark.concurrency

UNSTORABLE = pa.table({"x": pa.array([None], pa.month_day_nano_interval())})
_prefixes = itertools.count()


class RefusingS3(CountingS3):
    """moto's S3, which can refuse all requests about the versions of one table."""

    refusing = False

    def _serve(self, environ, start_response):
        asked = f"{environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}".replace("%2F", "/")
        if self.refusing and "/t.lance/_versions" in asked:
            body = b"<Error><Code>AccessDenied</Code></Error>"
            headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
            start_response("403 Forbidden", headers)
            return [body]
        return super()._serve(environ, start_response)


@pytest.fixture(scope="module")
def server():
    with RefusingS3() as running:
        yield running


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.s3)])
def somewhere(request, disk):
    if request.param == "disk":
        return disk
    endpoint = request.getfixturevalue("server").endpoint
    return Root(endpoint.uri(f"root-{next(_prefixes)}"), endpoint.storage_options())


@pytest.fixture
def two_clients(somewhere, mode, open_namespace):
    """Return a client that does not know the table `t`, and the client that created it."""
    owner, stale = open_namespace(somewhere, mode), open_namespace(somewhere, mode)
    create_table(owner, "known")
    read_catalog(stale)
    create_table(owner, "t", data=ipc({"who": ["owner"]}))
    return stale, owner


def expect_untouched(root, owner):
    assert list_tables(owner) == ["known", "t"]
    assert column(root, owner, "t") == ["owner"]
    assert len(entries(root)) == 2


def test_unstorable_data_does_not_harm_an_existing_table(somewhere, two_clients):
    stale, owner = two_clients
    told = attempt(create_table, stale, "t", data=ipc(UNSTORABLE))
    assert told.code in {5, 13}, told
    expect_untouched(somewhere, owner)


def test_unstorable_data_leaves_nothing_behind(somewhere, two_clients):
    stale, owner = two_clients
    with fails(13):
        create_table(stale, "new", data=ipc(UNSTORABLE))
    expect_untouched(somewhere, owner)


def test_unstorable_data_leaves_a_declared_table_declared(somewhere, two_clients):
    stale, owner = two_clients
    declare_table(owner, "declared")
    with fails(13):
        create_table(stale, "declared", data=ipc(UNSTORABLE))
    create_table(owner, "declared", data=ipc({"who": [1]}))
    assert column(somewhere, stale, "declared") == [1]


@pytest.mark.s3
def test_store_that_fails_temporarily_does_not_harm_an_existing_table(server, mode, open_namespace):
    root = Root(server.endpoint.uri(f"root-{next(_prefixes)}"), server.endpoint.storage_options())
    owner, stale = open_namespace(root, mode), open_namespace(root, mode)
    create_table(owner, "known")
    read_catalog(stale)
    create_table(owner, "t", data=ipc({"who": ["owner"]}))
    server.refusing = True
    try:
        told = attempt(create_table, stale, "t")
    finally:
        server.refusing = False
    assert not told.acknowledged
    expect_untouched(root, owner)
