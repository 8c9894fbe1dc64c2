"""Writing a table's first version, and replacing its contents."""

from __future__ import annotations

import uuid
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
from lance import LanceDataset, LanceOperation
from lance.fragment import LanceFragment, write_fragments

from pennon.errors import InvalidInputError, is_commit_conflict, is_not_found
from pennon.table import blobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from lance import FragmentMetadata

WRITTEN_ENTRIES = frozenset({"data", "_versions", "_transactions", "_deletions", "_indices", "_pennon"})
"""What may be in the directory of a table while it is written, before it has a name."""
_TIMEOUT = timedelta(seconds=60)
_ATTEMPTS = 20
_ROWS_PER_FILE = 1_000_000
# What Lance says when it cannot store what it was given.
_DATA_TEXTS = ("invalid user input", "invalid argument", "lanceerror(arrow)", "lanceerror(schema)", "not supported")


class VersionExistsError(Exception):
    """Another writer made the first version. `leftovers` are the files that were written in vain, below the table."""

    def __init__(self, location: str, leftovers: tuple[str, ...] = ()) -> None:
        super().__init__(location)
        self.leftovers = leftovers


class TableGoneError(Exception):
    """The table was deleted while it was overwritten. `leftovers` as above; `version` was made where nothing was."""

    def __init__(self, location: str, leftovers: tuple[str, ...], version: int | None = None) -> None:
        super().__init__(location)
        self.leftovers = leftovers
        self.version = version


@dataclass(frozen=True)
class PreparedData:
    """Data files that are written already, somewhere else; `bring` copies them below a table's directory."""

    schema: pa.Schema
    fragments: list[FragmentMetadata]
    nbytes: int
    bring: Callable[[str], object]
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the transaction by which they become a version."""
    transaction_id: str | None = None
    """The uuid of that transaction."""

    @classmethod
    def of(cls, dataset: LanceDataset, bring: Callable[[str], object]) -> PreparedData:
        """Describe the data of a version that is open."""
        fragments = [fragment.metadata for fragment in dataset.get_fragments()]
        transaction = dataset.read_transaction(int(dataset.version))
        said = {} if transaction is None else dict(transaction.transaction_properties or {})
        sizes = [file.file_size_bytes or 0 for fragment in fragments for file in fragment.files]
        identity = None if transaction is None else str(transaction.uuid)
        return cls(dataset.schema, fragments, sum(sizes), bring, said, identity)


def write_version(
    location: str,
    data: pa.Table | PreparedData,
    storage_options: dict[str, str],
    *,
    after: int = 0,
    transaction_id: str | None = None,
    session: Any = None,
    commit_guard: Callable[[], AbstractContextManager[None]] = nullcontext,
    through: Mapping[str, Any] | None = None,
) -> int:
    """Write `data` as the version after `after`. Of several writers one succeeds; others raise VersionExistsError.

    The commit point is the put-if-absent of that version's manifest; `commit_guard` is entered around it and may
    refuse by raising. A crash before it leaves data files that nothing refers to. `through` is what Lance is told about
    a catalog that manages the table's versions.
    """
    options = storage_options or None
    prepared = data if isinstance(data, PreparedData) else None
    try:
        fragments, schema = _write_data_files(data, location, options, session, mode="overwrite" if after else "create")
    except (OSError, ValueError, NotImplementedError) as error:
        if "already exists" in str(error).lower():
            raise VersionExistsError(location) from error
        if _is_about_the_data(error):
            raise InvalidInputError(f"Lance cannot store this data: {error}") from error
        raise
    transaction = lance.Transaction(
        read_version=after,
        operation=LanceOperation.Overwrite(schema, fragments),
        uuid=transaction_id or (prepared.transaction_id if prepared else None) or str(uuid.uuid4()),
        transaction_properties=dict(prepared.properties) if prepared else {},
    )
    written = _files(fragments)
    with _naming_leftovers(written), commit_guard():
        try:
            committed = LanceDataset.commit(
                location,
                transaction,
                storage_options=options,
                enable_v2_manifest_paths=True,
                max_retries=0,
                commit_timeout=_TIMEOUT,
                **(through or {}),
            )
        except (OSError, ValueError) as error:
            if _went_through(location, transaction, storage_options, error):
                return after + 1
            raise VersionExistsError(location, written) from error
        return int(committed.version)


def _write_data_files(
    data: pa.Table | PreparedData,
    location: str,
    options: dict[str, str] | None,
    session: Any,
    *,
    mode: str,
) -> tuple[list[FragmentMetadata], Any]:
    """Write the data files, and give the schema that they have then.

    A single one needs no look at the table, which the strict commit makes sure of anyway.
    """
    if isinstance(data, PreparedData):
        with _naming_leftovers(_files(data.fragments)):
            data.bring(location)
        return data.fragments, data.schema
    if data.num_rows == 0:
        return [], data.schema
    # Names like Lance's own columns are for the longer way to judge, and blobs are prepared there.
    plain = not any(column.name.startswith("_row") or blobs.has_blobs(column) for column in data.schema)
    given: dict[str, Any] = {"schema": data.schema, "storage_options": options}
    if plain and data.num_rows <= _ROWS_PER_FILE:
        return [LanceFragment.create(location, data, mode="create", session=session, **given)], data.schema
    written: Any = write_fragments(data, location, mode=mode, return_transaction=True, **given).operation
    return list(written.fragments), written.new_schema


def _files(fragments: list[FragmentMetadata]) -> tuple[str, ...]:
    """Name the data files of fragments, below the table's directory."""
    return tuple(f"data/{file.path}" for fragment in fragments for file in fragment.files)


