"""The command `pennon serve`: how it starts, what it says, how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
import urllib3

from pennon import DirectoryNamespace, IcebergNamespace
from tests.iceberg.irc_servers import self_signed
from tests.server.http_client import Client, table_path
from tests.support import create_namespace, create_table


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pennon", "serve", *arguments]


@contextmanager
def started(*arguments: str, **options):
    """Run the command until it says where it serves."""
    process = subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        **options,
    )
    try:
        lines = [process.stdout.readline()]
        while lines[-1] and not lines[-1].startswith("}"):
            lines.append(process.stdout.readline())
        yield process, json.loads("".join(lines)) if lines[0] else None
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_it_is_told_to(tmp_path, number):
    with started("--root", str(tmp_path), "--port", "0") as (process, said):
        assert said["root"] == str(tmp_path)
        assert said["iceberg"] == f"{said['url']}/iceberg"
        assert Client(said["iceberg"]).get("/namespaces").body["namespaces"] == []
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
        with pytest.raises(urllib3.exceptions.HTTPError):
            Client(said["iceberg"]).get("/config")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_as_soon_as_it_has_said_where_it_is(tmp_path, number):
    with started("--root", str(tmp_path), "--port", "0") as (process, _):
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")


def test_requests_that_were_begun_are_finished(tmp_path):
    with DirectoryNamespace(root=str(tmp_path)) as catalog:
        create_namespace(catalog, "a")
        create_table(catalog, "a", "t")
    with started("--root", str(tmp_path), "--port", "0") as (process, said):
        host, port = said["url"].removeprefix("http://").split(":")
        body = b'{"namespace": ["late"]}'
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(
                b"POST /iceberg/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Connection: close\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body[:5]
            )
            # The server knows of the request once it answers another one on the same loop.
            assert Client(said["iceberg"]).get(table_path("a", "t")).status == 200
            process.send_signal(signal.SIGINT)
            closing = threading.Thread(target=lambda: connection.sendall(body[5:]))
            closing.start()
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
            closing.join()
        assert answer.startswith(b"HTTP/1.1 200")
        assert process.wait(timeout=60) == 0
    with DirectoryNamespace(root=str(tmp_path)) as catalog:
        assert catalog.list_namespaces({"id": []}).namespaces == ["a", "late"]


def test_it_serves_by_https(tmp_path):
    certificate, key = self_signed(tmp_path)
    (tmp_path / "root").mkdir()
    files = ("--tls-cert", str(certificate), "--tls-key", str(key))
    with started("--root", str(tmp_path / "root"), "--port", "0", *files) as (_, said):
        assert said["iceberg"].startswith("https://")
        with IcebergNamespace(uri=said["iceberg"], **{"ssl.cabundle": str(certificate)}) as namespace:
            assert namespace.list_namespaces({"id": []}).namespaces == []
        with pytest.raises(urllib3.exceptions.HTTPError):
            Client(said["iceberg"].replace("https:", "http:")).get("/config")
    for wrong in (("--tls-cert", str(tmp_path / "none")), ("--tls-cert", str(certificate)), ("--tls-key", str(key))):
        arguments = command("--root", str(tmp_path), "--port", "0", *wrong)
        ended = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
        assert (ended.returncode, ended.stdout) == (2, "")


def test_tables_that_are_not_shown_are_counted(tmp_path):
    with DirectoryNamespace(root=str(tmp_path)) as catalog:
        create_table(catalog, "at_the_root")
    with started("--root", str(tmp_path), "--port", "0") as (_, said):
        assert said["hidden"] == 1


def test_a_port_that_is_taken_is_told(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = subprocess.run(
            command("--root", str(tmp_path), "--port", port), capture_output=True, text=True, timeout=120, check=False
        )
    assert ended.returncode == 7
    assert f"Cannot listen on 127.0.0.1:{port}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_a_root_that_is_not_there_is_told(tmp_path):
    arguments = command("--root", str(tmp_path / "none"), "--port", "0")
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 3
    assert "no such directory" in ended.stderr


def test_the_root_may_come_from_the_environment_or_a_file(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "pennon.toml").write_text('root = "root"\n')
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PENNON_")}
    with started("--port", "0", cwd=tmp_path, env=kept) as (_, said):
        assert said["root"] == str(tmp_path / "root")
    with started("--port", "0", env={**kept, "PENNON_ROOT": str(tmp_path)}) as (_, said):
        assert said["root"] == str(tmp_path)


def test_without_the_extra_the_command_says_so(tmp_path):
    (tmp_path / "fastapi.py").write_text('raise ModuleNotFoundError("No module named \'fastapi\'", name="fastapi")\n')
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    ended = subprocess.run(
        command("--root", str(tmp_path)), capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert ended.returncode == 5
    assert "pip install 'pennon[server]'" in ended.stderr
