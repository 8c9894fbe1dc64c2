"""Random hostile entries for a root, and every operation of a namespace to run over them."""

from __future__ import annotations

import json
import reprlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from lance_namespace import (
    AlterTableAddColumnsRequest,
    BatchDeleteTableVersionsRequest,
    CountTableRowsRequest,
    CreateTableBranchRequest,
    CreateTableTagRequest,
    DeleteFromTableRequest,
    DescribeTableVersionRequest,
    GetTableStatsRequest,
    InsertIntoTableRequest,
    ListTableBranchesRequest,
    ListTableIndicesRequest,
    ListTablesRequest,
    ListTableTagsRequest,
    ListTableVersionsRequest,
    QueryTableRequest,
    RestoreTableRequest,
)
from lance_namespace.errors import LanceNamespaceError

from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_namespace,
    describe_table,
    drop_namespace,
    drop_table,
    ipc,
    list_all_tables,
    list_namespaces,
    list_tables,
    register_table,
    rename_table,
    table_exists,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Identifier = tuple[str, ...]

_body_repr = reprlib.Repr()
_body_repr.maxother = 400
reprlib.aRepr.maxstring = 400
OUTSIDE = "{outside}"
"""Stands for the absolute path of a directory beside the root, which nothing may touch."""


@dataclass(frozen=True, repr=False)
class PlantedRow:
    """A row of the manifest that no client of good will writes."""

    object_id: str
    object_type: str
    location: str | None
    metadata: str | None

    def __repr__(self) -> str:
        """Show the row; long texts are cut."""
        parts = (self.object_id, self.object_type, self.location, self.metadata)
        return f"PlantedRow({', '.join(map(reprlib.repr, parts))})"


@dataclass(frozen=True, repr=False)
class PlantedFile:
    """A file of the root."""

    path: str
    body: bytes

    def __repr__(self) -> str:
        """Show the file; a long body is cut."""
        return f"PlantedFile({self.path!r}, {_body_repr.repr(self.body)})"


@dataclass(frozen=True)
class PlantedLink:
    """A symbolic link in the root; object stores have none."""

    path: str
    target: str


Planted = PlantedRow | PlantedFile | PlantedLink

# Ids that only hostile rows have. Operations that change or delete something are run on these alone, so that every
# other table must survive them.
EVIL_IDS = tuple((*parent, f"evil{number}") for parent in ((), ("a",)) for number in range(3))
_NOW_MS = int(time.time() * 1000)
_LIVE_LOCATIONS = ("kept.lance", "plain.lance", "raw", "nested", "nested/__manifest", "ext", "ext/table")

_MANY_DIGITS = "@digits@"
"""Stands for a number of 5,000 digits, which Python itself does not write."""

_numbers = st.one_of(
    st.sampled_from(
        [0, -1, 1, 1.5, True, None, "7d", "", "0", "-5", "1e999", float("inf"), float("nan"), 1 << 70, _MANY_DIGITS]
    ),
    st.sampled_from(
        [_NOW_MS, _NOW_MS * 1000, _NOW_MS * 1_000_000, _NOW_MS // 1000, str(_NOW_MS), _NOW_MS - 86_400_000]
    ),
    st.integers(),
    st.floats(),
)
_texts = st.one_of(st.text(max_size=20), st.sampled_from(["", "..", "/", "\x00", "$", "a$b", "\ud800", "x" * 300]))
_json = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, _texts),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)

locations = st.one_of(
    st.sampled_from(
        [
            "../outside/victim.lance",
            "../outside",
            "a/../../outside/victim.lance",
            OUTSIDE,
            f"{OUTSIDE}/victim.lance",
            f"file://{OUTSIDE}/victim.lance",
            "s3://elsewhere/table",
            "",
            ".",
            "./",
            "..",
            "/",
            "__manifest",
            "__manifest/data",
            "__pennon",
            ".lance-trash",
            ".lance-locks",
            "kept.lance/data",
            "evil0.deleted",
            "a\\b",
            "a\x00b",
            "x" * 5000,
        ]
    ),
    st.sampled_from(["link.lance", "nested/__manifest"]),
    st.just("0badcafe_a$evil0"),
    st.text(max_size=12),
)

