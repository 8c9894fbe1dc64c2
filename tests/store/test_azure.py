"""A catalog in Azure Blob Storage, on Azurite."""

from __future__ import annotations

import pytest
from azure.storage.blob import ContainerClient

import pennon
from pennon.store.root import open_store
from tests.server.vending.azure_directories import ACCOUNT, KEY
from tests.server.vending.test_azurite import azurite

pytestmark = [pytest.mark.interop, pytest.mark.soak]


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Start Azurite with the container `lake`, and return the options of the store."""
    with azurite(str(tmp_path_factory.mktemp("azurite"))) as url:
        ContainerClient(f"{url}/{ACCOUNT}", "lake", credential=KEY).create_container()
        endpoint = {"azure_storage_endpoint": f"{url}/{ACCOUNT}", "allow_http": "true"}
        yield {"account_name": ACCOUNT, "account_key": KEY, **endpoint}


def test_missing_objects_do_not_keep_others_from_being_deleted(options):
    store = open_store("az://lake/objects", options)
    names = [f"{number:03}" for number in range(600)]
    for name in names[300:]:
        store.create(name, b"x")
    store.delete(*names)
    assert [name for name in names if store.get(name) is not None] == []


@pytest.mark.parametrize("managed", [False, True])
def test_tables_are_dropped_restored_and_purged(options, managed):
    with pennon.open(f"az://lake/{managed}", storage_options=options) as lake:
        if managed:
            lake.manage_versions()
        lake.create_namespace("sales")
        for name in ("sales.orders", "root"):
            lake.create_table(name, {"id": [1]}).append({"id": [2]})
            lake.drop(name)
            assert lake.undrop(name).count() == 2
            lake.drop(name)
            assert lake.purge(name, force=True).failed == []
        assert lake.tables() == []
        assert lake.trash() == []
