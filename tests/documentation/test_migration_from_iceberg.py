"""The page about migrating from Iceberg works on a real Iceberg REST catalog."""

from __future__ import annotations

import re
from pathlib import Path

from tests.iceberg.irc_servers import apache_fixture

PAGE = Path(__file__).parents[2] / "docs" / "migration" / "iceberg.md"
ADDRESS = "http://127.0.0.1:8181"


def test_the_page_copies_tables_snapshots_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    assert ADDRESS in text
    names: dict[str, object] = {}
    with apache_fixture(tmp_path) as irc:
        for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            exec(compile(block.replace(ADDRESS, irc.uri), str(PAGE), "exec"), names)  # noqa: S102 - our own page
    with names["lake"] as lake:
        assert lake.tables() == ["sales.history", "sales.items", "sales.orders"]
        assert lake["sales.orders"].to_arrow().sort_by("id")["name"].to_pylist() == ["tea", "tea", "jam", "jam"]
        assert lake["sales.history"].at(tag="snapshot-1").count() == 2
        assert lake["sales.items"].count() == 2
