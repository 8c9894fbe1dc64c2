"""Credentials of Azure: a shared access signature (SAS) for the directory of one table."""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pennon.config import EXPIRY
from pennon.errors import InvalidInputError, ServiceUnavailableError
from pennon.server.vending.directories import parse_directory

try:
    from azure.storage.blob import BlobSasPermissions, generate_blob_sas
except ImportError as missing:
    raise InvalidInputError("Vending credentials of Azure needs azure-storage-blob: install pennon[azure]") from missing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.server.vending.settings import AzureAccount

KEY_VARIABLE = "AZURE_STORAGE_ACCOUNT_KEY"
_SCHEMES = {"az", "abfs", "abfss"}


class SignatureVendor:
    """Signs for each client and table with the key of the account. Nothing is sent to Azure."""

    def __init__(self, account: AzureAccount, environment: Mapping[str, str] | None = None) -> None:
        """Raises InvalidInputError if the key of the account is not in the environment."""
        self._account = account
        self._key = (os.environ if environment is None else environment).get(KEY_VARIABLE, "").strip()
        if not self._key:
            raise InvalidInputError(f"Vending credentials of Azure needs the key of the account in {KEY_VARIABLE}")

    def vend(self, location: str, *, writes: bool, user: str) -> dict[str, str] | None:
        """Return the options for the table at a location, or None if it is not in the account.

        Raises ServiceUnavailableError if the key of the account cannot sign.
        """
        del user
        directory, name = parse_directory(location, _SCHEMES), self._account.account_name
        if directory is None or directory.account not in {None, name}:
            return None
        expires = int(time.time()) + self._account.duration_seconds
        try:
            # A directory of an account with a hierarchical namespace. Azure refuses it in others, which have no
            # directories; a signature for the container would be one for all tables.
            signature = generate_blob_sas(
                name,
                directory.bucket,
                directory.path,
                account_key=self._key,
                permission=BlobSasPermissions(
                    read=True, list=True, add=writes, create=writes, write=writes, delete=writes
                ),
                expiry=datetime.fromtimestamp(expires, timezone.utc),
                protocol="https,http" if self._account.allow_http else "https",
                is_directory=True,
            )
        except ValueError as error:
            raise ServiceUnavailableError("Credentials for the table cannot be made") from error
        return {
            "azure_storage_account_name": name,
            "azure_storage_sas_token": signature,
            EXPIRY: str(expires * 1000),
        }
