"""Do not send credentials to an address that a settings file in the working directory has set.

Such a file may come with a checkout or an archive. Options, the environment, the user's own settings file and a file
named by `--config` or `PENNON_CONFIG` are trusted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.secrets import is_credential, is_secret, storage_option

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SERVERS = {"uri", "oauth2-server-uri", "ssl.cabundle", "tls.ssl_ca_cert"}
_HARMLESS_OPTIONS = {
    "account_name",
    "bucket",
    "bucket_name",
    "client_max_retries",
    "client_retry_timeout",
    "connect_timeout",
    "container_name",
    "default_region",
    "download_retry_count",
    "region",
    "skip_signature",
    "timeout",
    "virtual_hosted_style_request",
}
"""Storage options that do not change the host of requests, except for a name at the same provider."""
_NAME = re.compile(r"[\w.-]*", re.ASCII)
"""A harmless value. A region or an account becomes part of the host name, which a slash would end."""
_PROVIDERS = re.compile(r"^(AWS|AZURE|GOOGLE|GCP)_")
_TELLING_VARIABLE = re.compile(r"KEY|SECRET|TOKEN|CREDENTIAL|PROFILE|ACCOUNT|SAS|PASSWORD")
_SIGV4 = "rest.sigv4-enabled"
_SIGV4_KEYS = {"client.access-key-id", "client.secret-access-key"}


@dataclass(frozen=True)
class FoundFile:
    """A settings file in the working directory, and the properties that it sets."""

    path: Path
    keys: frozenset[str]

    def require_no_foreign_credential(self, properties: Mapping[str, str], environment: Mapping[str, str]) -> None:
        """Raise CommandFailure if one of the user's credentials would be sent to an address that this file sets."""
        for key in sorted(self.keys & properties.keys()):
            credential = self._credential_for(key, properties, environment)
            if _chooses_address(key, properties[key]) and credential is not None:
                raise CommandFailure(
                    f"The file {str(self.path.absolute())!r} sets the property {key!r}, and {credential} would be "
                    f"sent to that address. If you trust this file, name it: --config {self.path}",
                    ExitCode.REFUSED,
                )

    def _credential_for(self, key: str, properties: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
        """Return the name of a credential that would be sent to the address in `key`, unless it is from this file."""
        to_storage = storage_option(key) is not None
        # A catalog's server returns the locations of tables, and so decides where storage keys are sent.
        foreign = [
            name
            for name in properties.keys() - self.keys
            if is_secret(name) and (not to_storage or storage_option(name) is not None)
        ]
        if foreign:
            return f"the property {min(foreign)!r}"
        variable = _ambient(environment)
        if variable is not None:
            return f"the value of the environment variable {variable}"
        own = {storage_option(name) for name in self.keys & properties.keys() if is_credential(name)} - {None}
        unsigned = properties.get("storage.skip_signature", properties.get("storage.aws_skip_signature", ""))
        if to_storage and not own and unsigned.lower() != "true":
            return "the storage credentials of this machine"
        if not to_storage and properties.get(_SIGV4, "").lower() in {"true", "1", "yes", "on"}:
            return None if self.keys >= _SIGV4_KEYS else "the AWS credentials of this machine"
        return None


def _chooses_address(key: str, value: str) -> bool:
    option = storage_option(key)
    if option is None:
        return key in _SERVERS
    if option in _HARMLESS_OPTIONS:
        return _NAME.fullmatch(value) is None
    return not is_credential(key)


def _ambient(environment: Mapping[str, str]) -> str | None:
    """Return the first environment variable from which stores read credentials."""
    found = [name for name in environment if _PROVIDERS.match(name) and _TELLING_VARIABLE.search(name)]
    return min(found, default=None)
