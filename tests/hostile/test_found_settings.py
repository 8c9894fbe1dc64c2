"""A `pennon.toml` in the working directory cannot send the user's credentials to an address of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.settings import Options, resolve_connection

SECRET = "a-secret-of-the-user-0123456789"
TOKEN = ("PENNON_PROPERTIES", f"token={SECRET}")
KEYS = ("PENNON_PROPERTIES", f"storage.aws_access_key_id=AKIDUSER,storage.aws_secret_access_key={SECRET}")
AWS = ("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture(autouse=True)
def checkout(tmp_path, monkeypatch) -> Path:
    """Change to a directory with foreign files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def thief():
    """Listen at the address that the file names, and keep what arrives."""
    arrived: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args) -> None:
            pass

        def keep(self) -> None:
            arrived.append(f"{self.command} {self.path}\n{self.headers}")
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = keep  # noqa: N815 - a name of http.server

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", arrived
    server.shutdown()
    server.server_close()
    thread.join()


def pennon(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PENNON_", "AWS_", "AZURE_", "GOOGLE_"))
    }
    command = [sys.executable, "-m", "pennon", *arguments]
    return subprocess.run(
        command, env={**kept, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


def write(text: str) -> None:
    Path("pennon.toml").write_text(text)


def get_refusal(environment: dict[str, str], options: Options | None = None) -> str:
    with pytest.raises(CommandFailure) as caught:
        resolve_connection(options or Options(), environment)
    assert caught.value.code == ExitCode.REFUSED
    message = str(caught.value)
    assert str(Path("pennon.toml").absolute()) in message
    assert SECRET not in message
    return message


def test_a_token_does_not_reach_a_server_that_the_file_names(thief):
    uri, arrived = thief
    write(f'impl = "iceberg"\n[properties]\nuri = "{uri}"\n')
    Path("pipeline.yml").write_text("name: p\nsteps:\n  s: SELECT 1 AS x\ntargets:\n  - {table: a.t, from: s}\n")
    ended = pennon("run", "pipeline.yml", PENNON_PROPERTIES=f"token={SECRET}")
    assert arrived == []
    assert ended.returncode == ExitCode.REFUSED, ended.stderr
    assert "pennon.toml" in ended.stderr
    assert SECRET not in ended.stderr


def test_a_session_token_does_not_reach_a_store_that_the_file_names(thief):
    endpoint, arrived = thief
    write(f'root = "s3://bucket/lake"\n[properties.storage]\nendpoint = "{endpoint}"\nallow_http = true\n')
    keys = {"AWS_ACCESS_KEY_ID": "AKIDUSER", "AWS_SECRET_ACCESS_KEY": "x" * 20, "AWS_SESSION_TOKEN": SECRET}
    ended = pennon("ls", AWS_REGION="us-east-1", **keys)
    assert arrived == []
    assert ended.returncode == ExitCode.REFUSED, ended.stderr
    # A named file is trusted.
    pennon("ls", "--config", "pennon.toml", AWS_REGION="us-east-1", **keys)
    assert any(SECRET in one for one in arrived)


@pytest.mark.parametrize("credential", ["token", "credential", "header.X-Key", "storage.aws_session_token"])
@pytest.mark.parametrize("address", ["uri", "oauth2-server-uri", "ssl.cabundle"])
def test_credentials_of_the_environment_and_of_options(address, credential):
    write(f'[properties]\n"{address}" = "https://evil"\n')
    server = [] if address == "uri" else ["uri=https://mine"]
    given = [*server, f"{credential}={SECRET}"]
    for message in (
        get_refusal({}, Options(properties=tuple(given))),
        get_refusal({"PENNON_PROPERTIES": ",".join(given)}),
    ):
        assert repr(address) in message
        assert repr(credential) in message


@pytest.mark.parametrize(
    "option",
    [
        "endpoint",
        "aws_endpoint",
        "AWS_ENDPOINT_URL",
        "azure_endpoint",
        "azure_authority_host",
        "google_base_url",
        "proxy_url",
        "allow_http",
        "allow_invalid_certificates",
        "metadata_endpoint",
        "something_new",
    ],
)
@pytest.mark.parametrize("credential", [KEYS, AWS, ("AZURE_STORAGE_ACCOUNT_KEY", SECRET), None], ids=str)
def test_addresses_of_stores(option, credential):
    write(f'root = "s3://bucket/lake"\n[properties.storage]\n"{option}" = "https://evil"\n')
    # Without these, the machine may have credentials: a profile, or a role.
    assert repr(f"storage.{option}") in get_refusal({} if credential is None else dict([credential]))


@pytest.mark.parametrize("option", ["region", "account_name", "aws_bucket"])
def test_parts_of_host_names_are_names(option):
    write(f'root = "s3://bucket/lake"\n[properties.storage]\n{option} = "evil.example/"\n')
    assert repr(f"storage.{option}") in get_refusal(dict([AWS]))
    write(f'root = "s3://bucket/lake"\n[properties.storage]\n{option} = "eu-west-1"\n')
    assert resolve_connection(Options(), dict([AWS])).properties["root"] == "s3://bucket/lake"


def test_signatures_are_credentials():
    write('impl = "iceberg"\n[properties]\nuri = "https://evil"\n"rest.sigv4-enabled" = true\n')
    get_refusal({})
    get_refusal(dict([AWS]))


def test_a_file_may_have_credentials_of_its_own():
    write('impl = "iceberg"\n[properties]\nuri = "https://mine"\ntoken = "the-files-own"\n')
    assert resolve_connection(Options(), {}).properties["uri"] == "https://mine"
    store = 'root = "s3://b/l"\n[properties.storage]\nendpoint = "https://mine"\n'
    write(store + 'access_key_id = "a"\nsecret_access_key = "b"\n')
    assert resolve_connection(Options(), {}).properties["storage.endpoint"] == "https://mine"
    # A token of the environment would be sent along with them.
    get_refusal({"AWS_SESSION_TOKEN": SECRET})
    write(store + "skip_signature = true\n")
    assert resolve_connection(Options(), {}).properties["storage.endpoint"] == "https://mine"


def test_addresses_set_by_the_user_receive_credentials(checkout):
    write('[properties]\nuri = "https://evil"\n')
    found = resolve_connection(Options(properties=("uri=https://mine",)), dict([TOKEN]))
    assert found.properties == {"uri": "https://mine", "token": SECRET}
    named = resolve_connection(Options(config=Path("pennon.toml")), dict([TOKEN]))
    assert named.properties["uri"] == "https://evil"
    assert (
        resolve_connection(Options(), {"PENNON_CONFIG": "pennon.toml", **dict([TOKEN])}).properties["uri"]
        == "https://evil"
    )
    Path("pennon.toml").unlink()
    own = checkout / "home" / ".config" / "pennon"
    own.mkdir(parents=True)
    (own / "config.toml").write_text('[properties]\nuri = "https://mine"\n')
    assert resolve_connection(Options(), dict([TOKEN])).properties["uri"] == "https://mine"


def test_profiles_of_a_found_file_are_not_trusted_either():
    write('root = "lake"\n[profiles.p.properties]\nuri = "https://evil"\n')
    assert "uri" not in resolve_connection(Options(), dict([TOKEN])).properties
    get_refusal({"PENNON_PROFILE": "p", **dict([TOKEN])})


def test_the_settings_of_a_command_hide_their_secrets():
    found = resolve_connection(Options(root="/r", properties=(f"token={SECRET}",)), dict([KEYS]))
    assert SECRET not in repr(found)
    assert SECRET not in repr(Options(properties=(f"token={SECRET}",)))
