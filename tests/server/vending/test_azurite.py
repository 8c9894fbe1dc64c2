"""Lance on Azurite, with signatures for one directory."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
import urllib3
from azure.storage.blob import ContainerClient
from werkzeug.wrappers import Request

from pennon.server.vending.azure import KEY_VARIABLE, SignatureVendor
from pennon.server.vending.settings import AzureAccount
from tests.node_packages import install_packages
from tests.server.vending.azure_directories import ACCOUNT, KEY, DirectoryGate
from tests.server.vending.services import serve_locally

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.interop, pytest.mark.soak]
_STARTING = "Azurite Blob service successfully listens on "


@contextlib.contextmanager
def azurite(directory: str) -> Iterator[str]:
    program = install_packages("azurite@3.35.0") / "node_modules" / ".bin" / "azurite-blob"
    arguments = ["--blobHost", "127.0.0.1", "--blobPort", "0", "-l", directory, "--skipApiVersionCheck"]
    process = subprocess.Popen(
        [program, *arguments, "--disableTelemetry"],
        env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield next(line.strip().removeprefix(_STARTING) for line in process.stdout if line.startswith(_STARTING))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_signature_opens_one_table_and_no_other(tmp_path):
    vendor = SignatureVendor(AzureAccount(account_name=ACCOUNT, allow_http=True), {KEY_VARIABLE: KEY})
    with azurite(str(tmp_path)) as store:
        gate = DirectoryGate(store)

        def options(url: str, **more: str) -> dict[str, str]:
            return {"azure_storage_endpoint": f"{url}/{ACCOUNT}", "allow_http": "true", **more}

        ContainerClient(f"{store}/{ACCOUNT}", "lake", credential=KEY).create_container()
        own = options(store, account_name=ACCOUNT, account_key=KEY)
        for name in ("a$t", "b"):
            lance.write_dataset(pa.table({"x": [1, 2]}), f"az://lake/root/{name}", storage_options=own)
        with serve_locally(Request.application(gate.serve)) as url:
            reader, writer = (
                options(url, **vendor.vend("az://lake/root/a%24t", writes=writes, user="ann"))
                for writes in (False, True)
            )
            assert lance.dataset("az://lake/root/a$t", storage_options=reader).to_table()["x"].to_pylist() == [1, 2]
            assert gate.refused == []
            more = pa.table({"x": [3]})
            with pytest.raises(OSError, match="privileges"):
                lance.write_dataset(more, "az://lake/root/a$t", storage_options=reader, mode="append")
            assert gate.refused.pop().startswith("PUT ")
            lance.write_dataset(more, "az://lake/root/a$t", storage_options=writer, mode="append")
            assert lance.dataset("az://lake/root/a$t", storage_options=reader).count_rows() == 3
            for given in (reader, writer):
                with pytest.raises((OSError, ValueError)):
                    lance.dataset("az://lake/root/b", storage_options=given)
        assert len(gate.refused) >= 2
        assert urllib3.request("GET", f"{store}/{ACCOUNT}/lake/root/b").status in {401, 403, 404}
