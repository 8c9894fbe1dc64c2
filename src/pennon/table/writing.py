"""Writing the first version of a table, and replacing its contents.

In an object store, Lance creates a table by five requests, one after the other. The files of a small table are
therefore made in a temporary directory first. Then its data and transaction are uploaded at the same time, and its
manifest last, by put-if-absent as Lance does it (docs/adr/0021).
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import lance
from lance import LanceDataset, LanceOperation
from lance.fragment import LanceFragment, write_fragments

from pennon.errors import InvalidInputError, is_commit_conflict, is_not_found
from pennon.table import blobs
from pennon.table.history import read_transaction
from pennon.table.ipc_file import IpcFile
from pennon.table.naming import SUFFIX, VERSIONS_FOLDER
from pennon.table.scratch import create_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from lance import FragmentMetadata

    TableData: TypeAlias = "pa.Table | IpcFile | PreparedData"

WRITTEN_ENTRIES = frozenset({"data", VERSIONS_FOLDER, "_transactions", "_deletions", "_indices", "_pennon"})
"""The entries that may be in the directory of a table that is written before it has a name."""
_TIMEOUT = timedelta(seconds=60)
_ATTEMPTS = 20
_ROWS_PER_FILE = 1_000_000
_STAGED_BYTES = 8 << 20
"""The size of data up to which the files of a new table are made locally. More would be written twice for no gain."""
# Texts in errors of Lance if it cannot store the data.
_DATA_TEXTS = ("invalid user input", "invalid argument", "lanceerror(arrow)", "lanceerror(schema)", "not supported")


class VersionExistsError(Exception):
    """Another client committed the version first. `leftovers` are the unused files, as paths below the table."""

    def __init__(self, location: str, leftovers: tuple[str, ...] = ()) -> None:
        super().__init__(location)
        self.leftovers = leftovers


class TableGoneError(Exception):
    """The table was deleted while it was overwritten.

    `leftovers` are the unused files, as paths below the table. `version` is the version that was committed there.
    """

    def __init__(self, location: str, leftovers: tuple[str, ...], version: int | None = None) -> None:
        super().__init__(location)
        self.leftovers = leftovers
        self.version = version


@dataclass(frozen=True)
class PreparedData:
    """Data files that exist elsewhere. `bring` copies them to a table's directory."""

    schema: pa.Schema
    fragments: list[FragmentMetadata]
    nbytes: int
    bring: Callable[[str], object]
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the transaction that commits them."""
    transaction_id: str | None = None
    """The uuid of the transaction that commits them."""

    @classmethod
    def of(cls, dataset: LanceDataset, bring: Callable[[str], object]) -> PreparedData:
        """Return the data of the open version."""
        fragments = [fragment.metadata for fragment in dataset.get_fragments()]
        transaction = dataset.read_transaction(int(dataset.version))
        properties = {} if transaction is None else dict(transaction.transaction_properties or {})
        sizes = [file.file_size_bytes or 0 for fragment in fragments for file in fragment.files]
        identity = None if transaction is None else str(transaction.uuid)
        return cls(dataset.schema, fragments, sum(sizes), bring, properties, identity)


class Upload(Protocol):
    """Writes files below the directory of a table in an object store."""

    def put(self, files: Mapping[str, bytes]) -> bool:
        """Write files, all at the same time; False if the table has a version already. The names are new."""

    def create(self, path: str, body: bytes) -> bool:
        """Write a file unless another client has done so; False if one has. The body is unique."""

    def contains(self, path: str, body: bytes) -> bool | None:
        """Return whether a file has this body, or None if there is no such file."""


def write_version(
    location: str,
    data: TableData,
    storage_options: dict[str, str],
    *,
    after: int = 0,
    transaction_id: str | None = None,
    session: Any = None,
    commit_guard: Callable[[], AbstractContextManager[None]] = nullcontext,
    through: Mapping[str, Any] | None = None,
    upload: Upload | None = None,
    properties: Mapping[str, str] | None = None,
) -> int:
    """Write `data` as the version after `after`. Of several writers one succeeds; others raise VersionExistsError.

    The commit point is the put-if-absent of the version's manifest. `commit_guard` is entered around it and may raise
    to refuse. A crash before it leaves data files that nothing refers to. `through` has the arguments for Lance if a
    catalog manages the table's versions. With `upload`, the files of a small first version are made locally. The
    transaction gets the `properties`.
    """
    options = storage_options or None
    prepared = data if isinstance(data, PreparedData) else None
    identity = transaction_id or (prepared.transaction_id if prepared else None) or str(uuid.uuid4())
    staged = None if upload is None or after or through else _StagedVersion(location, upload, identity, properties)
    try:
        fragments, schema = _write_data_files(
            data, location, options, session, mode="overwrite" if after else "create", staged=staged
        )
    except (OSError, ValueError, NotImplementedError) as error:
        if "already exists" in str(error).lower():
            raise VersionExistsError(location) from error
        if _is_bad_data(error):
            raise InvalidInputError(f"Lance cannot store this data: {error}") from error
        raise
    transaction = lance.Transaction(
        read_version=after,
        operation=LanceOperation.Overwrite(schema, fragments),
        uuid=identity,
        transaction_properties={**(prepared.properties if prepared else {}), **(properties or {})},
    )
    written = _list_files(fragments)
    if staged is not None and staged.manifest is not None:
        with commit_guard():
            return _commit(location, transaction, staged=staged)
    with _record_leftovers(written), commit_guard():
        try:
            return _commit(
                location, transaction, storage_options=options, enable_v2_manifest_paths=True, **(through or {})
            )
        except (OSError, ValueError) as error:
            if _was_committed(location, transaction, storage_options, error):
                return after + 1
            raise VersionExistsError(location, written) from error


def _write_data_files(
    data: TableData,
    location: str,
    options: dict[str, str] | None,
    session: Any,
    *,
    mode: str,
    staged: _StagedVersion | None = None,
) -> tuple[list[FragmentMetadata], Any]:
    """Write the data files, and return their fragments and schema. A small table is staged if that is possible.

    A single file is written without opening the table: the commit checks the version anyway.
    """
    if isinstance(data, PreparedData):
        with _record_leftovers(_list_files(data.fragments)):
            data.bring(location)
        return data.fragments, data.schema
    if staged is not None and data.nbytes <= _STAGED_BYTES and not isinstance(data, IpcFile):
        found = staged.write(data)
        if found is not None:
            return found
    if data.num_rows == 0:
        return [], data.schema
    # `write_fragments` rejects names of Lance's own columns, and prepares blobs.
    plain = not any(column.name.startswith("_row") or blobs.has_blobs(column) for column in data.schema)
    options_for_files: dict[str, Any] = {"schema": data.schema, "storage_options": options}
    for remaining in reversed(range(_ATTEMPTS)):
        try:
            rows = data.to_reader() if isinstance(data, IpcFile) else data
            if plain and data.num_rows <= _ROWS_PER_FILE:
                fragment = LanceFragment.create(location, rows, mode="create", session=session, **options_for_files)
                return [fragment], data.schema
            written: Any = write_fragments(rows, location, mode=mode, return_transaction=True, **options_for_files)
            return list(written.operation.fragments), written.operation.new_schema
        except OSError as error:
            # On a disk, another client may remove a directory that Lance has just created: it is still empty.
            if not remaining or "://" in location or not is_not_found(error):
                raise
    raise AssertionError("the last attempt returns or raises")


class _StagedVersion:
    """The first version of a table, made in a temporary directory."""

    def __init__(
        self, location: str, upload: Upload, transaction_id: str, properties: Mapping[str, str] | None
    ) -> None:
        self.upload = upload
        self.files: dict[str, bytes] = {}
        self.manifest: tuple[str, bytes] | None = None
        """Its path and body, once all other files were uploaded."""
        self._location = location
        self._transaction_id = transaction_id
        self._properties = dict(properties or {})

    def write(self, data: pa.Table) -> tuple[list[FragmentMetadata], Any] | None:
        """Make the version, upload all files but its manifest, and return its fragments and schema.

        Returns None if there is no temporary directory.
        """
        folder = create_folder(data.nbytes)
        if folder is None:
            return None
        with folder as location:
            fragments, schema = _write_data_files(data, location, None, None, mode="create")
            transaction = lance.Transaction(
                read_version=0,
                operation=LanceOperation.Overwrite(schema, fragments),
                uuid=self._transaction_id,
                transaction_properties=self._properties,
            )
            LanceDataset.commit(location, transaction, enable_v2_manifest_paths=True, max_retries=0)
            made = {
                path.relative_to(location).as_posix(): path.read_bytes()
                for path in Path(location).rglob("*")
                if path.is_file()
            }
        (name,) = (path for path in made if path.startswith(VERSIONS_FOLDER) and path.endswith(SUFFIX))
        # On a disk Lance also writes a hint beside the manifest.
        self.files = {path: body for path, body in made.items() if not path.startswith(VERSIONS_FOLDER)}
        with _record_leftovers(tuple(self.files)):
            if not self.upload.put(self.files):
                raise VersionExistsError(self._location, tuple(self.files))
        self.manifest = (name, made[name])
        return fragments, schema

    def publish(self) -> None:
        """Upload the manifest: the commit point. Raises VersionExistsError if there is another one."""
        if self.manifest is None:
            raise AssertionError
        try:
            created: bool | None = self.upload.create(*self.manifest)
        except Exception as error:
            # Only the response may be lost. While that is unclear, the files are kept.
            created = self.upload.contains(*self.manifest)
            if created is None:
                error.leftovers = tuple(self.files)  # type: ignore[attr-defined]
                raise
        if not created:
            raise VersionExistsError(self._location, tuple(self.files))


def _commit(
    destination: str | LanceDataset,
    transaction: lance.Transaction,
    *,
    staged: _StagedVersion | None = None,
    **options: Any,
) -> int:
    """Commit on top of exactly the version that the transaction has read, and return the new version."""
    if staged is not None:
        staged.publish()
        return transaction.read_version + 1
    committed = LanceDataset.commit(destination, transaction, max_retries=0, commit_timeout=_TIMEOUT, **options)
    return int(committed.version)


def _list_files(fragments: list[FragmentMetadata]) -> tuple[str, ...]:
    """Return the data files of fragments, as paths below the table's directory."""
    return tuple(f"data/{file.path}" for fragment in fragments for file in fragment.files)


