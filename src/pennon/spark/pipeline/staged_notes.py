"""Notes of what is staged for a target, so that another process can publish or delete it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import ConcurrentModificationError, InvalidTableStateError
from pennon.identifiers import format_identifier
from pennon.json_fields import FieldReader
from pennon.spark.tables.destination import Destination, locate_table
from pennon.spark.tables.run_files import is_run_file, require_run_name
from pennon.spark.tables.schema_evolution import Evolution
from pennon.spark.tables.staged_write import StagedWrite

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake
    from pennon.spark.pipeline.run_state import RunState

_FLAG, _NUMBER = (bool,), (int,)
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("new", "blobs", "empty"), _FLAG),
    **dict.fromkeys(("read_version", "preview", "rows", "bytes"), _NUMBER),
    "seconds": (int, float),
}
"""The types of a note's fields; numbers are not negative."""
# The numbers of detached versions need 64 bits.
_TOO_LARGE = 1 << 64
_SHOWN = 200
"""The number of characters of a bad value that messages contain."""


def to_note(staged: StagedWrite) -> dict[str, Any]:
    """Return a staged write as JSON values. Its operation is not included: Lance stores it in the preview."""
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
            "schema": _encode_schema(evolution.schema),
            "base": _encode_schema(evolution.base),
            "fragments": list(evolution.fragments),
        },
    }


def parse_note(state: RunState, number: int, note: dict[str, Any], identifier: Identifier) -> dict[str, Any]:
    """Return the note of a target. Raises InvalidTableStateError if a field cannot be one that `to_note` wrote."""
    where = state.note_path(f"target.{number}")

    def wrong(what: str, wanted: str, got: str) -> Exception:
        return state.damaged_error(where, f"{what} must be {wanted}, not {got}")

    fields = FieldReader(wrong)
    for key, kind in _KINDS.items():
        value: Any = note.get(key)
        if type(value) not in kind or (kind != _FLAG and not 0 <= value < _TOO_LARGE):
            raise wrong(key, " or ".join(one.__name__ for one in kind), repr(value)[:_SHOWN])
    if fields.items(note, "table", "The note") != list(identifier):
        raise wrong("table", f"the target {format_identifier(identifier)}", repr(note["table"])[:_SHOWN])
    require_run_name(fields.text(note, "run", "The note"))
    fields.text(note, "uri", "The note")
    files = fields.items(note, "files", "The note")
    if not all(isinstance(path, str) and is_run_file(path) for path in files):
        raise wrong("files", "a list of files that a write makes", repr(files)[:_SHOWN])
    if note.get("evolution") is not None:
        _require_evolution(fields, fields.mapping(note["evolution"], "evolution"), set(files), wrong)
    return note


def _require_evolution(
    fields: FieldReader, evolution: dict[str, Any], files: set[str], wrong: Callable[[str, str, str], Exception]
) -> None:
    for key in ("schema", "base"):
        try:
            _decode_schema(fields.text(evolution, key, "evolution"))
        except (ValueError, OSError) as error:
            raise wrong(key, "a schema", str(error)[:_SHOWN]) from error
    for fragment in fields.items(evolution, "fragments", "evolution"):
        for file in fields.items(fields.mapping(fragment, "a fragment"), "files", "a fragment"):
            path = fields.text(fields.mapping(file, "a file"), "path", "a file")
            if f"data/{path}" not in files or fields.mapping(file, "a file").get("base_id") is not None:
                raise wrong("a fragment", "made of the files of the note", repr(path)[:_SHOWN])


def restore_write(lake: Lake, note: dict[str, Any], *, proven: bool = False) -> StagedWrite:
    """Return the staged write of a note.

    Unless `proven` shows that this process staged it, the catalog must not refer to the location of a new table. Raises
    ConcurrentModificationError if the table has been replaced, and InvalidTableStateError if the staged data is gone.
    """
    identifier = tuple(note["table"])
    if note["new"] and not proven:
        lake.catalog.require_new_table_location(list(identifier), note["uri"])
    destination = _destination(lake, note)
    preview = destination.pin_version(note["preview"])
    operation, properties = None, {}
    if not note["empty"]:
        try:
            transaction = preview.open().read_transaction(preview.version)
        except (OSError, ValueError) as error:
            raise _gone_error(identifier) from error
        if transaction is None:
            raise _gone_error(identifier)
        operation, properties = transaction.operation, dict(transaction.transaction_properties or {})
    evolution = note.get("evolution")
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
            identifier,
            _decode_schema(evolution["schema"]),
            _decode_schema(evolution["base"]),
            tuple(evolution["fragments"]),
        ),
        preview=preview,
        transaction=properties,
    )


def require_files(staged: StagedWrite) -> None:
    """Raise InvalidTableStateError unless all staged files exist. A cleanup of the table may have deleted them."""
    folders = {path.rpartition("/")[0] for path in staged.files}
    with staged.destination.files() as files:
        there = {f"{folder}/{name}" for folder in folders for name in files.names(folder)}
    if not there.issuperset(staged.files):
        raise _gone_error(staged.identifier)


def _destination(lake: Lake, note: dict[str, Any]) -> Destination:
    identifier = tuple(note["table"])
    if note["new"]:
        return Destination(lake.address, identifier, note["uri"], tuple(sorted(lake.address.storage_options.items())))
    destination = locate_table(lake.address, identifier)
    if destination.uri != note["uri"]:
        raise ConcurrentModificationError(
            f"Table {format_identifier(identifier)} was dropped and created again since it was staged"
        )
    return destination


def _gone_error(identifier: tuple[str, ...]) -> InvalidTableStateError:
    return InvalidTableStateError(
        f"The data that was staged for table {format_identifier(identifier)} no longer exists. The table's versions "
        "show whether it was published; if not, discard the run and start a new one"
    )


def _encode_schema(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _decode_schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
