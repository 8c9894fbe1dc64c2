from __future__ import annotations

import signal
import subprocess
from contextlib import suppress

import pytest

from pennon import DirectoryNamespace
from tests.cli.cli_support import ROWS, mode_options, terminal
from tests.support import ipc


def names(result) -> list[str]:
    return [entry["address"] for entry in result.json["entries"]]


def test_a_rename_moves_a_table_to_another_namespace(pennon, lake):
    assert pennon("rename", "plain", "prod.moved", root=lake).json == {
        "id": ["plain"],
        "new_id": ["prod", "moved"],
        "dry_run": False,
    }
    assert pennon("count", "prod.moved", root=lake).json["rows"] == 3
    assert pennon("count", "plain", root=lake).code == 3


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("nope", "fine", 3),
        ("plain", "nope.fine", 3),
        ("plain", "prod.events", 4),
        ("plain", "prod", 4),
        ("plain", "__mine", 2),
    ],
)
def test_impossible_rename_fails_also_in_a_dry_run(pennon, lake, old, new, code):
    for dry in ([], ["--dry-run"]):
        result = pennon("rename", old, new, *dry, root=lake)
        assert (result.code, result.out) == (code, "")
    assert names(pennon("ls", root=lake)) == ["prod", "/my.table", "plain"]


def test_a_dry_run_renames_nothing(pennon, lake):
    assert pennon("rename", "plain", "fine", "--dry-run", root=lake).json["dry_run"] is True
    assert pennon("count", "plain", root=lake).code == 0


def test_v1_has_no_rename(pennon, v1_lake):
    assert pennon("rename", "a", "b", *mode_options("v1"), root=v1_lake).code == 5


def test_drop_without_terminal_needs_yes(pennon, lake):
    result = pennon("drop", "plain", root=lake)
    assert (result.code, result.out) == (6, "")
    assert result.err == (
        "Error: Drop table 'plain'? It can be restored for 7 days. No terminal to ask for confirmation: use --yes\n"
    )
    assert pennon("count", "plain", root=lake).code == 0


@pytest.mark.parametrize("mode", ["v1", "v2", "compatibility"])
def test_drop_hides_a_table_and_undrop_restores_it(pennon, root, mode):
    options = mode_options(mode)
    with DirectoryNamespace(root=str(root), **dict(option.split("=") for option in options[1::2])) as namespace:
        namespace.create_table({"id": ["a"]}, ipc(ROWS))
    dropped = pennon("drop", "a", "--yes", *options, root=root).json["tables"]
    assert [one["id"] for one in dropped] == [["a"]]
    assert names(pennon("ls", *options, root=root)) == []
    (trashed,) = pennon("trash", "--long", *options, root=root).json["dropped"]
    assert (trashed["type"], trashed["id"], trashed["rows"]) == ("table", ["a"], 3)
    assert trashed["drop_id"] == dropped[0]["drop_id"]
    assert pennon("undrop", "a", *options, root=root).code == 0
    assert pennon("count", "a", *options, root=root).json["rows"] == 3
    assert pennon("trash", *options, root=root).json == {"dropped": []}


def test_several_tables_are_checked_before_one_is_dropped(pennon, lake):
    assert pennon("drop", "plain", "nope", "--yes", root=lake).code == 3
    assert pennon("count", "plain", root=lake).code == 0
    result = pennon("drop", "plain", "nope", "/my.table", "plain", "--if-exists", "--yes", root=lake)
    assert [one["id"] for one in result.json["tables"]] == [["plain"], ["my.table"]]


def test_a_dry_run_drops_nothing(pennon, lake):
    assert pennon("drop", "plain", "--dry-run", root=lake).json == {
        "tables": [{"id": ["plain"]}],
        "purged": False,
        "dry_run": True,
    }
    assert pennon("drop", "nope", "--dry-run", root=lake).code == 3
    assert pennon("count", "plain", root=lake).code == 0


def test_drop_of_a_protected_table_needs_force(pennon, lake):
    with DirectoryNamespace(root=str(lake)) as namespace:
        namespace.set_table_protection(["plain"], True)
        namespace.set_table_protection(["prod", "events"], True)
    assert pennon("info", "plain", root=lake).json["protected"] is True
    for dry in ([], ["--dry-run"]):
        assert pennon("drop", "plain", "--yes", *dry, root=lake).code == 6
        assert pennon("drop", "prod.events", "--yes", *dry, root=lake).code == 6
        assert pennon("drop", "prod", "--namespace", "--cascade", "--yes", *dry, root=lake).code == 6
    assert pennon("drop", "plain", "prod.events", "--force", "--yes", root=lake).code == 0


