"""Entries of a root that cannot be used are shown with the reason and what to do, safely for a terminal."""

from __future__ import annotations

import json
import time

import lance
import pyarrow as pa
import pytest

from tests.cli.cli_support import terminal


@pytest.fixture
def damaged(lake):
    """Plant a marker that cannot be read, one without a retention, and a row with a bad name."""
    for name in ("bad", "kept"):
        lance.write_dataset(pa.table({"x": [1]}), str(lake / f"{name}.lance"))
    (lake / "bad.deleted").write_bytes(b"\x1b[31mred" + b"x" * 64)
    (lake / "kept.deleted").write_text(json.dumps({"deleted_at_ms": int(time.time() * 1000) - 1000, "ttl_ms": "7d"}))
    manifest = lance.dataset(str(lake / "__manifest"))
    row = {"object_id": "a\x1b[31m", "object_type": "table", "location": "0badcafe_x"}
    lance.write_dataset(pa.Table.from_pylist([row], manifest.schema), manifest.uri, mode="append")
    return lake


def test_info_as_json_contains_all_problems(pennon, damaged):
    problems = pennon("info", root=damaged).json["problems"]
    assert [one["entry"] for one in problems] == ["a\x1b[31m", "bad.deleted", "kept.deleted"]
    assert all(one["reason"] and one["fix"] for one in problems)

    trash = {one["id"][0]: one for one in pennon("trash", root=damaged).json["dropped"]}
    assert trash["kept"]["purgeable_at"] is None
    assert "'7d'" in trash["kept"]["kept_because"]
    assert trash["bad"]["kept_because"]

    purged = pennon("purge", "--yes", root=damaged)
    assert (purged.code, purged.json["tables"], purged.json["failed"]) == (0, [], 0)
    assert {one["id"][0]: "force" in one["fix"] for one in purged.json["kept"]}["kept"] is True
    assert pennon("purge", "kept", "--yes", root=damaged).code != 0
    assert pennon("purge", "kept", "--yes", "--force", root=damaged).code == 0
    assert [one["entry"] for one in pennon("info", root=damaged).json["problems"]] == ["a\x1b[31m", "bad.deleted"]


def test_info_on_a_terminal_shows_all_problems(damaged):
    with terminal("info", "--root", str(damaged), columns=200) as screen:
        assert screen.end() == 0
    assert "a\\x1b[31m" in screen.seen
    assert "bad.deleted" in screen.seen
    assert "ttl_ms is '7d' instead of a whole number of milliseconds" in screen.seen
    assert "purge it by name and with force" in screen.seen
    assert "\x1b[31mred" not in screen.seen

    for command in (("trash",), ("purge", "--yes")):
        with terminal(*command, "--root", str(damaged), columns=200) as screen:
            assert screen.end() == 0
        assert "'7d'" in screen.seen
        assert "force" in screen.seen


def test_intact_catalog_has_no_problems(pennon, lake):
    assert pennon("info", root=lake).json["problems"] == []
