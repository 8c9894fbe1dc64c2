"""`pennon doctor`: tables for people, JSON in a pipe, exit codes, Ctrl-C."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from pennon.directory import layout
from pennon.directory.markers.marker import REVIVING, Marker
from tests.cli.cli_support import terminal

KEYS = ["catalog", "healthy", "fix", "figures", "promises", "checks", "findings", "repaired"]
READONLY = """
import contextlib, io, os, sys
from pennon.cli.app import run
# Another user may not be able to read the modules of this Python.
with contextlib.redirect_stdout(io.StringIO()):
    assert run(["--root", sys.argv[2], "doctor"]) == 0
if os.geteuid() == 0:
    os.setuid(65534)
sys.exit(run(["--root", sys.argv[1], "doctor"]))
"""


def plant_claim(root: Path) -> Path:
    """Leave the marker of a creator that died."""
    marker = root / layout.deleted_marker("never")
    marker.write_bytes(Marker(REVIVING, what="create", lease_until_ms=1_600_000_000_000).with_new_nonce().body())
    return marker


def test_healthy_catalog_exits_with_0_and_shows_each_check(pennon, lake):
    result = pennon("doctor", root=lake)
    assert (result.code, result.err) == (0, "")
    assert list(result.json) == KEYS
    assert (result.json["healthy"], result.json["findings"], result.json["repaired"]) == (True, [], [])
    assert all(one["kept"] and one["needed_for"] for one in result.json["promises"])
    assert {"round_trip_ms", "write_ms", "clock_ahead_seconds", "file_system"} <= result.json["figures"].keys()
    assert [one["name"] for one in result.json["checks"] if one["skipped"]] == ["versions", "tables"]
    assert pennon("doctor", "--deep", root=lake).json["figures"]["tables"] == 5


def test_damage_exits_with_9_until_it_is_repaired(pennon, lake):
    marker = plant_claim(lake)
    found = pennon("doctor", root=lake)
    assert (found.code, found.err) == (9, "")
    (finding,) = found.json["findings"]
    assert (finding["check"], finding["severity"], finding["subject"]) == ("markers", "warning", marker.name)
    assert finding["fixable"] is True
    fixed = pennon("doctor", "--fix", root=lake)
    assert (fixed.code, fixed.json["findings"], fixed.json["repaired"]) == (0, [], [finding])
    assert not marker.exists()
    assert pennon("doctor", root=lake).code == 0


def test_what_remains_after_a_repair_exits_with_9(pennon, lake):
    plant_claim(lake)
    (directory,) = lake.glob("*_prod$events")
    shutil.rmtree(directory)
    result = pennon("doctor", "--fix", root=lake)
    assert result.code == 9
    assert [one["subject"] for one in result.json["repaired"]] == ["never.deleted"]
    assert [(one["subject"], one["command"]) for one in result.json["findings"]] == [
        ("prod.events", "pennon drop prod.events")
    ]
    assert pennon("drop", "prod.events", "--yes", root=lake).code == 0


def test_notes_do_not_change_the_exit_code(pennon, lake):
    (lake / "stray").mkdir()
    result = pennon("doctor", root=lake)
    assert (result.code, [one["severity"] for one in result.json["findings"]]) == (0, ["note"])


def test_terminal_shows_checks_findings_and_commands_in_colour(lake):
    plant_claim(lake)
    (directory,) = lake.glob("*_prod$events")
    shutil.rmtree(directory)
    with terminal("doctor", "--root", str(lake), columns=200) as screen:
        assert screen.end() == 9
    assert "\x1b[32mok Manifest" in screen.seen
    assert "error: prod.events: its directory" in screen.seen
    assert "$ pennon drop prod.events" in screen.seen
    assert "kept: put-if-absent, for commits" in screen.seen
    assert "1 error, 1 warning" in screen.seen
    assert "pennon doctor --fix repairs a part of this" in screen.seen
    assert "Promises of the store (2 of 10) ..." in screen.seen
    with terminal("doctor", "--fix", "--root", str(lake), columns=200) as screen:
        assert screen.end() == 9
    assert "repaired: never.deleted" in screen.seen
    assert "; 1 repaired" in screen.seen


def test_control_characters_in_names_are_escaped(lake):
    (lake / "bad\x1b[31mname").mkdir()
    with terminal("doctor", "--root", str(lake), columns=200) as screen:
        assert screen.end() == 0
    assert "bad\\x1b[31mname" in screen.seen


def test_missing_root_is_not_found(pennon, tmp_path):
    result = pennon("doctor", root=tmp_path / "nothing")
    assert (result.code, result.out) == (3, "")


def test_readonly_root_is_a_finding(lake):
    with tempfile.TemporaryDirectory(prefix="pennon-readonly-") as folder:
        root = Path(folder) / "lake"
        shutil.copytree(lake, root)
        for path in [Path(folder), root, *root.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        done = subprocess.run(
            [sys.executable, "-c", READONLY, str(root), str(lake)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "PENNON_CONFIG": os.devnull},
        )
    assert done.returncode == 9, done.stderr
    assert done.stderr == ""
    assert '"severity": "warning", "subject": "writing"' in done.stdout
    assert "writes are refused" in done.stdout
    assert "--no-probe" in done.stdout


def test_interrupt_ends_cleanly(lake):
    before = sorted(path.name for path in lake.iterdir())
    with terminal("doctor", "--root", str(lake)) as screen:
        screen.wait_for("Promises of the store")
        screen.process.send_signal(signal.SIGINT)
        assert screen.end() in {0, 130}
    assert "Traceback" not in screen.seen
    assert sorted(path.name for path in lake.iterdir()) == before


def test_secrets_in_messages_are_hidden(pennon, lake):
    secret = "hunter2hunter2"
    marker = lake / "bad.deleted"
    marker.write_text('{"state": "' + secret + '"' + " " * 60 + "}")
    (lake / "bad.lance").mkdir()
    (lake / "bad.lance" / "x").write_text("x")
    problems = [
        one["problem"]
        for one in pennon("doctor", "-p", "storage.secret_access_key=" + secret, root=lake).json["findings"]
    ]
    assert any("***" in one for one in problems)
    assert not any(secret in one for one in problems)
