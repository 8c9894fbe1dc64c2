"""Requests that one client sends to a bucket at the same time, while another client changes the catalog in between.

The server answers them in the order that would do harm.
"""

from __future__ import annotations

import itertools
from threading import Event, Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import lance
import pyarrow as pa
import pytest

from pennon.directory import layout
from pennon.directory.markers import claim
from pennon.directory.markers.marker import CREATE, REVIVING, Marker
from pennon.store import open_store
from tests.concurrency.places import column, entries, files
from tests.servers import CountingS3
from tests.support import (
    Root,
    create_table,
    declare_table,
    describe_table,
    drop_table,
    fails,
    ipc,
    list_all_tables,
    list_tables,
    rename_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

pytestmark = [pytest.mark.concurrency, pytest.mark.s3]

PATIENCE = 25.0
"""The longest time for which a request is delayed, in seconds: clients give up after 30."""
_prefixes = itertools.count()


class InterposingS3(CountingS3):
    """moto's S3, which lets something happen before it answers a request, or loses its response."""

    def __init__(self) -> None:
        super().__init__()
        self._mutex = Lock()
        self._wanted = ""
        self._action: Callable[[], object] | None = None
        self._earlier: dict[str, Event] = {}
        self._lost = ""

    def before(self, wanted: str, action: Callable[[], object], *, answered: tuple[str, ...] = ()) -> None:
        """Run an action before the next request whose line ends with `wanted`, after others were answered."""
        self._earlier = {line: Event() for line in answered}
        self._action = action
        self._wanted = wanted

    def lose_response_to(self, wanted: str) -> None:
        """Carry out the next request whose line contains `wanted`, and then refuse it."""
        self._lost = wanted

    @property
    def has_acted(self) -> bool:
        """Whether the action ran."""
        return not self._wanted

    def _serve(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        prefix = parse_qs(environ.get("QUERY_STRING", "")).get("prefix", [""])[0]
        line = f"{environ['REQUEST_METHOD']} {prefix or environ['PATH_INFO']}"
        with self._mutex:
            is_wanted = bool(self._wanted) and line.endswith(self._wanted)
            if is_wanted:
                self._wanted = ""
        if is_wanted and self._action is not None:
            for event in self._earlier.values():
                assert event.wait(PATIENCE)
            self._action()
        if self._lost and self._lost in line:
            self._lost = ""
            list(super()._serve(environ, lambda *_: None))
            start_response("403 Forbidden", [("Content-Length", "0")])
            return []
        answer = super()._serve(environ, start_response)
        for end, event in self._earlier.items():
            if line.endswith(end):
                event.set()
        return answer


@pytest.fixture(scope="module")
def server():
    with InterposingS3() as running:
        yield running


@pytest.fixture
def prefix():
    return f"root-{next(_prefixes)}"


@pytest.fixture
def root(server, prefix):
    return Root(server.endpoint.uri(prefix), server.endpoint.storage_options())


@pytest.mark.parametrize("listing", [list_tables, list_all_tables])
def test_table_that_is_renamed_during_a_listing_is_listed_once(server, prefix, root, open_namespace, listing):
    owner, reader = open_namespace(root), open_namespace(root)
    create_table(owner, "t")
    assert listing(reader) == ["t"]
    server.before(
        f"GET {prefix}/",
        lambda: rename_table(owner, "t", to="u"),
        answered=(f"GET {prefix}/__manifest/_versions/",),
    )
    assert listing(reader) == ["u"]
    assert server.has_acted


@pytest.mark.parametrize("managed", [False, True])
def test_table_that_is_dropped_during_a_lookup_is_not_found(server, prefix, root, open_namespace, managed):
    owner, reader = open_namespace(root), open_namespace(root)
    create_table(owner, "t")
    if managed:
        owner.enable_table_version_management()
    describe_table(reader, "t")
    server.before(
        f"GET {prefix}/__manifest/_versions/",
        lambda: drop_table(owner, "t"),
        answered=(f"GET {prefix}/t.lance/", f"{prefix}/t.deleted"),
    )
    with fails(4):
        describe_table(reader, "t")
    assert server.has_acted


@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_table_that_is_replaced_while_it_is_opened_shows_its_new_rows(server, prefix, root, open_namespace, mode):
    owner, reader = open_namespace(root, mode), open_namespace(root, mode)
    create_table(owner, "t", data=ipc({"x": [1]}))
    assert count_rows(reader) == 1
    where = describe_table(owner, "t").location.rstrip("/").rpartition("/")[2]

    def replace() -> None:
        drop_table(owner, "t")
        create_table(owner, "t", data=ipc({"x": [1, 2, 3]}))

    server.before(f"GET {prefix}/__manifest/_versions/", replace, answered=(f"GET {prefix}/{where}/_versions/",))
    assert count_rows(reader) == 3
    assert server.has_acted


@pytest.mark.parametrize("mode", ["v1", "v2", "compatibility"])
def test_creation_whose_last_response_is_lost_succeeds(server, root, open_namespace, mode):
    ns = open_namespace(root, mode)
    create_table(ns, "other")
    server.lose_response_to("/_versions/1844674407370955161")
    create_table(ns, "t", data=ipc({"x": [1, 2]}))
    assert column(root, ns, "t", of="x") == [1, 2]


def test_version_with_another_name_that_appears_during_a_creation_is_kept(server, prefix, root, open_namespace):
    ns = open_namespace(root, "v1")
    create_table(ns, "other")

    def write_without_the_catalog() -> None:
        rows = pa.table({"who": ["writer"]})
        lance.write_dataset(rows, f"{root.uri}/t.lance", storage_options=root.options, enable_v2_manifest_paths=False)

    server.before(f"GET {prefix}/t.lance/_versions/", write_without_the_catalog)
    with fails(5):
        create_table(ns, "t", data=ipc({"who": ["catalog"]}))
    assert server.has_acted
    assert column(root, ns, "t") == ["writer"]
    assert len([path for path in files(root) if path.startswith("t.lance/data/")]) == 1


@pytest.mark.parametrize("mode", ["v1", "compatibility"])
def test_declaration_over_a_table_with_data_changes_nothing(root, open_namespace, mode):
    owner, stale = open_namespace(root, mode), open_namespace(root, mode)
    create_table(owner, "plain")
    list_tables(stale)
    declare_table(owner, "declared")
    create_table(owner, "declared")
    create_table(owner, "created")
    before = files(root)
    for name in ("declared", "created"):
        with fails(5):
            declare_table(stale, name)
    assert files(root) == before
    assert list_tables(owner, include_declared=False) == ["created", "declared", "plain"]


@pytest.mark.parametrize("mode", ["v1", "compatibility"])
def test_second_declaration_leaves_the_first_one(root, open_namespace, mode):
    owner, stale = open_namespace(root, mode), open_namespace(root, mode)
    create_table(owner, "plain")
    list_tables(stale)
    declare_table(owner, "t")
    before = files(root)
    with fails(5):
        declare_table(stale, "t")
    assert files(root) == before
    assert list_tables(owner, include_declared=False) == ["plain"]


def test_half_of_a_declaration_is_completed_when_its_claim_is_settled(root, open_namespace):
    ns = open_namespace(root, "v1")
    create_table(ns, "plain")
    store = open_store(root.uri, root.options)
    abandoned = Marker(REVIVING).with_lease(REVIVING, CREATE, -1)
    assert isinstance(claim.write_if_free(store, "t", abandoned), claim.Claim)
    store.put(f"t.lance/{layout.RESERVED_MARKER}", layout.MARKER_BODY)
    drop_table(ns, "t")
    ns.undrop_table(["t"])
    assert entries(root) == {"plain.lance", "t.lance", "t.declared"}
    assert list_tables(ns, include_declared=False) == ["plain"]
    store.close()


def count_rows(ns) -> int:
    return ns.count_table_rows({"id": ["t"]}).count
