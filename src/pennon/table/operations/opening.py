"""What a namespace has to provide for operations inside of its tables."""

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
)
from pennon.identifiers import Identifier, format_identifier
from pennon.table.version_identity import BaseVersion
from pennon.table.version_selector import normalize_branch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from lance import LanceDataset

    from pennon.table.branches import BranchClaim


@dataclass
class Change:
    """A change of a table that is under way."""

    made: LanceDataset
    """The table at the version that was made: the one that was opened, unless that one does not move."""


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
        """Open a table at a version, tag or branch, the latest by default; commits to it go where they belong.

        The caller may do with it what it likes, unless it asks for a shared one: that costs less, is used by others as
        well, and must not be moved or written through in place. Errors 1 and 4 (not there), 8, 11, 19 (only declared,
        or damaged), 22.
        """

    @contextmanager
    def _change_table(self, identifier: Identifier, dataset: LanceDataset, branch: str | None) -> Iterator[Change]:
        """Give 14 for a table that is dropped or made anew while it is changed, and leave nothing of the change.

        Either the commit fails, or it is found afterwards that it was one of a table that is not there any more.
        """
        base = self._read_base(dataset, normalize_branch(branch))
        change = Change(dataset)
        with self._detect_replacement(identifier, dataset, branch):
            yield change
        self._require_base(identifier, base, change.made)

    @contextmanager
    def _detect_replacement(self, identifier: Identifier, dataset: LanceDataset, branch: str | None) -> Iterator[None]:
        """Tell a failure of a table that was dropped or made anew meanwhile from others: it is 14."""
        try:
            yield
        except (OSError, ValueError, RuntimeError, InvalidTableStateError) as error:
            if not self._is_gone(identifier, dataset, branch):
                raise
            self._delete_refused_files(dataset, normalize_branch(branch))
            raise _gone(identifier) from error

    @contextmanager
    def _table_to_change(
        self, identifier: Identifier, branch: str | None, *, version: int | None = None
    ) -> Iterator[LanceDataset]:
        """Open a table that is about to be changed; 14 if it is dropped or made anew meanwhile."""
        dataset = self._open_table(identifier, version=version, branch=branch)
        with self._change_table(identifier, dataset, branch):
            yield dataset

    def _require_same_table(self, identifier: Identifier, dataset: LanceDataset) -> None:
        """Raise 14 if another table has the name by now: what was noted about the old one would be lost."""
        try:
            found = self._open_table(identifier, shared=True)
        except (NamespaceNotFoundError, TableNotFoundError, TableIsOnlyDeclaredError):
            return
        if found.uri != dataset.uri:
            self._delete_refused_files(dataset, None)
            raise _gone(identifier)

    def _is_gone(self, identifier: Identifier, dataset: LanceDataset, branch: str | None) -> bool:
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
        """Remember what a change builds on."""
        return BaseVersion.of(dataset, branch)

    @abstractmethod
    def _require_base(self, identifier: Identifier, base: BaseVersion, made: LanceDataset) -> None:
        """Take the version that was made back, and raise 14, if its base is not that of the table any more.

        Nothing is to be done where the commit itself makes sure of it.
        """

    @abstractmethod
    def _delete_refused_files(self, dataset: LanceDataset, branch: str | None) -> None:
        """Delete what a change has left where its table was, which is gone, if that is safe."""

    @abstractmethod
    def _advance_handle(self, before: LanceDataset, after: LanceDataset) -> None:
        """Hear of what was committed through a shared table: the next one to open it may go on from there."""

    @abstractmethod
    def _fill_table(self, identifier: Identifier, data: pa.Table) -> int:
        """Write the first version of a table that is only declared; 5 if it has one by now, 4 or 14 if it is gone."""

    @abstractmethod
    def _claim_branch(self, identifier: Identifier, branch: str) -> AbstractContextManager[BranchClaim]:
        """Hold the claim on the name of a branch. Raises ConcurrentModificationError if another client holds it."""


def _gone(identifier: Identifier) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"Table {format_identifier(identifier)} was dropped or replaced while it was changed"
    )
