"""Signatures of Azure for one directory."""

from __future__ import annotations

import time
from urllib.parse import parse_qs

import pytest

from pennon.errors import InvalidInputError, ServiceUnavailableError
from pennon.server.vending.azure import KEY_VARIABLE, SignatureVendor
from pennon.server.vending.settings import AzureAccount
from tests.server.vending.azure_directories import ACCOUNT, KEY, SignedDirectory


@pytest.fixture
def vendor() -> SignatureVendor:
    return SignatureVendor(AzureAccount(account_name=ACCOUNT, duration_seconds=600), {KEY_VARIABLE: KEY})


@pytest.mark.parametrize(("writes", "permissions"), [(False, set("rl")), (True, set("racwdl"))])
def test_a_signature_allows_what_the_user_may_in_one_directory(vendor, writes, permissions):
    location = "az://lake/root/ab12_s%24or%20ders"
    found = vendor.vend(location, writes=writes, user="ann")
    token = found["azure_storage_sas_token"]
    allowed = SignedDirectory.verify(token, "lake", "root/ab12_s$or ders/data/1.lance")
    assert (allowed.path, set(allowed.permissions)) == ("root/ab12_s$or ders", permissions)
    assert 590 < allowed.expires - time.time() <= 600
    assert int(found["expires_at_millis"]) == allowed.expires * 1000
    assert found["azure_storage_account_name"] == ACCOUNT
    assert parse_qs(token)["spr"] == ["https"]
    other = [("lake", "root/ab12_s$or"), ("lake", "root/other/x"), ("lake", "root"), ("else", f"{allowed.path}/x")]
    for container, path in other:
        assert SignedDirectory.verify(token, container, path) is None, path
    wider = token.replace("sdd=2", "sdd=1")
    assert SignedDirectory.verify(wider, "lake", "root/ab12_s$or ders/x") is None
    assert KEY not in str(found)


def test_only_directories_of_the_account_get_signatures(vendor):
    for location in (
        "s3://lake/t",
        "/data/t",
        "az://lake",
        "abfss://lake@another.dfs.core.windows.net/t",
        "az://lake/a/../b",
    ):
        assert vendor.vend(location, writes=False, user="ann") is None, location
    assert vendor.vend(f"abfss://lake@{ACCOUNT}.dfs.core.windows.net/t", writes=False, user="ann") is not None


def test_a_key_that_is_missing_or_no_key_is_an_error():
    account = AzureAccount(account_name=ACCOUNT)
    with pytest.raises(InvalidInputError, match=KEY_VARIABLE):
        SignatureVendor(account, {})
    broken = SignatureVendor(account, {KEY_VARIABLE: "hidden=value"})
    with pytest.raises(ServiceUnavailableError) as caught:
        broken.vend("az://lake/t", writes=False, user="ann")
    assert "hidden" not in str(caught.value)
