"""Credentials that a catalog hands out for a while: who needs them for longer asks it for new ones."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pennon.config import EXPIRY

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.spark.address import Address

Options = tuple[tuple[str, str], ...]
"""Storage options as they travel to executors."""
# New ones are asked for when the old ones hold for less than this. Lance, which renews them itself, leaves a minute.
_MARGIN_SECONDS = 300
_TABLES = 64


def has_expiry(options: Options) -> bool:
    """Tell whether options hold for a while only."""
    return EXPIRY in dict(options)


def renew_options(options: Options, address: Address, identifier: Identifier, uri: str) -> Options:
    """Give options that hold for a while yet: these, or new ones. They are for one place: that of the table, `uri`."""
    if _are_valid(options):
        return options
    kept = _option_slot(address, identifier, uri)
    if not kept or not _are_valid(kept[0]):
        kept[:] = [_request_options(address, identifier)]
    return kept[0]


def renewal_arguments(options: Options, address: Address | None, identifier: Identifier) -> dict[str, Any]:
    """Give what Lance is told so that it asks for new options in the middle of what it does."""
    if address is None or not has_expiry(options):
        return {}
    return {"namespace_client": address.connect(), "table_id": list(identifier)}


def _request_options(address: Address, identifier: Identifier) -> Options:
    """Ask the catalog for the options that open a table; errors 1 and 4."""
    from lance_namespace import DescribeTableRequest

    described = address.connect().describe_table(DescribeTableRequest(id=list(identifier), vend_credentials=True))
    return tuple(sorted((described.storage_options or {}).items()))


def _are_valid(options: Options) -> bool:
    expiry = dict(options).get(EXPIRY)
    return expiry is None or int(expiry) / 1000 > time.time() + _MARGIN_SECONDS


@lru_cache(maxsize=_TABLES)
def _option_slot(address: Address, identifier: Identifier, uri: str) -> list[Options]:  # noqa: ARG001 - they are the key
    """Give the place for what this process got last."""
    return []
