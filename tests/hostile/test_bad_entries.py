"""One bad entry never disables the rest: it is skipped with one warning, and listed with the reason and a fix."""

from __future__ import annotations

import json
import logging

import lance
import pyarrow as pa
import pytest
from lance_namespace import CountTableRowsRequest

from pennon import stored_json
from pennon.stored_json import UnreadableJsonError, parse_stored_json, parse_stored_object
from tests.hostile.planted import (
    DISK_BUT_IN_THE_SOAK,
    MANIFEST,
    contents,
    everyday_root,
    manifest_rows,
    plant_marker,
    plant_row,
    plant_rows,
    plant_table,
    plant_trash_row,
    values_at,
)
from tests.support import (
    create_namespace,
    create_table,
    describe_table,
    drop_namespace,
    drop_table,
    fails,
    ipc,
    list_all_tables,
    list_namespaces,
    list_tables,
)

DEEP = 100_000
METADATA = {
    "deep lists": "[" * DEEP + "]" * DEEP,
    "deep objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "deep inside": '{"a":' + "[" * DEEP + "]" * DEEP + "}",
    "unfinished": "{" * DEEP,
    "1e999": '{"a": 1e999}',
    "5,000 digits": '{"a": %s}' % ("9" * 5000),
    "not a number": '{"a": NaN}',
    "infinite": '{"a": -Infinity}',
    "a lone surrogate": '{"a": "\\ud800"}',
    "no JSON": "{a: 1}",
    "a list": "[1, 2]",
    "null": "null",
    "a text": '"x"',
    "twice": '{"a": "1", "a": "2"}',
    "an unclosed text": '{"a": "' + '\\"' * 1000,
    "zero bytes": "\x00\x00",
}
MARKERS = {
    **{name: text.encode() for name, text in METADATA.items() if name not in {"1e999", "5,000 digits"}},
    "no UTF-8": b"\xff\xfe" * 40,
    "UTF-16": '{"state": "deleted"}'.encode("utf-16"),
    "zeros": bytes(600),
    "an unknown state": b'{"state": "archived"}',
    "a state of another type": b'{"state": ["deleted"]}',
    "no state": b'{"name": "t"}',
    "a lease in a text": b'{"state": "purging", "lease_until_ms": "soon"}',
    "a lease in seconds": b'{"state": "purging", "lease_until_ms": 1700000000}',
    "a lease of 5,000 digits": b'{"state": "purging", "lease_until_ms": %s}' % (b"9" * 5000),
    "an owner of another type": b'{"state": "purging", "owner": {}}',
    "a version of another type": b'{"state": "reviving", "version": true}',
    "writers of another type": b'{"state": "deleted", "writers": "x"}',
    "properties of another type": b'{"state": "deleted", "properties": []}',
    "a claim on a claim": b'{"state": "reviving", "prior": {"state": "purging"}}',
    "claims on claims": b'{"state":"reviving","prior":' * 2000 + b"{}" + b"}" * 2000,
}


@pytest.fixture(params=DISK_BUT_IN_THE_SOAK)
def place(request, tmp_path):
    return everyday_root(request, tmp_path)


@pytest.fixture(params=["v2", "compatibility"])
def ns(request, place, open_namespace):
    """Open a root with tables that have to stay usable."""
    ns = open_namespace(place, request.param)
    create_namespace(ns, "a")
    for name in ("one", "two"):
        create_table(ns, "a", name, data=ipc({"x": [1]}))
    return ns


def require_usable(ns) -> None:
    """Run the usual operations in a catalog that has a bad entry."""
    assert {"one", "two"} <= set(list_tables(ns, "a"))
    assert {"a$one", "a$two"} <= set(list_all_tables(ns))
    assert "a" in list_namespaces(ns)
    assert ns.count_table_rows(CountTableRowsRequest(id=["a", "one"])).count == 1
    create_table(ns, "a", "new", data=ipc({"x": [2]}))
    drop_table(ns, "a", "new", ttl="0")
    assert [table.id for table in ns.list_dropped_tables(["a"])[0] if table.id[-1] == "new"] == [["a", "new"]]
    ns.undrop_table(["a", "new"])
    drop_table(ns, "a", "new", purge="true")
    assert ns.purge_tables().failed == []