def test_drop_id_selects_one_of_several_drops_of_a_name(pennon, lake, tmp_path):
    file = tmp_path / "data.csv"
    ids = []
    for content in ("old", "new"):
        file.write_text(f"generation\n{content}\n")
        pennon("create", "prod.again", str(file), root=lake)
        ids.append(pennon("drop", "prod.again", "--yes", root=lake).json["tables"][0]["drop_id"])
    assert [one["drop_id"] for one in pennon("trash", "prod", root=lake).json["dropped"]] == ids
    assert pennon("undrop", "prod.again", "--id", ids[0], "--as", "prod.first", root=lake).code == 0
    assert pennon("undrop", "prod.again", root=lake).code == 0
    assert pennon("head", "prod.first", root=lake).json["rows"] == [{"generation": "old"}]
    assert pennon("head", "prod.again", root=lake).json["rows"] == [{"generation": "new"}]
    assert pennon("undrop", "prod.again", "--id", "nope", root=lake).code == 3


def test_undrop_to_an_existing_name_is_a_conflict(pennon, lake, tmp_path):
    pennon("drop", "prod.events", "--yes", root=lake)
    file = tmp_path / "data.csv"
    file.write_text("a\n1\n")
    pennon("create", "prod.events", str(file), root=lake)
    for dry in ([], ["--dry-run"]):
        assert pennon("undrop", "prod.events", *dry, root=lake).code == 4
        assert pennon("undrop", "prod.events", "--as", "plain", *dry, root=lake).code == 4
        assert pennon("undrop", "prod.events", "--as", "nope.x", *dry, root=lake).code == 3
        assert pennon("undrop", "never", *dry, root=lake).code == 3
    assert pennon("undrop", "prod.events", "--as", "prod.before", root=lake).code == 0


def test_dry_run_of_undrop_restores_nothing(pennon, lake):
    pennon("drop", "plain", "--yes", root=lake)
    assert pennon("undrop", "plain", "--dry-run", root=lake).json["id"] == ["plain"]
    assert pennon("count", "plain", root=lake).code == 3


def test_namespace_is_dropped_and_restored_with_its_contents(pennon, lake):
    refused = pennon("drop", "prod", "--namespace", "--yes", root=lake)
    assert (refused.code, "--cascade" in refused.err) == (6, True)
    dry = pennon("drop", "prod", "--namespace", "--cascade", "--dry-run", root=lake)
    assert dry.json == {"namespaces": [{"id": ["prod"]}], "purged": False, "dry_run": True}
    assert pennon("drop", "prod", "--namespace", "--cascade", "--yes", root=lake).code == 0
    assert names(pennon("ls", "-r", root=lake)) == ["/my.table", "plain"]
    trashed = pennon("trash", root=lake).json["dropped"]
    assert [(one["type"], one["id"][-1]) for one in trashed] == [
        ("namespace", "prod"),
        ("namespace", "raw"),
        ("table", "events"),
        ("table", "promised"),
        ("table", "clicks"),
    ]
    assert pennon("undrop", "prod", "--namespace", "--dry-run", root=lake).code == 0
    back = pennon("undrop", "prod", "--namespace", root=lake).json["tables"]
    assert sorted(back) == [["prod", "events"], ["prod", "promised"], ["prod", "raw", "clicks"]]
    assert pennon("undrop", "prod", "--namespace", root=lake).code == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ["drop", "/", "--namespace", "--yes"],
        ["drop", "plain", "--cascade", "--yes"],
        ["drop", "prod", "--namespace", "--purge", "--yes"],
        ["drop", "plain", "--ttl", "soon", "--yes"],
        ["drop"],
        ["undrop", "prod", "--namespace", "--as", "x"],
        ["purge", "plain", "--before", "1d"],
        ["purge", "--before", "soon"],
        ["purge", "--id", "x"],
        ["purge", "--force", "--yes"],
        ["purge", "plain", "--yes"],
    ],
)
def test_contradictory_options_are_bad_input(pennon, lake, arguments):
    result = pennon(*arguments, root=lake)
    assert (result.code, result.out) == (2, "")
    assert names(pennon("ls", root=lake)) == ["prod", "/my.table", "plain"]


def test_drop_with_purge_deletes_the_data(pennon, lake):
    result = pennon("drop", "plain", "--purge", root=lake)
    assert (result.code, "permanently?" in result.err) == (6, True)
    assert pennon("drop", "plain", "prod.events", "--purge", "--yes", root=lake).json["purged"] is True
    assert not (lake / "plain.lance").exists()
    assert pennon("trash", root=lake).json == {"dropped": []}


