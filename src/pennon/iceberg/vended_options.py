"""Credentials in answers of Iceberg servers: the protocol's names, and those of Lance's storage options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.config import EXPIRY

if TYPE_CHECKING:
    from collections.abc import Mapping

_ACCOUNT = "azure_storage_account_name"
_SAS, _SAS_OPTION = "adls.sas-token", "azure_storage_sas_token"
_SAS_EXPIRY = "adls.sas-token-expires-at-ms"
_AZURE_HOST = "dfs.core.windows.net"
_OPTIONS = {
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.region": "aws_region",
    "client.region": "aws_region",
    "s3.endpoint": "aws_endpoint",
    "gcs.oauth2.token": "google_storage_token",
    "adls.account-name": _ACCOUNT,
    "adls.account-key": "azure_storage_account_key",
}
# The name of the time when credentials expire, by a name that such credentials have.
_EXPIRIES = {
    "s3.session-token": "s3.session-token-expires-at-ms",
    "gcs.oauth2.token": "gcs.oauth2.token-expires-at",
    _SAS: _SAS_EXPIRY,
}
_OTHER_EXPIRY = "expiration-time"


def parse_options(handed: Mapping[str, str]) -> dict[str, str]:
    """Return the storage options in what a server hands out."""
    options = {_OPTIONS[key]: value for key, value in handed.items() if key in _OPTIONS}
    if "s3.region" in handed:
        options["aws_region"] = handed["s3.region"]
    if handed.get("s3.endpoint", "").startswith("http://"):
        options["allow_http"] = "true"
    if handed.get("s3.path-style-access", "").lower() == "true":
        options["aws_virtual_hosted_style_request"] = "false"
    token = _find_of_account(handed, _SAS)
    if token is not None:
        options[_SAS_OPTION] = token
    times = (*(_find_of_account(handed, name) for name in _EXPIRIES.values()), handed.get(_OTHER_EXPIRY))
    expiry = next((text for text in times if text is not None and text.isdecimal()), None)
    if expiry is not None:
        # Lance describes the table again to get new credentials.
        options[EXPIRY] = expiry
    return options


def format_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return storage options as clients of Iceberg read them, without those that the protocol has no name for."""
    config = {key: options[option] for key, option in _OPTIONS.items() if option in options}
    if options.get("aws_virtual_hosted_style_request", "").lower() == "false":
        config["s3.path-style-access"] = "true"
    if _SAS_OPTION in options:
        # Python clients read the plain name, Java's the one with the account.
        for name in (_SAS, *_names_of_account(_SAS, options)):
            config[name] = options[_SAS_OPTION]
    if EXPIRY in options:
        for name, expiry in _EXPIRIES.items():
            if name in config:
                config[expiry] = options[EXPIRY]
        if _SAS in config:
            config |= dict.fromkeys(_names_of_account(_SAS_EXPIRY, options), options[EXPIRY])
    return config


def _names_of_account(name: str, options: Mapping[str, str]) -> list[str]:
    return [f"{name}.{options[_ACCOUNT]}.{_AZURE_HOST}"] if _ACCOUNT in options else []


def _find_of_account(handed: Mapping[str, str], name: str) -> str | None:
    """Return the value with this name, or with this name and that of an account."""
    return next((value for key, value in handed.items() if key == name or key.startswith(f"{name}.")), None)