def find_problem(ns, entry):
    (found,) = [one for one in ns.list_problems() if one.entry == entry]
    assert found.reason
    assert found.fix
    return found


@pytest.mark.parametrize("metadata", list(METADATA.values()), ids=list(METADATA))
def test_table_with_unreadable_properties_is_usable_and_keeps_them(ns, place, metadata):
    plant_table(place, "0badcafe_bad", [5])
    plant_row(place, "a$bad", "table", "0badcafe_bad", metadata)
    require_usable(ns)
    assert "bad" in list_tables(ns, "a")
    assert describe_table(ns, "a", "bad").properties == {}
    assert "properties cannot be read" in find_problem(ns, "a$bad").reason
    with fails(19, naming="a.bad"):
        ns.set_table_protection(["a", "bad"], protected=True)
    drop_table(ns, "a", "bad")
    ns.undrop_table(["a", "bad"])
    assert manifest_rows(place)["a$bad"]["metadata"] == metadata
    assert values_at(place, "0badcafe_bad") == [5]


@pytest.mark.parametrize("metadata", [METADATA["deep objects"], METADATA["1e999"]], ids=["deep", "1e999"])
def test_a_namespace_with_unreadable_properties_keeps_them(ns, place, metadata):
    plant_row(place, "bad", "namespace", None, metadata)
    require_usable(ns)
    assert list_namespaces(ns) == ["a", "bad"]
    assert ns.describe_namespace({"id": ["bad"]}).properties == {}
    with fails(19, naming="bad"):
        ns.alter_namespace_properties(["bad"], {"k": "v"})
    assert manifest_rows(place)["bad"]["metadata"] == metadata


def test_protected_table_with_unreadable_properties_is_protected(ns, place):
    plant_table(place, "0badcafe_bad", [5])
    plant_row(place, "a$bad", "table", "0badcafe_bad", '{"pennon.protected": "true", "a": 1e999}')
    with fails(19, naming="protected"):
        drop_table(ns, "a", "bad")
    drop_table(ns, "a", "bad", force="true")


@pytest.mark.parametrize("metadata", list(METADATA.values()), ids=list(METADATA))
def test_a_row_of_the_trash_that_cannot_be_read_is_kept(ns, place, metadata):
    plant_table(place, "0badcafe_bad", [5])
    plant_row(place, "__trash$bad", "table", "0badcafe_bad", metadata)
    require_usable(ns)
    assert "data is kept" in find_problem(ns, "__trash$bad").reason
    assert "__trash$bad" in manifest_rows(place)
    assert values_at(place, "0badcafe_bad") == [5]


@pytest.mark.parametrize("original", ["", "$", "__manifest", "a$\x01", "a/b", "..", "x" * 5000])
def test_a_row_of_the_trash_with_a_bad_name_is_kept(ns, place, original):
    plant_table(place, "0badcafe_bad", [5])
    deletion_id = plant_trash_row(place, "0badcafe_bad", original)
    require_usable(ns)
    assert find_problem(ns, f"__trash${deletion_id}")
    assert values_at(place, "0badcafe_bad") == [5]


ODD_ROWS = {
    "5,000 digits": {"object_id": "a$one$" + "9" * 5000, "object_type": "table_version"},
    "leading zeros": {"object_id": "a$one$0007", "object_type": "table_version"},
    "no number": {"object_id": "a$one$next", "object_type": "table_version"},
    "version 0": {"object_id": "a$one$0", "object_type": "table_version"},
    "a control character": {"object_id": "a$b\x07", "object_type": "table", "location": "0badcafe_x"},
    "another delimiter": {"object_id": "a/b", "object_type": "table", "location": "0badcafe_x"},
    "a newline": {"object_id": "x\ny", "object_type": "namespace"},
    "an empty name": {"object_id": "a$$b", "object_type": "table", "location": "0badcafe_x"},
    "too long": {"object_id": "z" * 3000, "object_type": "table", "location": "0badcafe_x"},
    "an unknown type": {"object_id": "a$view", "object_type": "view", "metadata": "{}"},
}


