"""Which request created an object, so that the same request is not refused when it is sent again.

The digest of the request is a property of the new object that users do not see. It is committed together with the
object, and is there as long as the object. The first version of a declared table has it in its transaction, because
that version is the commit point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory.lookup import opening
from pennon.directory.manifest import REQUEST
from pennon.errors import LanceNamespaceError
from pennon.identifiers import Identifier, object_id
from pennon.table.history import read_transaction
from pennon.table.version_selector import VersionSelector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.directory.catalog import Catalog


def with_request(properties: Mapping[str, str] | None, digest: str) -> dict[str, str]:
    """Return the properties of an object that is to be created by a request."""
    return {**(properties or {}), REQUEST: digest}


def was_created_by(catalog: Catalog, identifier: Identifier, digest: str) -> bool:
    """Return True if the request with this digest created the object, or replaced it last."""
    manifest = catalog.require_manifest("Recognizing a repeated creation")
    row = manifest.read(lambda snapshot: snapshot.get(object_id(identifier)))
    return row is not None and (row.request == digest or _was_filled_by(catalog, identifier, digest))


def _was_filled_by(catalog: Catalog, identifier: Identifier, digest: str) -> bool:
    """Return True if the latest version of a table was committed by the request."""
    try:
        dataset = opening.open_table(catalog, identifier, VersionSelector.of(object_id(identifier), None, None, None))
        transaction = read_transaction(dataset, int(dataset.version))
    except (LanceNamespaceError, OSError, ValueError):
        return False
    return transaction is not None and (transaction.transaction_properties or {}).get(REQUEST) == digest
