"""Changes of several tables that are published in one commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import lance
from lance import LanceOperation

from pennon import addresses
from pennon.api import datasets
from pennon.api.fitting import fit_rows
from pennon.api.rows import show_reading, to_rows
from pennon.errors import InvalidInputError, UnsupportedOperationError, translate_errors
from pennon.identifiers import Identifier, format_identifier
from pennon.table import mutations
from pennon.table.version_selector import VersionSelector
from pennon.table_commits import NewTable, TableCommit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from lance import FragmentMetadata, LanceDataset
    from typing_extensions import Self

    from pennon.addresses import Address
    from pennon.api.rows import Rows
    from pennon.connection import AnyNamespace

_LATEST = VersionSelector()


@dataclass
class _StagedAppend:
    """The rows that a transaction appends to a table: fragments that no version refers to yet."""

    dataset: LanceDataset
    fragments: list[FragmentMetadata] = field(default_factory=list)


class LakeTransaction:
    """Changes of several tables that others see all at once, or not at all.

    Rows are written when a method is called, and published at the end of the `with` statement: the commit point is one
    commit of the catalog. After an error, or a crash, nothing is published, and the written files belong to no version;
    cleaning up a table deletes them. The catalog must manage the versions of its tables.
    """

    def __init__(self, catalog: AnyNamespace, *, progress: bool | None = None) -> None:
        self._catalog = catalog
        self._progress = progress
        self._appends: dict[Identifier, _StagedAppend] = {}
        self._created: dict[Identifier, NewTable] = {}
        self._is_open = False
        self._versions: dict[Identifier, int] | None = None

    @property
    def versions(self) -> dict[Identifier, int]:
        """The new version of each table, after the commit."""
        if self._versions is None:
            raise InvalidInputError("The transaction has not been committed")
        return dict(self._versions)

    def append(self, name: Address, data: Rows) -> Self:
        """Append rows to a table when the transaction is committed, and return the transaction.

        Args:
            name: The table, which must have a version.
            data: Rows as `LakeCatalog.create_table` takes them. They are written now.

        Raises:
            TableNotFoundError: The table does not exist.
            TableSchemaValidationError: The columns do not fit.
            UnsupportedOperationError: The catalog does not manage the versions of the table.
        """
        identifier = self._require_open(name)
        if identifier in self._created:
            raise InvalidInputError(f"Table {format_identifier(identifier)} is new: create it with all its rows")
        if identifier not in self._appends:
            # Opening also reads what others have changed in the catalog, such as who manages versions.
            opened = datasets.open_dataset(self._catalog, identifier, _LATEST)
            self._require_common_commits(identifier)
            self._appends[identifier] = _StagedAppend(opened)
        staged = self._appends[identifier]
        with show_reading(to_rows(data), "writing", progress=self._progress) as rows:
            fitted = fit_rows(rows, staged.dataset.schema, identifier)
            staged.fragments += mutations.write_appended_rows(staged.dataset, identifier, fitted)
        return self

    def create_table(self, name: Address, data: Rows, *, properties: Mapping[str, str] | None = None) -> Self:
        """Create a table when the transaction is committed, and return the transaction.

        The rows are written now, to the storage of the catalog.

        Raises:
            NamespaceNotFoundError: The namespace does not exist.
            TableAlreadyExistsError: The table exists.
            UnsupportedOperationError: The catalog does not manage the versions of its tables.
        """
        identifier = self._require_open(name)
        if identifier in self._created or identifier in self._appends:
            raise InvalidInputError(f"The transaction changes table {format_identifier(identifier)} already")
        self._require_common_commits(identifier)
        location = self._catalog.new_table_location(identifier)
        options = self._catalog.storage_options or None
        with (
            show_reading(to_rows(data), "writing", progress=self._progress) as rows,
            translate_errors(f"writing table {format_identifier(identifier)}"),
        ):
            try:
                lance.write_dataset(rows, location, mode="create", storage_options=options)
            except BaseException:
                self._catalog.discard_table_location(identifier, location)
                raise
        self._created[identifier] = NewTable(identifier, location, properties)
        return self

    def __enter__(self) -> Self:
        """Return the transaction."""
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Publish all changes in one commit, or none after an error.

        Raises:
            ConcurrentModificationError: Others changed a table so that the rows do not fit any more.
        """
        self._is_open = False
        try:
            if kind is None:
                self._commit()
        finally:
            if self._versions is None:
                for new in self._created.values():
                    self._catalog.discard_table_location(new.id, new.location)

    def _commit(self) -> None:
        commits: list[TableCommit | NewTable] = [
            TableCommit(identifier, LanceOperation.Append(staged.fragments), staged.dataset.version)
            for identifier, staged in self._appends.items()
            if staged.fragments
        ]
        commits += self._created.values()
        self._versions = self._catalog.commit_tables(commits) if commits else {}

    def __repr__(self) -> str:
        """Return the tables that the transaction changes."""
        names = ", ".join(format_identifier(one) for one in [*self._appends, *self._created])
        return f"LakeTransaction({names})"

    def _require_open(self, name: Address) -> Identifier:
        if not self._is_open:
            raise InvalidInputError("Use a transaction in a `with` statement: `with lake.transaction() as t:`")
        return addresses.parse_table(name)

    def _require_common_commits(self, identifier: Identifier) -> None:
        try:
            self._catalog.require_common_commits([identifier])
        except UnsupportedOperationError as error:
            raise UnsupportedOperationError(
                f"A transaction cannot change table {format_identifier(identifier)}: {error}"
            ) from error
