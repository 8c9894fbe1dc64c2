"""Two clients on one root against a model in plain Python: every answer, every error code, every file."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, unquote

import lance
import obstore
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from lance.namespace import DirectoryNamespace as ReferenceNamespace
from lance_namespace import ListNamespacesRequest, ListTablesRequest
from lance_namespace.errors import LanceNamespaceError
from obstore.store import S3Store

from pennon import DirectoryNamespace
from pennon.directory import layout
from tests.servers import CountingS3, S3Endpoint
from tests.stateful.catalog_model import COMPATIBILITY, HASHED, OWN, V1, V2, Model, Refused, own
from tests.support import (
    MODES,
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_namespace,
    describe_table,
    drop_namespace,
    ipc,
    namespace_exists,
    register_table,
    remove_table,
    rename_table,
    table_exists,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# Few names, so that they collide.
ROOT_NAMES = ["a", "b %20?"]
NAMES = ["a", "b"]
IDENTIFIERS = [
    *((name,) for name in ROOT_NAMES),
    *itertools.product(ROOT_NAMES, NAMES),
    ("a", "a", "a"),
    ("a", "a", "b"),
]
WISHES = ["elsewhere", "deep/elsewhere"]

clients = st.sampled_from([0, 1])
root_names = st.sampled_from(ROOT_NAMES)
numbers = st.integers(0, 11)
# A number is an index into the existing objects (see `pick`): otherwise too few steps would find an object.
ids = st.one_of(numbers, numbers, st.sampled_from(IDENTIFIERS))
Choice = int | tuple[str, ...]
properties = st.one_of(
    st.just({}), st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["", "v", '"quoted"', "ü"]), max_size=2)
)
changes = st.dictionaries(
    st.sampled_from(["k", "l"]), st.one_of(st.none(), st.sampled_from(["v", "w"])), min_size=1, max_size=2
)
create_modes = st.sampled_from(["create", "create", "exist_ok", "overwrite"])
limits = st.sampled_from([None, 1, 2, 3])


def get_outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the code of the error that it raises."""
    try:
        return call()
    except Refused as refused:
        return Refusal(refused.code)
    except LanceNamespaceError as error:
        return Refusal(int(error.code), str(error))


class Refusal:
    """An error of a client, or one that the model expects."""

    def __init__(self, code: int, message: str = "") -> None:
        self.code = code
        self.message = message

    def __repr__(self) -> str:
        return f"error {self.code} {self.message}".strip()


class LocalRoot:
    """A new directory."""

    options: ClassVar[dict[str, str] | None] = None

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="pennon-machine-"))
        self.properties = {"root": str(self.path)}

    def location(self, path: str) -> str:
        return str(self.path / path)

    def relative(self, location: str) -> str:
        return Path(location).relative_to(self.path).as_posix()

    def files(self) -> set[str]:
        return {
            Path(folder, name).relative_to(self.path).as_posix()
            for folder, _, names in os.walk(self.path)
            for name in names
        }

    def empty_folders(self) -> set[str]:
        folders = {path.name for path in self.path.iterdir() if path.is_dir()} - {"__manifest"}
        return {name for name in folders if not any(names for _, _, names in os.walk(self.path / name))}

    def remove(self) -> None:
        shutil.rmtree(self.path)


class S3Root:
    """A new prefix of a bucket."""

    def __init__(self, endpoint: S3Endpoint, prefix: str) -> None:
        self.uri = endpoint.uri(prefix)
        self.prefix = prefix
        self.options = endpoint.storage_options()
        self.properties = {"root": self.uri, **endpoint.properties()}
        self.store = S3Store(endpoint.bucket, config=self.options)

    def location(self, path: str) -> str:
        return f"{self.uri}/{quote(path)}"

    def relative(self, location: str) -> str:
        return unquote(location).removeprefix(self.uri + "/")

    def files(self) -> set[str]:
        found = [item["path"] for chunk in obstore.list(self.store, self.prefix) for item in chunk]
        return {path.removeprefix(self.prefix + "/") for path in found}

    def empty_folders(self) -> set[str]:
        return set()

    def remove(self) -> None:
        obstore.delete(self.store, [f"{self.prefix}/{path}" for path in self.files()])


