"""Vendors: what a client gets for a table, by its rights."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from pennon.config import EXPIRY
from pennon.errors import LanceNamespaceError
from pennon.server.permissions.rights import Right

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.server.permissions.rights import Guard, Principal
    from pennon.server.vending.settings import FixedPair, VendingSettings


class Vendor(Protocol):
    """A source of credentials."""

    def vend(self, location: str, *, writes: bool, user: str) -> dict[str, str] | None:
        """Return the options for the table at a location, with the time when they expire."""


class FixedVendor:
    """Hands out one of two sets of credentials."""

    def __init__(self, pair: FixedPair) -> None:
        self._pair = pair

    def vend(self, location: str, *, writes: bool, user: str) -> dict[str, str] | None:
        """Return the options for readers or for writers of a table that is in an object store."""
        del user
        if "://" not in location or location.startswith("file:"):
            return None
        expiry = str(int((time.time() + self._pair.duration_seconds) * 1000))
        return {**(self._pair.write if writes else self._pair.read), EXPIRY: expiry}


class Vending:
    """Gives clients credentials for the tables that they may read."""

    def __init__(self, vendor: Vendor, options: dict[str, str]) -> None:
        self._vendor = vendor
        self._options = options

    def options(
        self, guard: Guard, principal: Principal, identifier: Identifier, location: str
    ) -> dict[str, str] | None:
        """Return the storage options of a table for a principal, or None if it is not in an object store.

        Raises ServiceUnavailableError if no credentials can be made.
        """
        writes = _has(guard, principal, Right.WRITE, identifier)
        found = self._vendor.vend(location, writes=writes, user=principal.name)
        return None if found is None else {**found, **self._options}


def make_vending(settings: VendingSettings) -> Vending:
    """Return the vending of settings. Raises InvalidInputError if a package or a key that it needs is missing."""
    return Vending(_make_vendor(settings), settings.options)


def _make_vendor(settings: VendingSettings) -> Vendor:
    # Each needs a package of an extra.
    if settings.aws_role is not None:
        from pennon.server.vending.aws import RoleVendor  # noqa: PLC0415

        return RoleVendor(settings.aws_role)
    if settings.azure_account is not None:
        from pennon.server.vending.azure import SignatureVendor  # noqa: PLC0415

        return SignatureVendor(settings.azure_account)
    if settings.google_boundary is not None:
        from pennon.server.vending.google import BoundaryVendor  # noqa: PLC0415

        return BoundaryVendor(settings.google_boundary)
    if settings.fixed is None:
        raise AssertionError
    return FixedVendor(settings.fixed)


def _has(guard: Guard, principal: Principal, right: Right, identifier: Identifier) -> bool:
    try:
        guard.require(principal, right, identifier, kind="table")
    except LanceNamespaceError:
        return False
    return True
