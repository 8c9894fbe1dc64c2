"""The contract of the directory namespace, as far as it is about tables in a namespace, on servers."""

from __future__ import annotations

import uuid

import pytest

from pennon.store import open_store
from tests.iceberg.borrowed import borrow_tests, reach
from tests.support import create_namespace

MODULES = (
    "test_create",
    "test_declare",
    "test_describe",
    "test_drop",
    "test_list_tables",
    "test_missing",
    "test_names",
    "test_paging",
    "test_register",
    "test_rename",
    "test_request_forms",
    "test_table_data",
    "test_threads",
)
DIFFERS = {
    "test_declared_table_has_a_name_and_a_reserved_location": "the server's entry is the reservation; no file is",
    "test_listing_leaves_declared_tables_out_if_asked_to": "the server is shared by all tests, so it lists more tables",
    "test_a_declared_table_can_be_deregistered_and_registered": "nothing is left of it that could be registered",
    "test_table_deleted_from_disk_is_not_described": "the server knows of the table; describing it looks at no file",
}
"""Tests of the contract that do not hold here, each with the reason."""
IMPL_DIFFERS = dict.fromkeys(
    (
        "test_a_declared_table_that_lance_filled_is_not_only_declared",
        "test_details_are_those_of_the_latest_version",
        "test_details_of_a_version_are_its_own",
        "test_a_version_that_exists_can_be_asked_for",
        "test_a_tag_leads_to_its_version",
        "test_details_hold_the_tables_metadata",
    ),
    "the test writes to the table's path, past the server that decides about versions",
)
"""Those that do not hold where the server manages versions."""
MINISTACK_DIFFERS = dict.fromkeys(
    (
        "test_dropped_table_can_be_created_again",
        "test_a_declared_table_can_be_dropped_and_declared_again",
        "test_a_dropped_table_is_gone_with_its_data",
        "test_dropping_leaves_nothing_of_the_table",
        "test_a_listing_follows_creation_and_drop",
        "test_the_longest_names_work_in_every_operation",
        "test_deregistering_hides_the_table_and_keeps_its_data",
        "test_a_deregistered_table_can_be_registered_again",
        "test_exactly_one_thread_drops_a_table",
        "test_readers_see_every_stable_table_during_other_changes",
    ),
    "MiniStack drops no tables",
)
"""Those that do not hold on MiniStack."""
BUCKET_DIFFERS = {
    **dict.fromkeys(
        (
            "test_a_dropped_table_is_gone_with_its_data",
            "test_exactly_one_thread_creates_a_table",
            "test_the_uri_is_complete_and_opens",
        ),
        "the test looks for files on a disk",
    ),
    "test_plain_description_contains_the_location": "what opens the bucket is part of the description",
}
"""Those that do not hold where tables are in a bucket."""
RACES_ON_SEAWEED = {
    "test_exactly_one_thread_drops_a_table": "SeaweedFS tells several at once that they have renamed it"
}
"""Those that hold on SeaweedFS if no two requests meet."""
SEAWEED_DIFFERS = {
    **BUCKET_DIFFERS,
    **dict.fromkeys(
        (
            "test_deregistering_hides_the_table_and_keeps_its_data",
            "test_a_deregistered_table_can_be_registered_again",
            "test_the_longest_names_work_in_every_operation",
        ),
        "SeaweedFS deletes the data with the entry, so deregistering is refused",
    ),
    **dict.fromkeys(
        (
            "test_uri_escapes_special_characters",
            "test_table_exists_returns_or_raises_not_found",
            "test_tables_are_listed_sorted",
        ),
        "SeaweedFS takes names of a-z, 0-9, _ and - alone",
    ),
    **RACES_ON_SEAWEED,
    "test_details_of_a_branch_are_its_own": "SeaweedFS has a fixed layout for its buckets, without Lance's branches",
}
"""Those that do not hold on SeaweedFS."""
NESSIE_DIFFERS = {
    **BUCKET_DIFFERS,
    **dict.fromkeys(
        ("test_a_deregistered_table_can_be_registered_again", "test_the_longest_names_work_in_every_operation"),
        "Nessie chooses the place of every table, so nothing can be registered",
    ),
    "test_uri_escapes_special_characters": "Nessie takes what follows # in a name for a point in time",
}
"""Those that do not hold on Nessie."""
OURS_DIFFERS = {
    "test_listing_leaves_declared_tables_out_if_asked_to": "the server is shared by all tests, so it lists more tables",
    "test_a_declared_table_can_be_deregistered_and_registered": "nothing is left of it that could be registered",
    "test_the_longest_names_work_in_every_operation": "the server keeps and restores dropped tables itself",
}
"""All that do not hold on our own server."""


for _module in MODULES:
    for _name, _one in borrow_tests("contract", _module, "place").items():
        _is_test = _name.startswith("test_")
        globals()[f"{_name}__{_module.removeprefix('test_')}" if _is_test else _name] = _one


DIFFERENCES = {
    "storage": DIFFERS,
    "impl": {**DIFFERS, **IMPL_DIFFERS},
    "ministack": {**DIFFERS, **MINISTACK_DIFFERS},
    "seaweed": {**DIFFERS, **SEAWEED_DIFFERS},
    "seaweed_impl": {**DIFFERS, **IMPL_DIFFERS, **SEAWEED_DIFFERS},
    "nessie": {**DIFFERS, **NESSIE_DIFFERS},
    "nessie_impl": {**DIFFERS, **IMPL_DIFFERS, **NESSIE_DIFFERS},
    "ours": OURS_DIFFERS,
}


@pytest.fixture(params=list(DIFFERENCES))
def place(request, connect, monkeypatch):
    """Return a namespace that tables can be in: on each server, for each kind of tables."""
    name = request.node.name.partition("[")[0].partition("__")[0]
    reason = DIFFERENCES[request.param].get(name)
    if reason is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=name not in RACES_ON_SEAWEED))
    if request.param == "ours":
        server = request.getfixturevalue("served")("storage")
        catalog = connect(server.uri, root=str(server.root / "clients" / uuid.uuid4().hex))
    elif request.param.startswith(("seaweed", "nessie")):
        server = request.getfixturevalue(f"{'weed' if 'seaweed' in request.param else 'nessie'}_catalog")
        reach(server.bucket, monkeypatch)
        root = server.clients and f"{server.clients}/c{uuid.uuid4().hex}"
        managed_by = "impl" if request.param.endswith("_impl") else "storage"
        catalog = connect(server.uri, root=root, managed_by=managed_by, **server.properties)
    else:
        server = request.getfixturevalue("mini" if request.param == "ministack" else "apache")
        managed_by = {} if request.param == "ministack" else {"managed_by": request.param}
        catalog = connect(server.uri, **managed_by)
    # The contract looks at the files below it.
    catalog._store = catalog._places.root or open_store(server.bucket.uri("nessie"), server.bucket.storage_options())
    parent = f"s{uuid.uuid4().hex[:12]}"
    if server.make_namespace is None:
        create_namespace(catalog, parent)
    else:
        server.make_namespace(parent)
    return catalog, (parent,)
