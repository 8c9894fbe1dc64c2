"""Options of `pennon serve`: command line, environment and settings file, in this order; unknown ones are errors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import typer
from typer.main import get_group

from pennon.cli import serve as serve_command
from pennon.cli.failures import CommandFailure
from pennon.server.operation.limits import Limits

FILE = """
root = "root"

[serve]
port = 1111
host = "127.0.0.2"
log_format = "json"
log_requests = true
token_file = "secrets/token"
audit_log = "-"
queue_seconds = 3

[profiles.other.serve]
port = 2222
"""


@pytest.fixture
def parsed(monkeypatch):
    """Parse a command line, and return the values of the options."""
    for name in [name for name in os.environ if name.startswith("PENNON_")]:
        monkeypatch.delenv(name)

    def parse(*arguments: str, **environment: str) -> dict:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        command = get_group(serve_command.app).commands["serve"]
        return command.make_context("serve", list(arguments)).params

    return parse


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "server.toml"
    path.write_text(FILE)
    return path


def test_without_anything_the_defaults_hold(parsed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    found = parsed()
    limits = Limits()
    assert (found["host"], found["port"], found["log_format"].value) == ("127.0.0.1", 8181, "text")
    assert (found["max_running"], found["queue_seconds"]) == (limits.running, limits.queue_seconds)


def test_the_file_sets_options(parsed, file):
    found = parsed("--config", str(file))
    assert (found["host"], found["port"], found["log_format"].value) == ("127.0.0.2", 1111, "json")
    assert (found["log_requests"], found["queue_seconds"]) == (True, 3.0)
    assert found["token_file"] == file.parent / "secrets" / "token"
    assert found["audit_log"] == "-"


def test_a_profile_overrides_the_file(parsed, file):
    found = parsed("--config", str(file), "--profile", "other")
    assert (found["host"], found["port"]) == ("127.0.0.2", 2222)


def test_the_environment_overrides_the_file_and_options_override_both(parsed, file):
    environment = {"PENNON_CONFIG": str(file), "PENNON_SERVE_PORT": "3333", "PENNON_SERVE_LOG_FORMAT": "text"}
    found = parsed(**environment)
    assert (found["port"], found["log_format"].value, found["host"]) == (3333, "text", "127.0.0.2")
    assert parsed("--port", "4444")["port"] == 4444


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("prot = 1", "unknown key 'serve.prot'; known: .*port"),
        ("root = 'x'", "unknown key 'serve.root'"),
        ("port = true", "'serve.port' must be a text or a number"),
        ("log_requests = 'yes'", "'serve.log_requests' must be true or false"),
        ("host = ['a']", "'serve.host' must be a text"),
    ],
)
def test_bad_keys_in_the_file_are_errors(parsed, tmp_path, line, message):
    path = tmp_path / "server.toml"
    path.write_text(f"[serve]\n{line}\n")
    with pytest.raises(CommandFailure, match=message):
        parsed("--config", str(path))


def test_serve_must_be_a_table(parsed, tmp_path):
    path = tmp_path / "server.toml"
    path.write_text("serve = 1\n")
    with pytest.raises(CommandFailure, match="'serve' must be a table"):
        parsed("--config", str(path))


@pytest.mark.parametrize("line", ["port = 'north'", "port = 70000", "log_format = 'xml'"])
def test_bad_values_in_the_file_are_errors(parsed, tmp_path, line):
    path = tmp_path / "server.toml"
    path.write_text(f"[serve]\n{line}\n")
    with pytest.raises(CommandFailure, match=f"server.toml: 'serve.{line.split()[0]}' is not valid: "):
        parsed("--config", str(path))
    with pytest.raises(typer.BadParameter):
        parsed("--config", str(path), PENNON_SERVE_PORT="-1")


def test_unknown_variables_are_errors(parsed, file):
    with pytest.raises(CommandFailure, match="PENNON_SERVE_PROT sets no option"):
        parsed(PENNON_CONFIG=str(file), PENNON_SERVE_PROT="1")


def test_a_file_that_was_only_found_configures_nothing(file):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PENNON_")}
    (file.parent / "pennon.toml").write_text(FILE)
    command = [sys.executable, "-m", "pennon", "serve"]
    ended = subprocess.run(command, cwd=file.parent, env=kept, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (6, "")
    assert "If you trust this file, name it: --config pennon.toml" in ended.stderr


def test_help_needs_no_valid_file(parsed):
    with pytest.raises(typer.Exit):
        parsed("--help", "--config", "/none/at/all.toml")