# A row of a table at one of these is a second name of that table, which correct clients can create, too. A row of the
# trash there is hostile.
_trash_locations = st.one_of(
    locations,
    st.sampled_from(_LIVE_LOCATIONS),
    st.sampled_from(_LIVE_LOCATIONS).map(lambda location: f"./{location}/"),
)


def _encoded(content: object) -> str:
    # Python writes NaN and Infinity, and numbers of any length: a hostile client can, too.
    return json.dumps(content).replace(f'"{_MANY_DIGITS}"', "9" * 5000)


def _truncated(text: str) -> st.SearchStrategy[str]:
    return st.integers(0, len(text)).map(lambda end: text[:end])


_DEEP = "[" * 100_000
_metadata = st.one_of(
    st.none(),
    st.sampled_from(["", "{}", "[]", "null", "{", _DEEP, '{"a":' * 50_000, '{"a": 1e999}', '{"pennon.protected": 7}']),
    _json.map(_encoded),
    _json.map(_encoded).flatmap(_truncated),
)

_trash_metadata = st.fixed_dictionaries(
    {},
    optional={
        "state": st.one_of(st.sampled_from(["dropped", "purging", "reviving", "", 5]), _texts),
        "object_id": st.one_of(st.sampled_from(["a$evil0", "evil0", "a$kept", "kept", "__trash$x", ""]), _texts),
        "deleted_at_ms": _numbers,
        "ttl_ms": _numbers,
        "group": _texts,
        "metadata": st.one_of(_texts, _json),
    },
).map(_encoded)

_version_paths = st.one_of(
    st.sampled_from(
        [
            f"{OUTSIDE}/notes.txt",
            "../outside/notes.txt",
            "../outside/victim.lance/_versions/1.manifest",
            "raw/data.csv",
            "__manifest/_versions/1.manifest",
            "kept.lance/_versions/../../../outside/notes.txt",
            "kept.lance/_versions/7.manifest",
            "",
        ]
    ),
    _texts,
)
_version_metadata = st.fixed_dictionaries(
    {},
    optional={
        "manifest_path": _version_paths,
        "staged_path": _version_paths,
        "naming_scheme": st.sampled_from(["V1", "V2", "", "../../..", 7]),
        "manifest_size": _numbers,
        "timestamp_millis": _numbers,
        "e_tag": _texts,
        "metadata": st.one_of(_texts, _json.map(_encoded)),
    },
).map(_encoded)
# A consistent row: a version that is committed but not finished has the same path twice.
_unfinished_metadata = _version_paths.map(
    lambda path: _encoded({"manifest_path": path, "staged_path": path, "naming_scheme": "V2", "manifest_size": "13"})
)

_evil_keys = st.sampled_from(["$".join(identifier) for identifier in EVIL_IDS])
rows = st.one_of(
    st.builds(
        PlantedRow,
        _evil_keys,
        st.just("table"),
        locations,
        _metadata,
    ),
    st.builds(
        PlantedRow,
        st.one_of(_evil_keys, st.sampled_from(["a$", "$", "", "a$b$c$d", "__evil", "a$\x07", "none$x"])),
        st.sampled_from(["table", "namespace", "table_version", "view", ""]),
        st.one_of(st.none(), locations),
        _metadata,
    ),
    st.builds(
        PlantedRow,
        st.sampled_from(["0" * 32, "f" * 32, "x", "", "../x", "a$b"]).map(lambda name: f"__trash${name}"),
        st.sampled_from(["table", "table", "table", "namespace", "table_version"]),
        _trash_locations,
        st.one_of(_trash_metadata, _metadata),
    ),
    st.builds(
        PlantedRow,
        st.builds(
            "{}${}".format,
            st.one_of(st.sampled_from(["a$kept", "kept", "a$ext"]), _evil_keys),
            # Version 1 of a live table has its own row: a second one with the same key would replace it.
            st.sampled_from(["2", "3", "99", "00000000000000000099", "9" * 5000, "x", "-1", "18446744073709551616"]),
        ),
        st.just("table_version"),
        st.one_of(st.none(), locations),
        st.one_of(_version_metadata, _unfinished_metadata, _metadata),
    ),
)