class CatalogMachine(RuleBasedStateMachine):
    """Drives the clients; each rule lets the model say what must come, and compares."""

    second = COMPATIBILITY
    server: CountingS3 | None = None
    numbers = itertools.count(1)

    def __init__(self) -> None:
        super().__init__()
        self.root = LocalRoot() if self.server is None else S3Root(self.server.endpoint, f"root-{next(self.numbers)}")
        self.model = Model()
        self.modes = [COMPATIBILITY, self.second]
        self.clients: list[DirectoryNamespace] = []
        self.values = itertools.count(1)

    @initialize(filled=st.booleans())
    def open_clients(self, filled: bool) -> None:
        self.clients = [self.open_client(mode) for mode in self.modes]
        if filled:
            for identifier in (("a",), ("a", "a")):
                create_namespace(self.clients[0], *identifier)
                self.model.create_namespace(COMPATIBILITY, identifier, "create", {})

    def teardown(self) -> None:
        for client in self.clients:
            client.close()
        self.root.remove()

    def open_client(self, mode: str) -> DirectoryNamespace:
        # The model has no dropped tables.
        return DirectoryNamespace(**self.root.properties, **MODES[mode], drop_ttl="0")

    def pick(self, choice: Choice, what: str) -> tuple[str, ...]:
        """Return the identifier for a choice: a number is an index into the objects of the model."""
        if not isinstance(choice, int):
            return choice
        model = self.model
        names = [(*space, name) for space in ((), *model.namespaces) for name in (NAMES if space else ROOT_NAMES)]
        tables = dict.fromkeys([*model.tables, *((name,) for name in ROOT_NAMES if own(name) in model.directories)])
        spaces = [(), *model.namespaces]
        found = {
            "table": list(tables),
            "namespace": spaces,
            "new": [name for name in names if len(name) < 4],
            "any": [*tables, *model.namespaces],
        }[what]
        identifier = found[choice % len(found)] if found else IDENTIFIERS[choice % len(IDENTIFIERS)]
        note(f"{what} {choice} is {identifier}")
        return identifier

    def new_rows(self) -> list[int]:
        return [next(self.values), next(self.values)]

    def compare(self, predicted: Callable[[], Any], actual: Callable[[], Any]) -> Any:
        """Check that a client does what the model predicts. Returns both results, or None if both fail."""
        expected, got = get_outcome(predicted), get_outcome(actual)
        if isinstance(expected, Refusal) or isinstance(got, Refusal):
            assert isinstance(expected, Refusal), f"success was expected ({expected!r}), not {got!r}"
            assert isinstance(got, Refusal), f"{expected!r} was expected, but it succeeded: {got!r}"
            assert got.code == expected.code, f"{expected!r} was expected, not {got!r}"
            return None
        return expected, got

    # Namespaces

    @rule(who=clients, choice=ids, how=create_modes, properties=properties)
    def create_namespace(self, who: int, choice: Choice, how: str, properties: dict[str, str]) -> None:
        identifier = self.pick(choice, "new")
        both = self.compare(
            lambda: self.model.create_namespace(self.modes[who], identifier, how, properties),
            lambda: create_namespace(self.clients[who], *identifier, mode=how, properties=properties),
        )
        if both:
            assert both[1].properties == both[0]
            self.clients[who].purge_tables()

    @rule(who=clients, choice=ids, skip=st.booleans(), cascade=st.booleans())
    def drop_namespace(self, who: int, choice: Choice, skip: bool, cascade: bool) -> None:
        identifier = self.pick(choice, "namespace")
        both = self.compare(
            lambda: self.model.drop_namespace(self.modes[who], identifier, skip=skip, cascade=cascade),
            lambda: drop_namespace(
                self.clients[who],
                *identifier,
                mode="Skip" if skip else "Fail",
                behavior="Cascade" if cascade else "Restrict",
            ),
        )
        if both:
            assert both[1].properties == both[0]
            self.clients[who].purge_tables()

    @rule(who=clients, choice=ids, changes=changes)
    def alter_namespace_properties(self, who: int, choice: Choice, changes: dict) -> None:
        identifier = self.pick(choice, "namespace")
        both = self.compare(
            lambda: self.model.alter_properties(self.modes[who], identifier, changes),
            lambda: self.clients[who].alter_namespace_properties(identifier, changes),
        )
        if both:
            assert both[1] == both[0]

    # Create and register tables

    @rule(who=clients, choice=ids, properties=properties, wish=st.sampled_from([None, None, None, *WISHES]))
    def declare_table(self, who: int, choice: Choice, properties: dict, wish: str | None) -> None:
        identifier = self.pick(choice, "new")
        mode = self.modes[who]
        both = self.compare(
            lambda: self.model.declare(mode, identifier, properties, wish),
            lambda: declare_table(self.clients[who], *identifier, properties=properties, location=wish),
        )
        if both:
            location = self.checked_place(identifier, both[0], both[1].location)
            self.model.place(mode, identifier, location, properties, None)
            assert both[1].properties == self.model.properties(mode, identifier)

    @rule(who=clients, choice=ids, how=create_modes, properties=properties)
    def create_table(self, who: int, choice: Choice, how: str, properties: dict[str, str]) -> None:
        identifier = self.pick(choice, "new")
        mode, rows = self.modes[who], self.new_rows()
        both = self.compare(
            lambda: self.model.create(mode, identifier, how, properties),
            lambda: create_table(
                self.clients[who], *identifier, data=ipc({"x": rows}), mode=how, properties=properties
            ),
        )
        if not both:
            return
        (deed, where), answer = both
        location = self.checked_place(identifier, where, answer.location)
        if deed == "new":
            self.model.place(mode, identifier, location, properties, rows)
        elif deed == "fill":
            self.model.fill(mode, identifier, location, properties, rows)
        elif deed == "overwrite":
            self.model.overwrite(mode, identifier, location, properties, rows)
        assert answer.version == (None if deed == "keep" else self.model.directories[location].version)
        assert answer.properties == self.model.properties(mode, identifier)

    def checked_place(self, identifier: tuple[str, ...], expected: str, location: str) -> str:
        """Check that a location is of the kind that was expected, and new if it is a hashed one."""
        found = self.root.relative(location)
        if expected == OWN:
            assert found == own(identifier[0])
        elif expected == HASHED:
            assert re.fullmatch("[0-9a-f]{8}_" + re.escape("$".join(identifier)), found)
            assert found not in self.model.directories
        else:
            assert found == expected
        return found

    @precondition(lambda self: self.model.directories)
    @rule(
        who=clients,
        choice=ids,
        pick=st.integers(0, 7),
        how=st.sampled_from(["create", "overwrite"]),
        properties=properties,
    )
    def register_table(self, who: int, choice: Choice, pick: int, how: str, properties: dict) -> None:
        identifier = self.pick(choice, "new")
        known = [*self.model.directories, "nowhere"]
        location = known[pick % len(known)]
        both = self.compare(
            lambda: self.model.register(self.modes[who], identifier, location, how, properties),
            lambda: register_table(self.clients[who], *identifier, location=location, mode=how, properties=properties),
        )
        if both:
            assert both[1].location == location
            assert both[1].properties == self.model.properties(self.modes[who], identifier)

    # Drop, deregister and rename tables

    @precondition(lambda self: self.model.directories)
    @rule(who=clients, choice=ids)
    def deregister_table(self, who: int, choice: Choice) -> None:
        identifier = self.pick(choice, "table")
        both = self.compare(
            lambda: self.model.deregister(self.modes[who], identifier),
            lambda: deregister_table(self.clients[who], *identifier),
        )
        if both:
            assert self.root.relative(both[1].location) == both[0][0]

    @precondition(lambda self: self.model.directories)
    @rule(who=clients, choice=ids, goal=ids)
    def rename_table(self, who: int, choice: Choice, goal: Choice) -> None:
        identifier = self.pick(choice, "table")
        target = self.pick(goal, "new")
        self.compare(
            lambda: self.model.rename(self.modes[who], identifier, target),
            lambda: rename_table(self.clients[who], *identifier, to=target[-1], into=list(target[:-1])),
        )

    @precondition(lambda self: self.model.directories)
    @rule(who=clients, choice=ids)
    def drop_table(self, who: int, choice: Choice) -> None:
        identifier = self.pick(choice, "table")
        both = self.compare(
            lambda: self.model.drop(self.modes[who], identifier), lambda: remove_table(self.clients[who], *identifier)
        )
        if both:
            assert self.root.relative(both[1].location) == both[0]

    # Read

    @rule(who=clients, choice=ids, detailed=st.booleans(), check_declared=st.booleans())
    def look(self, who: int, choice: Choice, detailed: bool, check_declared: bool) -> None:
        identifier = self.pick(choice, "any")
        mode, client = self.modes[who], self.clients[who]
        self.compare(
            lambda: self.model.require_namespace(mode, identifier), lambda: namespace_exists(client, *identifier)
        )
        both = self.compare(
            lambda: self.model.require_namespace(mode, identifier) or self.model.namespaces[identifier],
            lambda: describe_namespace(client, *identifier).properties,
        )
        assert both is None or both[0] == both[1]
        self.compare(lambda: self.model.required(mode, identifier), lambda: table_exists(client, *identifier))
        both = self.compare(
            lambda: self.model.required(mode, identifier),
            lambda: describe_table(client, *identifier, load_detailed_metadata=detailed, check_declared=check_declared),
        )
        if not both:
            return
        location, answer = both
        directory = self.model.directories[location]
        only_declared = directory.rows is None
        assert self.root.relative(answer.location) == location
        assert answer.table == identifier[-1]
        assert answer.namespace == list(identifier[:-1])
        assert answer.properties == self.model.properties(mode, identifier)
        assert answer.is_only_declared == (only_declared if detailed or check_declared else None)
        assert answer.version == (directory.version if detailed and not only_declared else None)
        if detailed and not only_declared:
            assert [field.name for field in answer.var_schema.fields] == ["x"]

    @rule(who=clients, choice=ids, limit=limits, include_declared=st.booleans())
    def page_through(self, who: int, choice: Choice, limit: int | None, include_declared: bool) -> None:
        parent = self.pick(choice, "namespace")
        mode, client = self.modes[who], self.clients[who]
        tables = self.compare(
            lambda: self.model.table_names(mode, parent, include_declared=include_declared),
            lambda: read_pages(
                lambda token: client.list_tables(
                    ListTablesRequest(id=list(parent), page_token=token, limit=limit, include_declared=include_declared)
                ),
                "tables",
                limit,
            ),
        )
        assert tables is None or tables[0] == tables[1]
        namespaces = self.compare(
            lambda: self.model.namespace_names(mode, parent),
            lambda: read_pages(
                lambda token: client.list_namespaces(
                    ListNamespacesRequest(id=list(parent), page_token=token, limit=limit)
                ),
                "namespaces",
                limit,
            ),
        )
        assert namespaces is None or namespaces[0] == namespaces[1]
        found = read_pages(
            lambda token: client.list_all_tables(
                ListTablesRequest(page_token=token, limit=limit, include_declared=include_declared)
            ),
            "tables",
            limit,
        )
        assert found == self.model.all_tables(mode, include_declared=include_declared)

    # Other clients

    @rule(who=clients, dry_run=st.booleans())
    def migrate_to_manifest(self, who: int, dry_run: bool) -> None:
        both = self.compare(
            lambda: self.model.migrate(self.modes[who], dry_run=dry_run),
            lambda: self.clients[who].migrate_to_manifest(dry_run=dry_run),
        )
        if both:
            report = both[1]
            assert [table.name for table in report.migrated] == both[0]
            seen = {*both[0], *report.already, *(entry.name for entry in report.skipped)}
            assert seen == {name for name in ROOT_NAMES if own(name) in self.model.directories}

    @rule(name=root_names)
    def write_as_an_outsider(self, name: str) -> None:
        directory = self.model.directories.get(own(name))
        rows = self.new_rows()
        lance.write_dataset(
            pa.table({"x": rows}),
            self.root.location(own(name)),
            mode="append" if directory else "create",
            storage_options=self.root.options,
        )
        if directory is None:
            self.model.place(V1, (name,), own(name), {}, rows)
            self.model.directories[own(name)].declared = False
        else:
            directory.rows, directory.version = (directory.rows or []) + rows, directory.version + 1

    @rule(choice=ids)
    def create_a_namespace_with_pylance(self, choice: Choice) -> None:
        identifier = self.pick(choice, "new")
        assume(self.model.namespace_exists(COMPATIBILITY, identifier[:-1]))
        assume(identifier not in self.model.all_keys())
        assume(self.model.find(COMPATIBILITY, identifier) is None)
        create_namespace(ReferenceNamespace(**self.root.properties), *identifier, properties={"by": "pylance"})
        self.model.create_namespace(COMPATIBILITY, identifier, "create", {"by": "pylance"})

    @rule(who=clients)
    def reopen(self, who: int) -> None:
        self.clients[who].close()
        self.clients[who] = self.open_client(self.modes[who])

    # Invariants after every step

    @precondition(lambda self: self.clients)
    @invariant()
    def clients_list_what_the_model_holds(self) -> None:
        for mode, client in zip(self.modes, self.clients, strict=True):
            listed = client.list_all_tables(ListTablesRequest()).tables
            assert listed == self.model.all_tables(mode), f"{mode}: {listed}"
            listed = client.list_tables(ListTablesRequest()).tables
            assert listed == self.model.table_names(mode, ()), f"{mode}: {listed}"
            listed = client.list_namespaces(ListNamespacesRequest()).namespaces
            assert listed == self.model.namespace_names(mode, ()), f"{mode}: {listed}"
            if mode != V1:
                assert describe_namespace(client).properties == self.model.root_properties

    @precondition(lambda self: self.clients)
    @invariant()
    def tables_hold_their_rows(self) -> None:
        for location, directory in self.model.directories.items():
            if directory.rows is not None:
                dataset = lance.dataset(self.root.location(location), storage_options=self.root.options)
                assert dataset.to_table()["x"].to_pylist() == directory.rows, location
                assert dataset.version == directory.version, location

    @precondition(lambda self: self.clients)
    @invariant()
    def every_file_is_accounted_for(self) -> None:
        directories = self.model.directories
        files = self.root.files()
        outside = {path for path in files if not any(path.startswith(f"{folder}/") for folder in directories)}
        outside = {path for path in outside if not path.startswith(("__manifest/", ".lance-locks/"))}
        markers = {path for path in outside if path.endswith(".deregistered")}
        hidden = {key.removesuffix(".lance") for key, directory in directories.items() if directory.deregistered}
        assert markers == {f"{name}.deregistered" for name in hidden}, markers
        unknown = (
            outside
            - markers
            - {layout.declared_marker(key) for key, directory in directories.items() if directory.declared}
        )
        assert not unknown, unknown
        staged = [path for path in files if path.startswith(".lance-locks/new-")]
        assert not staged, staged
        for location, directory in directories.items():
            assert any(path.startswith(f"{location}/") for path in files), location
            assert (f"{location}/.lance-deregistered" in files) == directory.deregistered, location
        empty = self.root.empty_folders() - {".lance-locks", ".lance-trash", "deep"}
        assert not empty, empty