@contextmanager
def _naming_leftovers(files: tuple[str, ...]) -> Iterator[None]:
    """Note on whatever is raised which files were written in vain."""
    try:
        yield
    except Exception as error:
        error.leftovers = files  # type: ignore[attr-defined]
        raise


def overwrite(
    location: str,
    data: pa.Table,
    storage_options: dict[str, str],
    *,
    session: Any = None,
    opened: Mapping[str, Any] | None = None,
    on_open: Callable[[int], None] = lambda _: None,
    commit_guard: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> int:
    """Replace a table's contents by a new version in the same lineage; readers of older versions go on.

    A table that is deleted meanwhile raises TableGoneError, also if it was made anew: data files that were written into
    the old one may be gone with it. `opened` is what Lance is told to open the table, in place of its location, where a
    catalog manages its versions. `on_open` is told the version that is there at the beginning; `commit_guard` is
    entered around each attempt to commit, and may raise TableGoneError before and after it.
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
        if _is_about_the_data(error):
            raise InvalidInputError(f"Lance cannot store this data: {error}") from error
        raise
    identity = str(uuid.uuid4())
    leftovers = _files(fragments)
    operation = LanceOperation.Overwrite(schema, fragments)
    for _ in range(_ATTEMPTS):
        base = int(dataset.version)
        transaction = lance.Transaction(read_version=base, operation=operation, uuid=identity)
        made: int | None = None
        try:
            with commit_guard():
                made = _committed_strictly(dataset, transaction, storage_options)
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


def _committed_strictly(
    dataset: LanceDataset, transaction: lance.Transaction, storage_options: dict[str, str]
) -> int | None:
    """Commit on exactly the version that is open; None if another came first."""
    try:
        committed = LanceDataset.commit(
            dataset, transaction, storage_options=storage_options or None, max_retries=0, commit_timeout=_TIMEOUT
        )
    except (OSError, ValueError) as error:
        if is_not_found(error) and not is_commit_conflict(error):
            return None
        went_through = _went_through(dataset.uri, transaction, storage_options, error)
        return transaction.read_version + 1 if went_through else None
    return int(committed.version)


def _went_through(
    location: str, transaction: lance.Transaction, storage_options: dict[str, str], error: Exception
) -> bool:
    """Find out by looking whether a commit that reported a failure made its version; raises if nobody did."""
    try:
        found = lance.dataset(location, storage_options=storage_options or None)
    except (OSError, ValueError) as missing:
        if is_not_found(missing) and not is_commit_conflict(error):
            raise error from None
        return False
    try:
        first = found.read_transaction(transaction.read_version + 1)
    except (OSError, ValueError):
        # There is a table, of somebody else: it does not have that version.
        return False
    return first is not None and first.uuid == transaction.uuid


def read_latest_version(location: str, storage_options: dict[str, str]) -> int:
    """Give a table's latest version; 0 if it has none."""
    try:
        return int(lance.dataset(location, storage_options=storage_options or None).version)
    except (OSError, ValueError) as error:
        if is_not_found(error):
            return 0
        raise


def find_last_version_before(
    location: str, version: int, latest: int, writers: tuple[str, ...], storage_options: dict[str, str]
) -> int:
    """Give the last version from `version` on, up to `latest`, before the first that one of these transactions made."""
    dataset = lance.dataset(location, storage_options=storage_options or None)
    for number in range(version + 1, latest + 1):
        try:
            transaction = dataset.read_transaction(number)
        except (OSError, ValueError) as error:
            if is_not_found(error):
                continue
            raise
        if transaction is not None and transaction.uuid in writers:
            return number - 1
    return latest


def restore_version(location: str, version: int, storage_options: dict[str, str], *, after: int) -> bool:
    """Make the contents of a version the latest, by the version after `after`, strictly; False if that one is taken.

    Lance's own Restore goes on top of whatever came in between. If nothing did, a version that changes nothing takes
    the number; else the old rows are written anew.
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
        LanceDataset.commit(location, transaction, storage_options=options, max_retries=0, commit_timeout=_TIMEOUT)
    except (OSError, ValueError) as error:
        return _went_through(location, transaction, storage_options, error)
    return True


def _is_about_the_data(error: Exception) -> bool:
    text = str(error).lower()
    return isinstance(error, NotImplementedError) or any(part in text for part in _DATA_TEXTS)
