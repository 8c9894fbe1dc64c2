from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from lance_namespace.errors import ErrorCode, from_error_code

from pennon.cli.app import COMMANDS, SubCommand, load_command
from pennon.cli.failures import CommandFailure, ExitCode, exit_code
from pennon.cli.secrets import is_secret, mask_secrets, scrub
from tests.servers import CountingS3

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "command-line.md"


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_error_of_the_sdk_has_an_exit_code(code):
    expected = {
        0: 5,
        1: 3,
        2: 4,
        3: 6,
        4: 3,
        5: 4,
        6: 3,
        7: 4,
        8: 3,
        9: 4,
        10: 3,
        11: 3,
        12: 3,
        13: 2,
        14: 4,
        15: 8,
        16: 8,
        17: 7,
        18: 1,
        19: 6,
        20: 2,
        21: 7,
        22: 3,
        23: 4,
    }
    assert exit_code(from_error_code(int(code), "told")) == expected[code]


def test_guide_documents_every_exit_code():
    table = {int(row) for row in re.findall(r"^\| `(\d+)` \|", GUIDE.read_text(), re.MULTILINE)}
    assert table == {int(code) for code in ExitCode}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nonsense"], "No such command 'nonsense'. See 'pennon --help'."),
        (["lss"], "Did you mean 'ls'? See 'pennon --help'."),
        (["ls", "--nonsense"], "No such option: --nonsense. See 'pennon ls --help'."),
        (["head"], "Missing argument 'TABLE'. See 'pennon head --help'."),
        (["head", "t", "--limit", "many"], "--limit"),
        (["head", "t", "--limit", "-1"], "--limit"),
        (["head", "t", "--version", "0"], "--version"),
        (["--root"], "--root"),
        (["ls", "a", "b"], "unexpected extra argument"),
        (["ls"], "No catalog is named: give --root"),
        (["ls", "--config", "nope.toml"], "The settings file 'nope.toml' does not exist"),
        (["ls", "--root", "ftp://x/y"], "'ftp'"),
        (["ls", "--root", "s3://"], "does not name a bucket"),
        (["ls", "--root", ".", "--impl", "nope"], "Unknown namespace implementation 'nope'; known: dir, iceberg"),
        (["ls", "--impl", "nope"], "Unknown namespace implementation 'nope'; known: dir, iceberg, rest"),
        (["ls", "--root", ".", "-p", "nope=1"], "Unknown property 'nope'"),
        (["ls", "--root", ".", "-p", "drop_ttl=soon"], "drop_ttl"),
        (["ls", "--root", ".", "-p", "manifest_enabled=perhaps"], "'manifest_enabled' is a boolean"),
        (["head", "a..b", "--root", "."], "no name at position 3"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(pennon, arguments, told):
    result = pennon(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Error: ")
    assert result.err.count("\n") == 1
    assert told in result.err
    assert list(Path().iterdir()) == []


def list_commands() -> list[tuple[str, ...]]:
    """Return all commands and groups, as they are typed."""
    found: list[tuple[str, ...]] = [()]
    for entry in COMMANDS:
        found.append((entry.name,))
        if entry.has_commands:
            found += [(entry.name, name) for name in load_command(entry).commands]
    return found


@pytest.mark.parametrize("typed", list_commands(), ids=" ".join)
def test_every_help_shows_examples_of_the_command(pennon, typed):
    shown = pennon(*typed, "--help").out.partition("Examples:\n")[2].splitlines()
    assert shown
    own = " ".join(("pennon", *typed))
    assert any(own in line for line in shown)
    assert all("pennon " in line or line.endswith("pennon sql") for line in shown)


@pytest.mark.s3
def test_a_missing_bucket_is_one_line_and_not_found(pennon, tmp_path):
    (tmp_path / "rows.json").write_text('{"id": 1}')
    with CountingS3() as store:
        given = [
            part for key, value in store.endpoint.storage_options().items() for part in ("-p", f"storage.{key}={value}")
        ]
        # Lance asks again for some seconds in each of them.
        for typed in (["head", "t"], ["create", "t", str(tmp_path / "rows.json")]):
            result = pennon(*typed, "--root", "s3://no-such-bucket/x", *given)
            assert (result.code, result.out) == (3, "")
            assert result.err.endswith(": the bucket 'no-such-bucket' does not exist\n")


def test_unreachable_iceberg_catalog_is_one_line_without_secrets(pennon):
    given = ["-p", "uri=http://127.0.0.1:1", "-p", "header.X-Key=hidden-7", "-p", "retry_timeout=0"]
    result = pennon("ls", "--impl", "iceberg", *given)
    assert (result.code, result.out, result.err.count("\n")) == (7, "", 1)
    assert "hidden-7" not in result.err


def test_missing_root_is_not_found_and_not_created(pennon, root):
    for command in (
        ["ls"],
        ["tree"],
        ["info"],
        ["head", "t"],
        ["drop", "t", "--yes"],
        ["purge"],
        ["migrate"],
        ["trash"],
    ):
        result = pennon(*command, root=root)
        assert (result.code, result.out) == (3, "")
        assert result.err == f"Error: There is no catalog at '{root}': no such directory\n"
    assert not root.exists()


def test_a_root_that_is_a_file_is_bad_input(pennon, root):
    root.write_text("no directory")
    for command in (["ls"], ["create-namespace", "a"]):
        assert pennon(*command, root=root).code == 2


AS_NOBODY = """
import os, sys
from pennon.cli import main
readable, *roots = sys.argv[1:]
# Modules are imported while they are still readable.
assert main(["ls", "--root", readable]) == 0
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
sys.exit(sum(main(["ls", "--root", root]) for root in roots))
"""


def test_unreadable_root_is_permission_denied(lake, tmp_path):
    locked, hidden = tmp_path / "locked", tmp_path / "closed" / "hidden"
    locked.mkdir()
    hidden.mkdir(parents=True)
    closed = {locked: 0, hidden.parent: 0}
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder not in {Path("/"), Path("/tmp")}:  # noqa: S108 - as it is
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    for folder, mode in closed.items():
        folder.chmod(mode)
    try:
        command = [sys.executable, "-c", AS_NOBODY, str(lake), str(locked), str(hidden)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    finally:
        for folder in closed:
            folder.chmod(stat.S_IRWXU)
    assert result.returncode == 8 + 8
    first, second = result.stderr.splitlines()
    assert "permission denied" in first.lower()
    assert second == f"Error: Permission denied: '{hidden}'"


def test_unresponsive_store_is_unreachable_and_secrets_are_masked(pennon):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        # Bound and not listening: every connection is refused.
        options = {
            "storage.endpoint": f"http://127.0.0.1:{taken.getsockname()[1]}",
            "storage.allow_http": "true",
            "storage.region": "us-east-1",
            "storage.access_key_id": "AKIA-not-shown",
            "storage.secret_access_key": "very/secret+value",
            "storage.client_max_retries": "0",
            "manifest_enabled": "false",
        }
        given = [part for key, value in options.items() for part in ("-p", f"{key}={value}")]
        result = pennon("ls", "--root", "s3://bucket/path", *given, "--debug")
    assert result.code == 7
    assert "Traceback" in result.err
    line = result.err.splitlines()[-1]
    assert line.startswith("Error: ")
    assert "Debug source" not in line
    for secret in ("AKIA-not-shown", "very/secret+value"):
        assert secret not in result.err


def test_debug_shows_a_traceback(pennon, lake, monkeypatch):
    assert "Traceback" not in pennon("head", "nope", root=lake).err
    assert "Traceback" in pennon("head", "nope", "--debug", root=lake).err
    assert "Traceback" in pennon("--debug", "head", "nope", root=lake).err
    monkeypatch.setenv("PENNON_DEBUG", "1")
    assert "Traceback" in pennon("head", "nope", root=lake).err


def test_a_secret_in_a_message_is_masked(pennon, monkeypatch, lake):
    monkeypatch.setenv("PENNON_PROPERTIES", '{"storage": {"token": "nope-token"}}')
    result = pennon("head", "nope-token", root=lake)
    assert (result.code, result.err) == (3, "Error: Table not found: '***'\n")


def test_the_catalogs_secrets_are_not_shown_by_info(pennon, lake):
    given = ["-p", "storage.region=north", "-p", "storage.aws_secret_access_key=hidden", "-p", "storage.odd=hidden"]
    result = pennon("info", *given, root=lake)
    assert result.json["storage"] == {
        "storage.region": "north",
        "storage.aws_secret_access_key": "***",
        "storage.odd": "***",
    }
    assert "hidden" not in pennon("info", "--table", *given, root=lake).out


@pytest.mark.parametrize("key", ["storage.anything", "storage.sas_key", "password", "my.api-key", "AUTH_TOKEN"])
def test_keys_of_secrets_are_recognized(key):
    assert is_secret(key)


@pytest.mark.parametrize("key", ["root", "drop_ttl", "storage.region", "storage.aws_endpoint", "owner", "primary_key"])
def test_harmless_keys_are_not_secret(key):
    assert not is_secret(key)


def test_users_in_uris_are_masked():
    assert mask_secrets({"storage.endpoint": "https://me:pw@host/x"}) == {"storage.endpoint": "https://***@host/x"}
    assert scrub("at https://me:pw@host/x", ()) == "at https://***@host/x"


def test_control_characters_in_arguments_do_not_reach_the_terminal(pennon, lake):
    for arguments in (
        ["ls", "a\x1b[31m"],
        ["head", "b\x1b]0;x\x07"],
        ["\x1b[2J"],
        ["ls", "--\x1b[2J"],
        ["ls", "\u202eabc"],
    ):
        result = pennon(*arguments, root=lake)
        assert result.code in {2, 3}
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", result.err)


def test_missing_extra_is_reported_with_an_install_command(tmp_path, monkeypatch):
    (tmp_path / "needs_a_lot.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CommandFailure, match=r"needs not_there_at_all.*pip install 'pennon\[spark\]'") as failure:
        load_command(SubCommand("demo", "needs_a_lot", "Demo.", extra="spark"))
    assert failure.value.code is ExitCode.UNSUPPORTED
    with pytest.raises(CommandFailure, match="not part of this version"):
        load_command(SubCommand("demo", "pennon.cli.not_there", "Demo.", extra="spark"))
    with pytest.raises(ModuleNotFoundError):
        load_command(SubCommand("demo", "needs_a_lot", "Demo."))


@pytest.mark.parametrize("entry", [entry for entry in COMMANDS if entry.extra is None], ids=lambda entry: entry.name)
def test_help_of_the_group_matches_help_of_each_command(pennon, entry):
    own = load_command(entry).help.partition("\n")[0]
    assert own.startswith(entry.help.removesuffix("."))
    assert f"  {entry.name} " in pennon("--help").out
    result = pennon(entry.name, "--help")
    assert result.code == 0
    for option in ("--root", "--property", "--json", "--debug"):
        assert option in result.out


def test_guide_documents_every_command_and_option():
    guide = GUIDE.read_text()
    for entry in COMMANDS:
        assert re.search(rf"`(pennon )?{entry.name}[ `]", guide)
        if entry.extra is None:
            for parameter in load_command(entry).params:
                for option in parameter.opts:
                    if option.startswith("--"):
                        assert option in guide, f"{entry.name} {option}"


def test_without_arguments_help_is_shown(pennon):
    result = pennon()
    assert (result.code, result.out) == (0, pennon("--help").out)


def test_options_are_accepted_before_and_after_the_command(pennon, lake, tmp_path):
    assert pennon("--root", str(lake), "count", "plain").json["rows"] == 3
    assert pennon("count", "plain", "--root", str(lake)).json["rows"] == 3
    assert pennon("--root", str(tmp_path / "nope"), "count", "plain", "--root", str(lake)).json["rows"] == 3
    assert pennon("--table", "count", "plain", "--root", str(lake)).out == "3\n"
    both = pennon("-p", "manifest_enabled=false", "info", "-p", "drop_ttl=1d", root=lake)
    assert both.json["mode"] == "V1"


def test_the_environment_and_a_file_name_the_catalog(pennon, lake, monkeypatch):
    Path("pennon.toml").write_text(f'root = "{lake}"\n')
    assert pennon("count", "plain").json["rows"] == 3
    monkeypatch.setenv("PENNON_ROOT", str(lake.parent / "nope"))
    assert pennon("count", "plain").code == 3
