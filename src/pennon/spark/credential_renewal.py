"""Renewal of credentials that a catalog vends and that expire."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pennon.config import EXPIRY

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.spark.address import Address

Options = tuple[tuple[str, str], ...]
"""Storage options in the form that is sent to executors."""
# Options that expire sooner than this are renewed. Lance renews its own a minute before they expire.
_MARGIN_SECONDS = 300
_TABLES = 64


def has_expiry(options: Options) -> bool:
    """Return True if options expire."""
    return EXPIRY in dict(options)


def renew_options(options: Options, address: Address, identifier: Identifier, uri: str) -> Options:
    """Return these options, or new ones if they expire soon. They are valid for the table at `uri`."""
    if _are_valid(options):
        return options
    kept = _option_slot(address, identifier, uri)
    if not kept or not _are_valid(kept[0]):
        kept[:] = [_request_options(address, identifier)]
    return kept[0]


def renewal_arguments(options: Options, address: Address | None, identifier: Identifier) -> dict[str, Any]:
    """Return the arguments with which Lance renews the options itself during an operation."""
    if address is None or not has_expiry(options):
        return {}
    return {"namespace_client": address.connect(), "table_id": list(identifier)}


def _request_options(address: Address, identifier: Identifier) -> Options:
    """Return new options from the catalog; raises NamespaceNotFoundError or TableNotFoundError."""
    from lance_namespace import DescribeTableRequest

    described = address.connect().describe_table(DescribeTableRequest(id=list(identifier), vend_credentials=True))
    return tuple(sorted((described.storage_options or {}).items()))


def _are_valid(options: Options) -> bool:
    expiry = dict(options).get(EXPIRY)
    return expiry is None or int(expiry) / 1000 > time.time() + _MARGIN_SECONDS


@lru_cache(maxsize=_TABLES)
def _option_slot(address: Address, identifier: Identifier, uri: str) -> list[Options]:  # noqa: ARG001 - they are the key
    """Return the cached list of the options that this process received last."""
    return []
