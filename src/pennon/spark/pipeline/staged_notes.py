"""Writing down what is staged for a target, so that another process can publish or remove it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import ConcurrentModificationError, InvalidTableStateError
from pennon.identifiers import shown
from pennon.spark.commits.destination import Destination, located
from pennon.spark.commits.evolution import Evolution
from pennon.spark.commits.staged import StagedWrite

if TYPE_CHECKING:
    from pennon.spark.lake import Lake


def noted(staged: StagedWrite) -> dict[str, Any]:
    """Give what is staged, and readable, in terms of JSON; Lance itself keeps the operation, in the preview."""
    preview = staged.preview
    evolution: Evolution | None = staged.evolution
    return {
        "table": list(staged.identifier),
        "uri": staged.destination.uri,
        "read_version": staged.read_version,
        "preview": None if preview is None else preview.version,
        "rows": staged.rows,
        "bytes": staged.bytes,
        "files": list(staged.files),
        "run": staged.run,
        "new": staged.new,
        "blobs": staged.blobs,
        "empty": staged.is_empty,
        "evolution": None
        if evolution is None
        else {
            "schema": _packed(evolution.schema),
            "base": _packed(evolution.base),
            "fragments": list(evolution.fragments),
        },
    }


def restored(lake: Lake, note: dict[str, Any]) -> StagedWrite:
    """Take up what another process has staged; error 14 if the table is another one by now, 19 if it is gone."""
    identifier = tuple(note["table"])
    destination = _destination(lake, note)
    preview = destination.pinned(note["preview"])
    operation, properties = None, {}
    if not note["empty"]:
        try:
            transaction = preview.open().read_transaction(preview.version)
        except (OSError, ValueError) as error:
            raise _gone(identifier) from error
        if transaction is None:
            raise _gone(identifier)
        operation, properties = transaction.operation, dict(transaction.transaction_properties or {})
    evolution = note["evolution"]
    return StagedWrite(
        identifier,
        operation,
        note["read_version"],
        note["rows"],
        note["bytes"],
        tuple(note["files"]),
        destination,
        note["run"],
        new=note["new"],
        blobs=note["blobs"],
        evolution=None
        if evolution is None
        else Evolution(
            identifier, _unpacked(evolution["schema"]), _unpacked(evolution["base"]), tuple(evolution["fragments"])
        ),
        preview=preview,
        transaction=properties,
    )


def require_files(staged: StagedWrite) -> None:
    """Raise 19 unless the staged files are all there still: a table that was cleaned meanwhile may have lost them."""
    folders = {path.rpartition("/")[0] for path in staged.files}
    with staged.destination.files() as files:
        there = {f"{folder}/{name}" for folder in folders for name in files.names(folder)}
    if not there.issuperset(staged.files):
        raise _gone(staged.identifier)


def _destination(lake: Lake, note: dict[str, Any]) -> Destination:
    identifier = tuple(note["table"])
    if note["new"]:
        return Destination(lake.address, identifier, note["uri"], tuple(sorted(lake.address.storage_options.items())))
    destination = located(lake.address, identifier)
    if destination.uri != note["uri"]:
        raise ConcurrentModificationError(f"Table {shown(identifier)} was dropped and made anew since it was staged")
    return destination


def _gone(identifier: tuple[str, ...]) -> InvalidTableStateError:
    return InvalidTableStateError(
        f"What was staged for table {shown(identifier)} is not there any more. If it was published before, the table's "
        "versions tell; otherwise discard the run and start a new one"
    )


def _packed(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _unpacked(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
