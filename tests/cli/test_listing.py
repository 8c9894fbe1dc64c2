from __future__ import annotations

import pytest

from pennon import DirectoryNamespace
from pennon.directory.manifest import TABLE, Row
from tests.cli.cli_support import ROWS, mode_options
from tests.support import MODES, ipc


def test_ls_lists_namespaces_before_tables(pennon, lake):
    result = pennon("ls", root=lake)
    assert result.code == 0
    assert result.json == {
        "namespace": [],
        "entries": [
            {"type": "namespace", "name": "prod", "id": ["prod"], "address": "prod"},
            {"type": "table", "name": "my.table", "id": ["my.table"], "address": "/my.table"},
            {"type": "table", "name": "plain", "id": ["plain"], "address": "plain"},
        ],
        "next_page": None,
    }


@pytest.mark.parametrize("mode", list(MODES))
def test_ls_lists_a_catalog_of_every_mode(pennon, root, mode):
    with DirectoryNamespace(root=str(root), **MODES[mode]) as namespace:
        namespace.create_table({"id": ["a"]}, ipc(ROWS))
    result = pennon("ls", *mode_options(mode), root=root)
    assert [entry["id"] for entry in result.json["entries"]] == [["a"]]


@pytest.mark.parametrize("mode", list(MODES))
def test_ls_of_an_empty_catalog_lists_and_creates_nothing(pennon, root, mode):
    root.mkdir()
    for command in ("ls", "tree"):
        assert pennon(command, *mode_options(mode), root=root).code == 0
    assert pennon("ls", *mode_options(mode), root=root).json["entries"] == []
    assert pennon("ls", "--table", *mode_options(mode), root=root).out == "no namespaces and no tables\n"
    assert list(root.iterdir()) == []


def test_ls_of_a_table_lists_that_table(pennon, lake):
    assert [entry["address"] for entry in pennon("ls", "prod.events", root=lake).json["entries"]] == ["prod.events"]


def test_pages_of_ls_contain_all_entries(pennon, lake):
    seen, page = [], []
    while True:
        document = pennon("ls", "prod", "--limit", "1", *page, root=lake).json
        seen += [entry["name"] for entry in document["entries"]]
        if document["next_page"] is None:
            break
        page = ["--page", document["next_page"]]
    assert seen == ["raw", "events", "promised"]


def test_page_of_ls_continues_after_a_name_that_looks_like_a_token(pennon, root):
    with DirectoryNamespace(root=str(root)) as ns:
        for name in ("n1", "n2"):
            ns.create_namespace({"id": [name]})
        for name in ("p1.YQ", "p1.zz", "q"):
            ns.declare_table({"id": [name]})
    pages, token = [], []
    while token is not None:
        document = pennon("ls", "--limit", "2", *token, root=root).json
        pages.append([entry["name"] for entry in document["entries"]])
        token = document["next_page"] and ["--page", document["next_page"]]
    assert pages == [["n1", "n2"], ["p1.YQ", "p1.zz"], ["q"]]


def test_ls_reports_that_there_are_more_entries(pennon, lake):
    result = pennon("ls", "prod", "--limit", "1", "--table", root=lake)
    assert "there are more" in result.out
    assert "--page" in result.out


def test_ls_rejects_an_invalid_page_token(pennon, lake):
    result = pennon("ls", "--page", "nonsense", root=lake)
    assert (result.code, result.out) == (2, "")
    assert "Bad page token" in result.err


def test_recursive_ls_lists_all_tables(pennon, lake):
    addresses = [entry["address"] for entry in pennon("ls", "-r", root=lake).json["entries"]]
    assert addresses == ["/my.table", "plain", "prod.events", "prod.promised", "prod.raw.clicks"]
    below = [entry["address"] for entry in pennon("ls", "-r", "prod.raw", root=lake).json["entries"]]
    assert below == ["prod.raw.clicks"]


def test_long_ls_opens_the_tables(pennon, lake):
    entries = {entry["name"]: entry for entry in pennon("ls", "prod", "--long", root=lake).json["entries"]}
    events = entries["events"]
    assert (events["version"], events["rows"], events["columns"]) == (1, 3, 2)
    assert events["changed_at"].endswith("+00:00")
    assert entries["promised"]["version"] is None
    assert "rows" not in entries["raw"]


def test_long_ls_shows_other_tables_if_one_cannot_be_opened(pennon, lake):
    for manifest in (lake / "plain.lance" / "_versions").iterdir():
        manifest.write_bytes(b"no manifest at all")
    result = pennon("ls", "--long", root=lake)
    entries = {entry["name"]: entry for entry in result.json["entries"]}
    assert result.code == 0
    assert "plain" in entries["plain"]["error"]
    assert entries["my.table"]["rows"] == 3
    assert "error" in pennon("ls", "--long", "--table", root=lake).out