def read_pages(ask: Callable[[str | None], Any], field: str, limit: int | None) -> list[str]:
    """Return all pages of a listing. All but the last must be full."""
    found: list[str] = []
    token = None
    while True:
        answer = ask(token)
        page, token = getattr(answer, field), answer.page_token
        found += page
        if token is None:
            return found
        assert len(page) == limit


COMMON = {
    "deadline": None,
    "print_blob": True,
    "report_multiple_bugs": False,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
}


class BesideV2(CatalogMachine):
    """The second client sees the manifest only."""

    second = V2


class BesideV1(CatalogMachine):
    """The second client sees directories only."""

    second = V1


machines = pytest.mark.parametrize("machine", [CatalogMachine, BesideV2, BesideV1])


def run(machine: type[CatalogMachine], *, examples: int, steps: int, fresh_seed: bool = False) -> None:
    """Run a machine: always the same examples, or others each time."""
    chosen = settings(max_examples=examples, stateful_step_count=steps, derandomize=not fresh_seed, **COMMON)
    run_state_machine_as_test(machine, settings=chosen)


def run_in_a_bucket(machine: type[CatalogMachine], *, examples: int, steps: int, fresh_seed: bool = False) -> None:
    with CountingS3() as server:
        in_a_bucket = type(f"{machine.__name__}InABucket", (machine,), {"server": server})
        run(in_a_bucket, examples=examples, steps=steps, fresh_seed=fresh_seed)


# Shrinking a failure takes minutes.


@pytest.mark.timeout(900)
@machines
def test_two_clients_on_one_root_match_the_model(machine):
    run(machine, examples=15, steps=35)


@pytest.mark.s3
@pytest.mark.timeout(900)
def test_two_clients_in_a_bucket_match_the_model():
    run_in_a_bucket(BesideV1, examples=6, steps=20)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@machines
def test_two_clients_on_one_root_match_the_model_for_minutes(machine):
    run(machine, examples=400, steps=50, fresh_seed=True)


@pytest.mark.s3
@pytest.mark.soak
@pytest.mark.timeout(3600)
@machines
def test_two_clients_in_a_bucket_match_the_model_for_minutes(machine):
    run_in_a_bucket(machine, examples=40, steps=30, fresh_seed=True)
