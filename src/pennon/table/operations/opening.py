"""What a namespace implements so that operations can open and change its tables."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_namespace import LanceNamespace

from pennon.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    NamespaceNotFoundError,
    TableBranchNotFoundError,
    TableIsOnlyDeclaredError,
    TableNotFoundError,
    TableVersionNotFoundError,
    translate_errors,
)
from pennon.identifiers import Identifier, format_identifier, table_identifier
from pennon.table.version_identity import BaseVersion
from pennon.table.version_selector import normalize_branch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from lance import LanceDataset

    from pennon.table.branches import BranchClaim
    from pennon.table.ipc_file import IpcFile
    from pennon.table.mutations import ChangeResult


@dataclass
class TableChange:
    """A change to a table in progress."""

    committed: LanceDataset
    """The table at the version that the change commits: the opened dataset, unless that one does not move."""


class TableOpener(LanceNamespace):
    """A namespace that opens its tables."""

    @abstractmethod
    def _open_table(
        self,
        identifier: Identifier,
        *,
        version: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
        shared: bool = False,
    ) -> LanceDataset:
        """Open a table at a version, tag or branch, by default at its latest version.

        Commits through it go through the catalog if that manages versions. A shared dataset costs less, but is used by
        others too: it must not be moved or written to in place. Raises NamespaceNotFoundError, TableNotFoundError,
        TableTagNotFoundError, TableVersionNotFoundError, TableBranchNotFoundError, TableIsOnlyDeclaredError, and
        InvalidTableStateError if the table is damaged.
        """

    def open_dataset(
        self, id: Sequence[str], *, version: int | None = None, tag: str | None = None, branch: str | None = None
    ) -> LanceDataset:
        """Open a table at a version, tag or branch, by default at its latest version.

        Raises NamespaceNotFoundError, TableNotFoundError, TableTagNotFoundError, TableVersionNotFoundError,
        TableBranchNotFoundError, TableIsOnlyDeclaredError, and InvalidTableStateError if the table is damaged.
        """
        identifier = table_identifier(id)
        with translate_errors(f"open_dataset of {format_identifier(identifier)}"):
            return self._open_table(identifier, version=version, tag=tag, branch=branch)

    @contextmanager
    def _change_table(self, identifier: Identifier, dataset: LanceDataset, branch: str | None) -> Iterator[TableChange]:
        """Raise ConcurrentModificationError if the table is dropped or replaced while it is changed.

        Nothing of the change remains then. Either the commit fails, or a check after the commit finds it.
        """
        base = self._read_base(dataset, normalize_branch(branch))
        change = TableChange(dataset)
        with self._detect_replacement(identifier, dataset, branch):
            yield change
        self._require_base(identifier, base, change.committed)

    @contextmanager
    def _detect_replacement(self, identifier: Identifier, dataset: LanceDataset, branch: str | None) -> Iterator[None]:
        """Raise ConcurrentModificationError for an error that was caused by a dropped or replaced table."""
        try:
            yield
        except (OSError, ValueError, RuntimeError, InvalidTableStateError) as error:
            if not self._is_replaced(identifier, dataset, branch):
                raise
            self._delete_refused_files(dataset, normalize_branch(branch))
            raise _replaced_error(identifier) from error

    @contextmanager
    def _table_to_change(
        self, identifier: Identifier, branch: str | None, *, version: int | None = None
    ) -> Iterator[LanceDataset]:
        """Open a table to change it. Raises ConcurrentModificationError if it is dropped or replaced."""
        dataset = self._open_table(identifier, version=version, branch=branch)
        with self._change_table(identifier, dataset, branch):
            yield dataset

    def _require_same_table(self, identifier: Identifier, dataset: LanceDataset) -> None:
        """Raise ConcurrentModificationError if another table has the name now: a tag of the old one would be lost."""
        try:
            found = self._open_table(identifier, shared=True)
        except (NamespaceNotFoundError, TableNotFoundError, TableIsOnlyDeclaredError):
            return
        if found.uri != dataset.uri:
            self._delete_refused_files(dataset, None)
            raise _replaced_error(identifier)

    def _is_replaced(self, identifier: Identifier, dataset: LanceDataset, branch: str | None) -> bool:
        try:
            found = self._open_table(identifier, version=int(dataset.version), branch=branch, shared=True)
        except (
            NamespaceNotFoundError,
            TableNotFoundError,
            TableVersionNotFoundError,
            TableBranchNotFoundError,
            TableIsOnlyDeclaredError,
        ):
            return True
        return found.uri != dataset.uri or found.get_version()["timestamp"] != dataset.get_version()["timestamp"]

    def _read_base(self, dataset: LanceDataset, branch: str | None) -> BaseVersion:
        """Return the version that a change builds on."""
        return BaseVersion.of(dataset, branch)

    @abstractmethod
    def _require_base(self, identifier: Identifier, base: BaseVersion, committed: LanceDataset) -> None:
        """Delete the committed version and raise ConcurrentModificationError if its base does not exist any more.

        Does nothing if the commit itself checks the base.
        """

    @abstractmethod
    def _delete_refused_files(self, dataset: LanceDataset, branch: str | None) -> None:
        """Delete the files that a change left in the directory of a deleted table, if that is safe."""

    @abstractmethod
    def _advance_handle(self, before: LanceDataset, after: LanceDataset) -> None:
        """Replace the handle of a shared table by the version that was committed through it."""

    def _append_rows(self, identifier: Identifier, rows: pa.Table) -> ChangeResult | None:  # noqa: ARG002
        """Append rows to the main branch of a table in a faster way than Lance does.

        Returns None if there is no such way for this table, and nothing was changed.
        """
        return None

    @abstractmethod
    def _fill_table(self, identifier: Identifier, data: pa.Table | IpcFile) -> int:
        """Write the first version of a declared table, and return it.

        Raises TableAlreadyExistsError if it has a version, TableNotFoundError or ConcurrentModificationError if it was
        dropped.
        """

    @abstractmethod
    def _claim_branch(self, identifier: Identifier, branch: str) -> AbstractContextManager[BranchClaim]:
        """Hold the claim on the name of a branch. Raises ConcurrentModificationError if another client holds it."""


def _replaced_error(identifier: Identifier) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"Table {format_identifier(identifier)} was dropped or replaced while it was changed"
    )