@pytest.mark.parametrize("row", list(ODD_ROWS.values()), ids=list(ODD_ROWS))
def test_unusable_row_is_skipped_and_kept(ns, place, row, caplog):
    plant_rows(place, [row])
    with caplog.at_level(logging.WARNING, "pennon.directory"):
        require_usable(ns)
    if row["object_type"] != "view" and row["object_id"] != "a$$b":
        warnings = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
        assert len(warnings) == 1
        assert "\n" not in warnings[0]
    (found,) = ns.list_problems() if row["object_id"] != "a$$b" else [None]
    assert found is None or row["object_id"].startswith(found.entry.rstrip("…"))
    assert row["object_id"] in manifest_rows(place)


def test_rows_of_thousands_of_nested_namespaces_do_not_block_others(ns, place):
    names = ["n" * 2] * 1500
    rows = [{"object_id": "$".join(names[: depth + 1]), "object_type": "namespace"} for depth in range(len(names))]
    plant_rows(place, rows)
    require_usable(ns)
    drop_namespace(ns, "nn", behavior="cascade")
    assert list_namespaces(ns) == ["a"]


@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_rows_without_id_or_type_are_skipped_and_kept(mode, place, open_namespace):
    uri, options = f"{place.uri}/__manifest", place.options or None
    nullable = pa.schema([pa.field(field.name, field.type) for field in MANIFEST])
    new = [
        {"object_id": None, "object_type": "table"},
        {"object_id": "x"},
        {"object_id": "n", "object_type": "namespace"},
    ]
    lance.write_dataset(pa.Table.from_pylist(new, nullable), uri, storage_options=options)
    ns = open_namespace(place, mode)
    create_namespace(ns, "a")
    for name in ("one", "two"):
        create_table(ns, "a", name, data=ipc({"x": [1]}))
    require_usable(ns)
    assert "2 rows" in find_problem(ns, "__manifest").reason
    # Commits rewrite small fragments, and drop empty ones, but not this one.
    for number in range(20):
        create_namespace(ns, f"n{number}")
    drop_namespace(ns, "n")
    assert "2 rows" in find_problem(ns, "__manifest").reason
    assert lance.dataset(uri, storage_options=options).count_rows("object_id IS NULL OR object_type IS NULL") == 2


@pytest.mark.parametrize("body", list(MARKERS.values()), ids=list(MARKERS))
@pytest.mark.parametrize("mode", ["v1", "compatibility"])
def test_a_marker_that_cannot_be_read_hides_its_table_and_is_left_alone(mode, place, open_namespace, body):
    ns = open_namespace(place, mode)
    plant_table(place, "bad.lance", [5])
    plant_table(place, "live.lance", [6])
    plant_marker(place, "bad", body.ljust(64))
    before = contents(place)
    assert list_tables(ns) == ["live"]
    assert [table.id for table in ns.list_dropped_tables()[0]] == [["bad"]]
    assert [kept.id for kept in ns.purge_tables().kept] in ([["bad"]], [])
    assert "cannot be read" in find_problem(ns, "bad.deleted").reason
    for act in (
        lambda: ns.purge_table(["bad"], force=True),
        lambda: ns.undrop_table(["bad"]),
        lambda: create_table(ns, "bad"),
        lambda: drop_table(ns, "bad"),
    ):
        with fails(19, naming="delete 'bad.deleted'"):
            act()
    left = contents(place)
    assert {path: left[path] for path in before} == before
    create_table(ns, "new")
    drop_table(ns, "new", purge="true")


VERSION_METADATA = {
    **{name: METADATA[name] for name in ("deep lists", "deep inside", "1e999", "no JSON", "a list", "twice")},
    "nothing": None,
    "no path": '{"naming_scheme": "V2"}',
    "an unknown scheme": '{"manifest_path": "x", "naming_scheme": "V9"}',
    "deep metadata": json.dumps({"manifest_path": "x", "metadata": "[" * DEEP}),
}


