"""What a namespace has to provide for operations inside of its tables."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import contextmanager, nullcontext
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
from pennon.table.bases import Base
from pennon.table.branches import named_branch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from lance import LanceDataset


@dataclass
class Change:
    """A change of a table that is under way."""

    made: LanceDataset
    """The table at the version that was made: the one that was opened, unless that one does not move."""


class OpensTables(LanceNamespace):
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
    def _changing(self, identifier: Identifier, dataset: LanceDataset, branch: str | None) -> Iterator[Change]:
        """Give 14 for a table that is dropped or made anew while it is changed, and leave nothing of the change.

        Either the commit fails, or it is found afterwards that it was one of a table that is not there any more.
        """
        base = self._base(dataset, named_branch(branch))
        change = Change(dataset)
        with self._telling_gone(identifier, dataset, branch):
            yield change
        self._require_ground(identifier, base, change.made)

    @contextmanager
    def _telling_gone(self, identifier: Identifier, dataset: LanceDataset, branch: str | None) -> Iterator[None]:
        """Tell a failure of a table that was dropped or made anew meanwhile from others: it is 14."""
        try:
            yield
        except (OSError, ValueError, RuntimeError, InvalidTableStateError) as error:
            if not self._is_gone(identifier, dataset, branch):
                raise
            self._clear_refused(dataset, named_branch(branch))
            raise _gone(identifier) from error

    @contextmanager
    def _table_to_change(
        self, identifier: Identifier, branch: str | None, *, version: int | None = None
    ) -> Iterator[LanceDataset]:
        """Open a table that is about to be changed; 14 if it is dropped or made anew meanwhile."""
        dataset = self._open_table(identifier, version=version, branch=branch)
        with self._changing(identifier, dataset, branch):
            yield dataset

    def _require_place(self, identifier: Identifier, dataset: LanceDataset) -> None:
        """Raise 14 if another table has the name by now: what was noted about the old one would be lost."""
        try:
            found = self._open_table(identifier, shared=True)
        except (NamespaceNotFoundError, TableNotFoundError, TableIsOnlyDeclaredError):
            return
        if found.uri != dataset.uri:
            self._clear_refused(dataset, None)
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

    def _base(self, dataset: LanceDataset, branch: str | None) -> Base:
        """Remember what a change builds on."""
        return Base.of(dataset, branch)

    @abstractmethod
    def _require_ground(self, identifier: Identifier, base: Base, made: LanceDataset) -> None:
        """Take the version that was made back, and raise 14, if its base is not that of the table any more.

        Nothing is to be done where the commit itself makes sure of it.
        """

    @abstractmethod
    def _clear_refused(self, dataset: LanceDataset, branch: str | None) -> None:
        """Delete what a change has left where its table was, which is gone, if that is safe."""

    @abstractmethod
    def _table_moved(self, before: LanceDataset, after: LanceDataset) -> None:
        """Hear of what was committed through a shared table: the next one to open it may go on from there."""

    @abstractmethod
    def _fill_table(self, identifier: Identifier, data: pa.Table) -> int:
        """Write the first version of a table that is only declared; 5 if it has one by now, 4 or 14 if it is gone."""

    def _beginning_branch(self, identifier: Identifier, branch: str) -> AbstractContextManager[Callable[[bool], None]]:
        """Let nobody else begin a branch meanwhile, as far as the namespace can; 14 if somebody is at it.

        Gives what clears the branch's place of what was left there by a client that died, or, called with True, of a
        branch that was just deleted.
        """
        del identifier, branch
        return nullcontext(lambda _: None)


def _gone(identifier: Identifier) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"Table {format_identifier(identifier)} was dropped or replaced while it was changed"
    )