_marker_bodies = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "state": st.sampled_from(["deleted", "reviving", "purging", "", "other", 3, None]),
            "what": st.sampled_from(["create", "undrop", "purge", "x", 1]),
            "deletion_id": _texts,
            "deleted_at_ms": _numbers,
            "ttl_ms": _numbers,
            "version": _numbers,
            "writers": _json,
            "burn": _json,
            "properties": _json,
            "deregistered": _json,
            "lease_until_ms": _numbers,
            "owner": st.one_of(_texts, st.just("host/boot/ns/1/2")),
            "prior": st.one_of(_json, st.just({"state": "deleted", "deleted_at_ms": 1, "ttl_ms": 1})),
            "nonce": _texts,
        },
    ).map(lambda content: _encoded(content).encode(errors="surrogatepass").ljust(600)),
    _metadata.map(lambda text: (text or "").encode(errors="surrogatepass").ljust(40)),
    st.binary(max_size=80),
)
_marker_paths = st.sampled_from(
    [
        "evil0.deleted",
        "evil0.deregistered",
        "evil0.declared",
        "evil0.lance/.lance-deregistered",
        "evil0.lance/.lance-reserved",
        "evil0.lance/_versions/1.manifest",
        "evil0.lance/_versions/18446744073709551614.manifest",
        "evil0.lance/_versions/latest_version_hint.json",
        "evil0.lance/_refs/tags/t.json",
        "evil0.lance/_refs/branches/b.json",
        "evil0.lance/_refs/branches/..%2F..%2Foutside.json",
        "..deleted",
        ".deleted",
        "\u202eevil.deleted",
    ]
)
files = st.builds(PlantedFile, _marker_paths, _marker_bodies)
links = st.builds(
    PlantedLink,
    st.sampled_from(
        [
            "evil0.lance",
            "evil0.lance/data",
            "evil0.lance/_versions",
            "evil0.lance/_refs/tags",
            "evil0.lance/_refs/branches",
            "evil0.lance/tree/b",
            "evil0.deleted",
            ".lance-trash",
            ".lance-locks",
            "__pennon",
            "link.lance",
            "ext/table/link",
            "loop.lance",
        ]
    ),
    st.sampled_from(
        [OUTSIDE, f"{OUTSIDE}/victim.lance", f"{OUTSIDE}/notes.txt", "loop.lance", "missing", "kept.lance"]
    ),
)

tokens = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["p1.", "p1.%%%", "p1.AA==", "p1.7d//", "p1." + "A" * 9999, "9" * 5000, "\ud800"]),
)


