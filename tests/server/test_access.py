"""Access to the server: from this machine, or with the token. The token is never shown."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import UnauthorizedError

from pennon import IcebergNamespace
from pennon.server.access import Access
from pennon.server.loopback import is_loopback
from tests.iceberg.irc_servers import facade
from tests.server.http_client import Client
from tests.support import fails

TOKEN = "a-token-that-nobody-guesses-0123"


def other_addresses() -> list[str]:
    """Return addresses of this machine that are not loopback."""
    found = {one[4][0] for one in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    return sorted(one for one in found if not one.startswith("127."))


def refused(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """Run `pennon serve`, which must end by itself."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PENNON_")}
    command = [sys.executable, "-m", "pennon", "serve", *arguments]
    return subprocess.run(
        command, env={**kept, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Serve with a token, with all requests logged."""
    directory = tmp_path_factory.mktemp("guarded")
    with facade(
        directory, managed=False, arguments=("--log-requests",), environment={"PENNON_SERVER_TOKEN": TOKEN}
    ) as server:
        yield server, directory / "log"


def test_the_token_is_asked_for_everywhere(guarded):
    server, log = guarded
    for headers in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": TOKEN}, {"Authorization": "Bearer"}):
        for method, path in (("GET", "/config"), ("GET", "/namespaces"), ("POST", "/namespaces"), ("GET", "/none")):
            answer = Client(server.uri, **headers).call(method, path, {} if method == "POST" else None)
            assert answer.error == (401, "NotAuthorizedException")
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert TOKEN not in str(answer.body)
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert Client(server.uri, Authorization=f"{scheme} {TOKEN}").get("/config").status == 200
    assert TOKEN not in log.read_text()
    assert "GET /iceberg/v1/config" in log.read_text()


def test_clients_give_the_token(guarded):
    server, _ = guarded
    assert RestCatalog("x", uri=server.uri, token=TOKEN).list_namespaces() == []
    with pytest.raises(UnauthorizedError):
        RestCatalog("x", uri=server.uri, token="wrong")
    with IcebergNamespace(uri=server.uri, token=TOKEN) as namespace:
        assert namespace.list_namespaces({"id": []}).namespaces == []
    with IcebergNamespace(uri=server.uri, token="wrong-token") as namespace, fails(16):
        namespace.list_namespaces({"id": []})


def test_other_machines_need_a_token(tmp_path):
    ended = refused("--root", str(tmp_path), "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - it must refuse this
    assert ended.returncode == 2
    assert "PENNON_SERVER_TOKEN" in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize("token", ["", "short", "with spaces in between them", "ünïcödé-is-no-token-at-all"])
def test_bad_token_is_refused(tmp_path, token):
    ended = refused("--root", str(tmp_path), "--port", "0", PENNON_SERVER_TOKEN=token)
    assert ended.returncode == 2
    assert not token or token not in ended.stdout + ended.stderr


def test_the_token_may_be_in_a_file(tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    arguments = ("--token-file", str(tmp_path / "token"), "--host", "0.0.0.0")  # noqa: S104 - with a token
    with facade(tmp_path, managed=False, arguments=arguments) as server:
        port = server.uri.rpartition(":")[2]
        for host in ["127.0.0.1", *other_addresses()]:
            uri = f"http://{host}:{port}"
            assert Client(uri).get("/config").status == 401
            assert Client(uri, Authorization=f"Bearer {TOKEN}").get("/config").status == 200
    ended = refused("--root", str(tmp_path), "--port", "0", "--token-file", str(tmp_path / "none"))
    assert ended.returncode == 2


def test_loopback_is_not_reached_from_elsewhere(plain):
    port = int(plain.uri.split(":")[2].partition("/")[0])
    for host in other_addresses():
        with pytest.raises(OSError, match=r"refused|timed out"):
            socket.create_connection((host, port), timeout=2).close()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8181", "127.0.0.1.evil.example", "", "[::1", "10.0.0.1"]
)
def test_other_host_names_are_refused(plain, host):
    assert Client(plain.uri, Host=host).get("/namespaces").error == (403, "ForbiddenException")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8181", "[::1]:8181", "127.8.8.8"])
def test_names_of_this_machine_are_allowed(plain, host):
    assert Client(plain.uri, Host=host).get("/namespaces").status == 200


def test_loopback_addresses_are_recognized():
    assert all(is_loopback(one) for one in ("127.0.0.1", "127.9.9.9", "::1", "localhost"))
    assert not any(is_loopback(one) for one in ("0.0.0.0", "::", "", "10.0.0.1", "localhost.evil", "example.com"))  # noqa: S104 - told apart
    assert TOKEN not in repr(Access(TOKEN))