@pytest.mark.parametrize("metadata", list(VERSION_METADATA.values()), ids=list(VERSION_METADATA))
def test_unreadable_version_row_blocks_nothing(ns, place, metadata):
    ns.enable_table_version_management()
    for name in ("one", "two"):
        plant_row(place, f"a${name}$2", "table_version", None, metadata)
    require_usable(ns)
    assert "version cannot be used" in find_problem(ns, "a$one$2").reason
    assert [one.version for one in ns.list_table_versions({"id": ["a", "one"]}).versions] == [1]
    assert ns.describe_table_version({"id": ["a", "one"]}).version.version == 1
    through = {"namespace_client": ns, "table_id": ["a", "one"], "storage_options": place.options or None}
    lance.write_dataset(pa.table({"x": [2]}), mode="append", **through)
    assert ns.count_table_rows(CountTableRowsRequest(id=["a", "one"])).count == 2
    assert [one.entry for one in ns.list_problems()] == ["a$two$2"]
    ns.disable_table_version_management()
    assert ns.list_problems() == []


@pytest.mark.parametrize("text", ["9" * 5000, "-1", "1e3", "²", ""])
def test_non_numeric_feature_flags_are_rejected(ns, place, text):
    uri = f"{place.uri}/__manifest"
    dataset = lance.dataset(uri, storage_options=place.options or None)
    dataset.update_metadata({"lance.namespace.manifest.reader_feature_flags": text})
    with fails(0, naming="reader_feature_flags"):
        list_tables(ns, "a")


@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_all_bad_entries_together_block_nothing(mode, somewhere, open_namespace):
    ns = open_namespace(somewhere, mode)
    ns.enable_table_version_management()
    create_namespace(ns, "a")
    for name in ("one", "two"):
        create_table(ns, "a", name, data=ipc({"x": [1]}))
    rows = [row for name, row in ODD_ROWS.items() if name != "an empty name"]
    for number, metadata in enumerate(METADATA.values()):
        rows.append({"object_id": f"bad{number}", "object_type": "namespace", "metadata": metadata})
        rows.append({"object_id": f"__trash$bad{number}", "object_type": "table", "metadata": metadata})
    for number, metadata in enumerate(VERSION_METADATA.values()):
        rows.append({"object_id": f"a$one${number + 2}", "object_type": "table_version", "metadata": metadata})
    plant_rows(somewhere, rows)
    for number, body in enumerate(MARKERS.values()):
        plant_table(somewhere, f"m{number}.lance", [1])
        plant_marker(somewhere, f"m{number}", body.ljust(64))
    require_usable(ns)
    problems = ns.list_problems()
    assert len(problems) == len(rows) + len(MARKERS)
    assert all(one.reason and one.fix for one in problems)
    kept = {row["object_id"] for row in rows}
    assert kept <= manifest_rows(somewhere).keys()
    assert all(values_at(somewhere, f"m{number}.lance") == [1] for number in range(len(MARKERS)))


# The parser of stored JSON


@pytest.mark.parametrize("text", list(METADATA.values()), ids=list(METADATA))
def test_stored_json_parser_raises_only_its_own_error(text):
    with pytest.raises(UnreadableJsonError):
        parse_stored_object(text)


@pytest.mark.parametrize("value", [{}, {"a": "ü"}, {"a": {"b": [1, 2.5, None, True]}}, {"a": '[{"\\'}, {"a": "😀"}])
def test_stored_json_parser_accepts_output_of_other_writers(value):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False).encode()):
        assert parse_stored_object(text) == value


def test_stored_json_parser_bounds_depth_and_size_exactly(monkeypatch):
    deepest = "[" * stored_json.MAX_DEPTH + "]" * stored_json.MAX_DEPTH
    parse_stored_json(deepest)
    parse_stored_json(json.dumps(["[" * 1000 + '"' + "{" * 1000] * 50))
    with pytest.raises(UnreadableJsonError, match="levels deep"):
        parse_stored_json(f"[{deepest}]")
    monkeypatch.setattr(stored_json, "MAX_BYTES", 100)
    parse_stored_json('"' + "x" * 98 + '"')
    with pytest.raises(UnreadableJsonError, match="larger"):
        parse_stored_json('"' + "x" * 99 + '"')