def read_operations(ns: Any, evil: Sequence[Identifier], token: str) -> list[Callable[[], object]]:
    """List calls of every operation that reads, over all tables."""
    tables = [*evil, ("a", "kept"), ("kept",), ("a", "ext"), ("gone",)]
    general: list[Callable[[], object]] = [
        lambda: list_tables(ns),
        lambda: list_tables(ns, "a"),
        lambda: list_tables(ns, page_token=token, limit=2),
        lambda: ns.list_all_tables(ListTablesRequest(page_token=token)),
        lambda: list_all_tables(ns),
        lambda: list_namespaces(ns),
        lambda: list_namespaces(ns, page_token=token),
        lambda: describe_namespace(ns, "a"),
        lambda: ns.list_dropped_tables(detailed=True),
        lambda: ns.list_dropped_tables(page_token=token, limit=1),
        ns.list_problems,
        ns.list_purgable_tables,
        lambda: ns.purge_tables(dry_run=True),
        lambda: ns.migrate_to_manifest(dry_run=True),
    ]
    per_table: list[Callable[..., object]] = [
        lambda *name: table_exists(ns, *name),
        lambda *name: describe_table(ns, *name, load_detailed_metadata=True),
        lambda *name: ns.table_status(list(name)),
        lambda *name: ns.count_table_rows(CountTableRowsRequest(id=list(name))),
        lambda *name: ns.query_table(QueryTableRequest(id=list(name), k=5, vector={})),
        lambda *name: ns.get_table_stats(GetTableStatsRequest(id=list(name))),
        lambda *name: ns.list_table_versions(ListTableVersionsRequest(id=list(name))),
        lambda *name: ns.list_table_versions(ListTableVersionsRequest(id=list(name), page_token=token, limit=1)),
        lambda *name: ns.describe_table_version(DescribeTableVersionRequest(id=list(name), version=99)),
        lambda *name: ns.list_table_tags(ListTableTagsRequest(id=list(name), page_token=token)),
        lambda *name: ns.list_table_branches(ListTableBranchesRequest(id=list(name), page_token=token)),
        lambda *name: ns.list_table_indices(ListTableIndicesRequest(id=list(name), page_token=token)),
    ]
    return [*general, *((lambda call=call, name=name: call(*name)) for name in tables for call in per_table)]


def write_operations(ns: Any, evil: Sequence[Identifier]) -> list[Callable[[], object]]:
    """List calls of operations that change or delete; those of one table are for the hostile ones alone."""
    rows_in = ipc({"x": [7]})
    per_table: list[Callable[..., object]] = [
        lambda *name: ns.insert_into_table(InsertIntoTableRequest(id=list(name)), rows_in),
        lambda *name: ns.insert_into_table(InsertIntoTableRequest(id=list(name), mode="overwrite"), rows_in),
        lambda *name: create_table(ns, *name, data=rows_in, mode="overwrite"),
        lambda *name: ns.delete_from_table(DeleteFromTableRequest(id=list(name), predicate="x > 1")),
        lambda *name: ns.restore_table(RestoreTableRequest(id=list(name), version=1)),
        lambda *name: ns.create_table_tag(CreateTableTagRequest(id=list(name), tag="t", version=1)),
        lambda *name: ns.create_table_branch(CreateTableBranchRequest(id=list(name), name="b")),
        lambda *name: ns.alter_table_add_columns(
            AlterTableAddColumnsRequest(id=list(name), new_columns=[{"name": "y", "expression": "x + 1"}])
        ),
        lambda *name: ns.batch_delete_table_versions(
            BatchDeleteTableVersionsRequest(id=list(name), ranges=[{"start_version": 0, "end_version": 1 << 62}])
        ),
        lambda *name: ns.set_table_protection(list(name), False),
        lambda *name: drop_table(ns, *name),
        lambda *name: ns.undrop_table(list(name)),
        lambda *name: ns.purge_table(list(name), force=True),
        lambda *name: drop_table(ns, *name, purge="true"),
        lambda *name: rename_table(ns, *name, to="renamed"),
        lambda *name: deregister_table(ns, *name),
        lambda *name: declare_table(ns, *name),
        lambda *name: register_table(ns, *name, location="raw"),
    ]
    general: list[Callable[[], object]] = [
        ns.purge_tables,
        ns.migrate_markers,
        ns.migrate_to_manifest,
        lambda: create_namespace(ns, "new"),
        lambda: drop_namespace(ns, "new"),
        lambda: create_table(ns, "fresh"),
        lambda: create_table(ns, "a", "fresh"),
    ]
    return [*general, *((lambda call=call, name=name: call(*name)) for name in evil for call in per_table)]


def run(call: Callable[[], object]) -> None:
    """Call an operation; an error of the SDK is an answer, any other error fails the test."""
    try:
        call()
    except LanceNamespaceError:
        return
