"""Whether a name belongs to the catalog or to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pennon.identifiers import Identifier


class ForeignNameError(Exception):
    """A statement names something that is Spark's: Spark runs it."""


class Owner(Protocol):
    """Gives the identifier that a name has in the catalog, or raises ForeignNameError."""

    def own(self, parts: tuple[str, ...]) -> Identifier:
        """Name a table that can only be the catalog's."""

    def own_namespace(self, parts: tuple[str, ...]) -> Identifier:
        """Name a namespace that can only be the catalog's."""

    def table(self, parts: tuple[str, ...]) -> Identifier:
        """Name a table: the catalog's if it is there, or if it is nowhere."""

    def new_table(self, parts: tuple[str, ...]) -> Identifier:
        """Name a table that is to be made: the catalog's unless its namespace is Spark's alone."""

    def namespace(self, parts: tuple[str, ...]) -> Identifier:
        """Name a namespace: the catalog's if it is there, or if it is nowhere."""

    def new_namespace(self, parts: tuple[str, ...]) -> Identifier:
        """Name a namespace that is to be made: the catalog's unless its parent is Spark's alone."""