def test_ls_on_a_terminal_writes_columns(pennon, lake):
    lines = pennon("ls", "--table", root=lake).out.splitlines()
    assert lines == ["name      type", "prod      namespace", "my.table  table", "plain     table"]


def test_tree_nests_namespaces(pennon, lake):
    assert pennon("tree", root=lake).json == {
        "id": [],
        "namespaces": [
            {
                "name": "prod",
                "namespaces": [{"name": "raw", "namespaces": [], "tables": ["clicks"]}],
                "tables": ["events", "promised"],
            }
        ],
        "tables": ["my.table", "plain"],
    }


def test_tree_draws_lines_between_namespaces_and_tables(pennon, lake):
    assert pennon("tree", "--table", root=lake).out.splitlines() == [
        "/",
        "├── prod",
        "│   ├── raw",
        "│   │   └── clicks",
        "│   ├── events",
        "│   └── promised",
        "├── my.table",
        "└── plain",
        "2 namespaces, 5 tables",
    ]


def test_tree_respects_depth_and_namespaces_only(pennon, lake):
    assert pennon("tree", "--depth", "1", root=lake).json["namespaces"] == [
        {"name": "prod", "namespaces": [], "tables": [], "cut": True}
    ]
    assert "└── …" in pennon("tree", "--depth", "1", "--table", root=lake).out
    shown = pennon("tree", "--namespaces", "--table", root=lake).out.splitlines()
    assert shown == ["/", "└── prod", "    └── raw", "2 namespaces, 0 tables"]


def test_tree_shows_a_few_tables_of_each_namespace(pennon, lake):
    out = pennon("tree", "prod", "--limit", "1", "--table", root=lake).out
    assert "… 1 more tables" in out
    assert "promised" not in out


def test_a_v1_catalog_is_listed_and_drawn(pennon, v1_lake):
    options = mode_options("v1")
    assert [entry["name"] for entry in pennon("ls", *options, root=v1_lake).json["entries"]] == ["a", "my.table"]
    assert pennon("tree", *options, root=v1_lake).json["tables"] == ["a", "my.table"]


@pytest.mark.parametrize("command", ["ls", "tree"])
def test_a_namespace_that_is_not_there_is_not_found(pennon, lake, command):
    result = pennon(command, "nope.inner", root=lake)
    assert (result.code, result.out) == (3, "")
    assert result.err == (
        "Error: Namespace not found: 'nope$inner' (if the name itself contains dots, write /nope.inner)\n"
    )


HOSTILE = [
    "-n",
    "a b",
    "dot.ted",
    "emoji 🏴",
    "quote'\"",
    "right\u202eleft",
    "separator\u2028line",
    "日本語",
    "ﷺ",
    "e\u0301",
]


def test_odd_names_are_listed_opened_and_dropped(pennon, root):
    with DirectoryNamespace(root=str(root)) as namespace:
        namespace.create_namespace({"id": ["odd.space"]})
        for name in HOSTILE:
            namespace.create_table({"id": ["odd.space", name]}, ipc(ROWS))
    entries = pennon("ls", "/odd.space", root=root).json["entries"]
    assert sorted(entry["name"] for entry in entries) == sorted(HOSTILE)
    for entry in entries:
        assert pennon("count", "--", entry["address"], root=root).json["rows"] == 3
    shown = pennon("ls", "/odd.space", "--table", root=root).out
    assert len(shown.splitlines()) == len(HOSTILE) + 1
    assert "right\\u202eleft" in shown
    assert "separator\\u2028line" in shown
    assert len(pennon("tree", "--table", root=root).out.splitlines()) == len(HOSTILE) + 3
    assert pennon("drop", "--yes", "--", *[entry["address"] for entry in entries], root=root).code == 0
    assert len(pennon("trash", root=root).json["dropped"]) == len(HOSTILE)


def test_directories_with_invalid_table_names_are_not_listed(pennon, v1_lake):
    (v1_lake / "evil\x1b[31m.lance" / "_versions").mkdir(parents=True)
    for options in (["--json"], ["--table"]):
        result = pennon("ls", *options, *mode_options("v1"), root=v1_lake)
        assert "evil" not in result.out
        assert "\x1b" not in result.out


def test_a_hundred_thousand_tables_are_listed(pennon, root):
    rows = [Row(f"ns$t{number:06}", TABLE, f"{number:08x}_ns$t{number:06}") for number in range(100_000)]

    def fill(draft) -> None:
        for row in rows:
            draft.put(row)

    with DirectoryNamespace(root=str(root)) as namespace:
        namespace.create_namespace({"id": ["ns"]})
        namespace._catalog.manifest.mutate(fill)
    assert len(pennon("ls", "ns", root=root).json["entries"]) == 100_000
    lines = pennon("ls", "ns", "--table", root=root).out.splitlines()
    assert len(lines) == 1 + 1000 + 1
    assert lines[-1].startswith("there are more: use --limit 0")
    assert len(pennon("ls", "ns", "--table", "--limit", "0", root=root).out.splitlines()) == 100_001
