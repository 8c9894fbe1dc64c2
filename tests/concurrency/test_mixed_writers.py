"""Pennon and pylance's DirectoryNamespace write to one root at the same time."""

from __future__ import annotations

import pytest
from lance.namespace import DirectoryNamespace as ReferenceNamespace

from tests.concurrency import workers
from tests.concurrency.places import column
from tests.concurrency.rounds import CONFLICT, by_name, expect_codes
from tests.support import MODES, create_namespace, describe_namespace, list_namespaces, list_tables

pytestmark = [pytest.mark.concurrency, pytest.mark.interop]

SIX = ["pennon", "reference"] * 3


@pytest.fixture(params=["v2", "compatibility"])
def manifest_mode(request):
    return request.param


def expect_all_accounts(root, mode, ns, accounts):
    """Check that clients of both kinds see everything that either acknowledged, and nothing that was dropped."""
    reference = ReferenceNamespace(**root.properties, **MODES[mode])
    made = {name for account in accounts for name in account.made}
    unmade = {name for account in accounts for name in account.unmade}
    for client in (ns, reference):
        namespaces = set(list_namespaces(client))
        assert {name for name in made if "$" not in name} <= namespaces
        tables = {f"{name}${table}" for name in namespaces for table in list_tables(client, name)}
        assert {name for name in made if "$" in name} <= tables
        assert not unmade & tables
    for name in made:
        if "$" in name:
            assert column(root, ns, *name.split("$")) == [name]
        else:
            assert describe_namespace(ns, name).properties == {"who": name}


@pytest.mark.parametrize("founder", ["pennon", "reference"])
def test_six_writers_of_both_kinds_lose_nothing(crew, disk, manifest_mode, founder, open_namespace):
    # The reference client overwrites when it creates a manifest: this must be done before others write.
    with workers.open_client(disk, manifest_mode, founder) as client:
        create_namespace(client, "founded")
    accounts = crew.run(workers.write_beside_others, disk, manifest_mode, SIX, 8)
    expect_all_accounts(disk, manifest_mode, open_namespace(disk, manifest_mode), accounts)
    ours = [account for index, account in enumerate(accounts[: len(SIX)]) if SIX[index] == "pennon"]
    assert not any(account.failed for account in ours), [account.failed[:2] for account in ours]
    assert all(account.made for account in accounts[: len(SIX)])


def test_six_writers_share_a_manifest_that_pennon_created(crew, disk, open_namespace):
    ns = open_namespace(disk, "v2")
    for number in range(60):
        create_namespace(ns, f"earlier_{number:02}")
    accounts = crew.run(workers.write_beside_others, disk, "v2", SIX, 8)
    expect_all_accounts(disk, "v2", ns, accounts)
    assert {f"earlier_{number:02}" for number in range(60)} <= set(list_namespaces(ns))


def test_one_client_of_either_kind_creates_a_namespace(crew, disk, manifest_mode, open_namespace):
    names = [f"n{number}" for number in range(10)]
    create_namespace(open_namespace(disk, manifest_mode), "founded")
    results = crew.run(workers.race_of_both_kinds, disk, manifest_mode, ["pennon", "reference"], names)
    ns = open_namespace(disk, manifest_mode)
    for name, outcomes in by_name(names, results):
        winners = [index for index, told in enumerate(outcomes) if told.acknowledged]
        assert len(winners) == 1, outcomes
        expect_codes(outcomes[::2], {2, CONFLICT})
        assert describe_namespace(ns, name).properties == {"who": str(winners[0])}


@pytest.mark.soak
def test_six_writers_of_both_kinds_lose_nothing_over_hundreds_of_commits(crew, disk, manifest_mode, open_namespace):
    ns = open_namespace(disk, manifest_mode)
    create_namespace(ns, "founded")
    accounts = crew.run(workers.write_beside_others, disk, manifest_mode, SIX, 100)
    expect_all_accounts(disk, manifest_mode, ns, accounts)