@contextmanager
def _record_leftovers(files: tuple[str, ...]) -> Iterator[None]:
    """Add the unused files to any error that is raised."""
    try:
        yield
    except Exception as error:
        error.leftovers = files  # type: ignore[attr-defined]
        raise


def overwrite(
    location: str,
    data: TableData,
    storage_options: dict[str, str],
    *,
    session: Any = None,
    opened: Mapping[str, Any] | None = None,
    on_open: Callable[[int], None] = lambda _: None,
    commit_guard: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> int:
    """Replace a table's contents by a new version. Older versions stay readable.

    Raises TableGoneError if the table was deleted, also if it was created again: data files that were written to the
    old one may be deleted with it. `opened` has the arguments for Lance if a catalog manages the table's versions.
    `on_open` is called with the version at the beginning. `commit_guard` is entered around each attempt to commit, and
    may raise TableGoneError before and after it.
    """
    options = storage_options or None
    try:
        dataset = lance.dataset(**(opened or {"uri": location}), storage_options=options, session=session)
    except (OSError, ValueError) as error:
        if is_not_found(error):
            raise TableGoneError(location, ()) from error
        raise
    on_open(int(dataset.version))
    try:
        fragments, schema = _write_data_files(data, location, options, session, mode="overwrite")
    except (OSError, ValueError, NotImplementedError) as error:
        if _is_bad_data(error):
            raise InvalidInputError(f"Lance cannot store this data: {error}") from error
        raise
    identity = str(uuid.uuid4())
    leftovers = _list_files(fragments)
    operation = LanceOperation.Overwrite(schema, fragments)
    for _ in range(_ATTEMPTS):
        base = int(dataset.version)
        transaction = lance.Transaction(read_version=base, operation=operation, uuid=identity)
        made: int | None = None
        try:
            with commit_guard():
                made = _commit_on_base(dataset, transaction, storage_options)
        except TableGoneError as gone:
            leftovers = (*leftovers, f"_transactions/{base}-{identity}.txn")
            raise TableGoneError(location, leftovers, made) from gone
        if made is not None:
            return made
        leftovers = (*leftovers, f"_transactions/{base}-{identity}.txn")
        try:
            dataset.checkout_latest()
        except (OSError, ValueError) as error:
            if is_not_found(error):
                raise TableGoneError(location, leftovers) from error
            raise
    raise VersionExistsError(location, leftovers)


def _commit_on_base(
    dataset: LanceDataset, transaction: lance.Transaction, storage_options: dict[str, str]
) -> int | None:
    """Commit on top of exactly the open version, and return the new version. None if another client came first."""
    try:
        return _commit(dataset, transaction, storage_options=storage_options or None)
    except (OSError, ValueError) as error:
        if is_not_found(error) and not is_commit_conflict(error):
            return None
        was_committed = _was_committed(dataset.uri, transaction, storage_options, error)
        return transaction.read_version + 1 if was_committed else None


def _was_committed(
    location: str, transaction: lance.Transaction, storage_options: dict[str, str], error: Exception
) -> bool:
    """Return True if a commit that reported an error has succeeded. Raises the error if there is no such version."""
    try:
        found = lance.dataset(location, storage_options=storage_options or None)
    except (OSError, ValueError) as missing:
        if is_not_found(missing) and not is_commit_conflict(error):
            raise error from None
        return False
    try:
        first = read_transaction(found, transaction.read_version + 1)
    except (OSError, ValueError):
        # Another client's table is there, which does not have that version.
        return False
    return first is not None and first.uuid == transaction.uuid


def read_latest_version(location: str, storage_options: dict[str, str]) -> int:
    """Return a table's latest version, or 0 if it has none."""
    try:
        return int(lance.dataset(location, storage_options=storage_options or None).version)
    except (OSError, ValueError) as error:
        if is_not_found(error):
            return 0
        raise


def find_last_version_before(
    location: str, version: int, latest: int, writers: tuple[str, ...], storage_options: dict[str, str]
) -> int:
    """Return the last version before one of these transactions, from `version` up to `latest`."""
    dataset = lance.dataset(location, storage_options=storage_options or None)
    for number in range(version + 1, latest + 1):
        try:
            transaction = read_transaction(dataset, number)
        except (OSError, ValueError) as error:
            if is_not_found(error):
                continue
            raise
        if transaction is not None and transaction.uuid in writers:
            return number - 1
    return latest


def restore_version(location: str, version: int, storage_options: dict[str, str], *, after: int) -> bool:
    """Commit the contents of an old version as the version after `after`. Returns False if that version exists.

    Lance's own Restore would commit on top of any version. If `version` is the latest, a version without changes is
    committed. Otherwise the old rows are written again.
    """
    options = storage_options or None
    old = lance.dataset(location, version=version, storage_options=options)
    kept = [fragment.metadata for fragment in old.get_fragments()]
    operation: LanceOperation.BaseOperation
    if after == version and kept:
        operation = LanceOperation.Merge(kept, old.lance_schema)
    else:
        rows = old.scanner().to_reader()
        copied = write_fragments(rows, location, schema=old.schema, mode="overwrite", storage_options=options)
        operation = LanceOperation.Overwrite(old.schema, copied)
    transaction = lance.Transaction(read_version=after, operation=operation, uuid=str(uuid.uuid4()))
    try:
        _commit(location, transaction, storage_options=options)
    except (OSError, ValueError) as error:
        return _was_committed(location, transaction, storage_options, error)
    return True


def _is_bad_data(error: Exception) -> bool:
    text = str(error).lower()
    return isinstance(error, NotImplementedError) or any(part in text for part in _DATA_TEXTS)