def test_purge_deletes_only_tables_that_are_due(pennon, lake):
    pennon("drop", "plain", "prod.events", "--ttl", "0", "--yes", root=lake)
    pennon("drop", "/my.table", "--yes", root=lake)
    due = [one["id"] for one in pennon("trash", "--due", root=lake).json["dropped"]]
    assert due == [["plain"], ["prod", "events"]]
    dry = pennon("purge", "--dry-run", root=lake).json
    assert ([one["id"] for one in dry["tables"]], dry["dry_run"]) == (due, True)
    assert all(one["bytes"] > 0 for one in dry["tables"])
    refused = pennon("purge", root=lake)
    assert (refused.code, "'plain', 'prod.events' permanently" in refused.err) == (6, True)
    done = pennon("purge", "--yes", root=lake).json
    assert ([one["id"] for one in done["tables"]], done["failed"]) == (due, 0)
    assert [one["id"] for one in pennon("trash", root=lake).json["dropped"]] == [["my.table"]]
    assert pennon("purge", root=lake).json["tables"] == []


def test_purge_before_a_time_deletes_only_older_drops(pennon, lake):
    pennon("drop", "plain", "--ttl", "0", "--yes", root=lake)
    assert pennon("purge", "--before", "2020-01-01", "--yes", root=lake).json["tables"] == []
    assert pennon("purge", "--before", "1d ago", "--yes", root=lake).json["tables"] == []
    assert len(pennon("purge", "--before", "2999-01-01T00:00:00Z", "--yes", root=lake).json["tables"]) == 1


def test_purge_of_a_table_that_is_not_due_needs_force(pennon, lake):
    pennon("drop", "plain", "--yes", root=lake)
    early = pennon("purge", "plain", "--yes", root=lake)
    assert (early.code, "is kept until" in early.err) == (6, True)
    assert pennon("purge", "plain", "--force", "--yes", root=lake).json["failed"] == 0
    assert pennon("purge", "plain", "--force", "--yes", root=lake).code == 3


def test_drop_on_a_terminal_asks_for_confirmation(pennon, lake):
    with terminal("drop", "plain", "--root", str(lake)) as screen:
        screen.wait_for("[y/N]")
        assert "Drop table 'plain'? It can be restored for 7 days." in screen.seen
        screen.type("n\n")
        assert screen.end() == 6
        assert "nothing was changed" in screen.seen
    assert pennon("count", "plain", root=lake).code == 0
    with terminal("drop", "plain", "--root", str(lake)) as screen:
        screen.wait_for("[y/N]")
        screen.type("y\n")
        assert screen.end() == 0
    assert pennon("count", "plain", root=lake).code == 3


@pytest.mark.parametrize(("keys", "code"), [("\x03", 130), ("\x04", 6)], ids=["ctrl-c", "ctrl-d"])
def test_unconfirmed_drop_changes_nothing(pennon, lake, keys, code):
    with terminal("drop", "plain", "--root", str(lake)) as screen:
        screen.wait_for("[y/N]")
        if keys == "\x03":
            # This is not a controlling terminal, so the key alone sends no signal. A signal between the question and
            # the read of the answer has no effect until the next key press, so both are repeated.
            screen.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                screen.process.wait(10)
            if screen.process.poll() is None:
                screen.process.send_signal(signal.SIGINT)
        else:
            screen.type(keys)
        assert screen.end() == code
        assert "Traceback" not in screen.seen
    assert pennon("count", "plain", root=lake).code == 0


def test_migrate_adds_root_tables_to_the_manifest(pennon, v1_lake):
    dry = pennon("migrate", "--dry-run", root=v1_lake).json
    assert [one["name"] for one in dry["migrated"]] == ["a", "my.table"]
    assert pennon("ls", *mode_options("v2"), root=v1_lake).json["entries"] == []
    assert "would be migrated" in pennon("migrate", "--dry-run", "--table", root=v1_lake).out
    assert pennon("migrate", root=v1_lake).json["dry_run"] is False
    assert names(pennon("ls", *mode_options("v2"), root=v1_lake)) == ["a", "/my.table"]
    assert pennon("migrate", root=v1_lake).json["already"] == ["a", "my.table"]
    assert pennon("migrate", *mode_options("v1"), root=v1_lake).code == 5


def test_migrate_markers_copies_markers_to_the_root(pennon, v1_lake):
    (v1_lake / "a.lance" / ".lance-deregistered").write_bytes(b"")
    assert pennon("migrate", "--markers", "--dry-run", root=v1_lake).json["deregistered"] == ["a"]
    assert names(pennon("ls", root=v1_lake)) == ["a", "/my.table"]
    assert pennon("migrate", "--markers", root=v1_lake).json["deregistered"] == ["a"]
    assert names(pennon("ls", root=v1_lake)) == ["/my.table"]
