"""Notes of what is staged for a target, so that another process can publish or delete it."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, TypeAdapter
from typing_extensions import NotRequired, TypedDict

from pennon.errors import ConcurrentModificationError, InvalidTableStateError
from pennon.identifiers import format_identifier
from pennon.spark.tables.destination import Destination, locate_table
from pennon.spark.tables.run_files import is_run_file, require_run_name
from pennon.spark.tables.schema_evolution import Evolution
from pennon.spark.tables.staged_write import StagedWrite

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.pipeline_runs.run_state import RunState
    from pennon.spark.address import Address


def _require_run_file(path: str) -> str:
    if not is_run_file(path):
        raise ValueError("it is not a file that a write makes")
    return path


def _decode_schema(text: object) -> pa.Schema:
    if not isinstance(text, str):
        raise ValueError("it is not a text")  # noqa: TRY004 - pydantic expects a ValueError
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    except OSError as error:
        raise ValueError(f"it is not a schema: {error}") from error


# The numbers of detached versions need 64 bits.
_Count = Annotated[int, Field(ge=0, lt=1 << 64)]
_Schema = Annotated[pa.Schema, PlainValidator(_decode_schema)]
_RunFile = Annotated[str, AfterValidator(_require_run_file)]


class _DataFile(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    path: str
    base_id: NotRequired[None]


class _Fragment(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    files: list[_DataFile]


@dataclass(frozen=True)
class EvolutionNote:
    """The part of a note about new columns."""

    schema: _Schema
    base: _Schema
    fragments: tuple[_Fragment, ...]


@dataclass(frozen=True)
class TargetNote:
    """What is staged for a target. The operation is not included: Lance stores it in the preview."""

    table: tuple[str, ...]
    uri: str
    read_version: _Count
    preview: _Count
    rows: _Count
    bytes: _Count
    seconds: Annotated[float, Field(ge=0, lt=1 << 64)]
    files: tuple[_RunFile, ...]
    run: Annotated[str, AfterValidator(require_run_name)]
    new: bool
    blobs: bool
    empty: bool
    evolution: EvolutionNote | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if a fragment has a file that the note does not list."""
        for fragment in () if self.evolution is None else self.evolution.fragments:
            if not {f"data/{file['path']}" for file in fragment["files"]}.issubset(self.files):
                raise ValueError("a fragment must be made of the files of the note")


def to_note(staged: StagedWrite, seconds: float) -> dict[str, Any]:
    """Return a readable staged write as JSON values, which `parse_note` parses."""
    evolution: Evolution | None = staged.evolution
    assert staged.preview is not None
    return {
        "table": list(staged.identifier),
        "uri": staged.destination.uri,
        "read_version": staged.read_version,
        "preview": staged.preview.version,
        "rows": staged.rows,
        "bytes": staged.bytes,
        "seconds": seconds,
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


def parse_note(state: RunState, number: int, note: dict[str, Any], identifier: Identifier) -> TargetNote:
    """Return the note of a target. Raises InvalidTableStateError if a field cannot be one that `to_note` wrote."""
    with state.parsing(state.note_path(f"target.{number}")):
        parsed = TypeAdapter(TargetNote).validate_json(json.dumps(note), strict=True)
        if parsed.table != identifier:
            raise ValueError(f"table must be the target {format_identifier(identifier)}, not {parsed.table!r:.200}")
        return parsed


def restore_write(address: Address, note: TargetNote, *, proven: bool = False) -> StagedWrite:
    """Return the staged write of a note.

    Unless `proven` shows that this process staged it, the catalog must not refer to the location of a new table. Raises
    ConcurrentModificationError if the table has been replaced, and InvalidTableStateError if the staged data is gone.
    """
    if note.new and not proven:
        address.connect().require_new_table_location(list(note.table), note.uri)
    destination = _find_destination(address, note)
    preview = destination.pin_version(note.preview)
    operation, properties = None, {}
    if not note.empty:
        try:
            transaction = preview.open().read_transaction(preview.version)
        except (OSError, ValueError) as error:
            raise _gone_error(note.table) from error
        if transaction is None:
            raise _gone_error(note.table)
        operation, properties = transaction.operation, dict(transaction.transaction_properties or {})
    new = note.evolution
    return StagedWrite(
        note.table,
        operation,
        note.read_version,
        note.rows,
        note.bytes,
        note.files,
        destination,
        note.run,
        new=note.new,
        blobs=note.blobs,
        evolution=None if new is None else Evolution(note.table, new.schema, new.base, new.fragments),  # type: ignore[arg-type]
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


def _find_destination(address: Address, note: TargetNote) -> Destination:
    if note.new:
        return Destination(address, note.table, note.uri, tuple(sorted(address.storage_options.items())))
    destination = locate_table(address, note.table)
    if destination.uri != note.uri:
        raise ConcurrentModificationError(
            f"Table {format_identifier(note.table)} was dropped and created again since it was staged"
        )
    return destination


def _gone_error(identifier: Identifier) -> InvalidTableStateError:
    return InvalidTableStateError(
        f"The data that was staged for table {format_identifier(identifier)} no longer exists. The table's versions "
        "show whether it was published; if not, discard the run and start a new one"
    )


def _encode_schema(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()
