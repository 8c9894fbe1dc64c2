"""Names in statements: which of them the catalog has, which Spark has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_namespace import NamespaceExistsRequest, TableExistsRequest

from pennon.errors import InvalidInputError, NamespaceNotFoundError, TableNotFoundError
from pennon.spark.quoting import quote_name

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake


class ForeignNameError(Exception):
    """A statement names an object of Spark, so Spark runs the statement."""


class NameResolver:
    """The names of a lake and of its Spark session, for one statement.

    A name may begin with the lake's own. A temporary view of Spark's hides a table of the lake; a table of Spark's does
    not, and can be reached as `spark_catalog.default.name`.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._tables: dict[tuple[str, ...], Identifier | None] = {}

    def find_table(self, parts: tuple[str, ...]) -> Identifier | None:
        """Find the table of the catalog that a name means; None if it means none."""
        if parts not in self._tables:
            self._tables[parts] = None if self._is_temporary(parts) else self._find_in_catalog(parts)
        return self._tables[parts]

    def catalog_table(self, parts: tuple[str, ...]) -> Identifier:
        """Give the identifier for a name that can only be meant for the catalog."""
        return parts[1:] if len(parts) > 1 and parts[0] == self._lake.name else parts

    def catalog_namespace(self, parts: tuple[str, ...]) -> Identifier:
        """Give the identifier for a namespace that can only be meant for the catalog."""
        return parts[1:] if parts[0] == self._lake.name else parts

    def resolve_table(self, parts: tuple[str, ...]) -> Identifier:
        """Name a table: the catalog's if it is there, or if it is nowhere."""
        found = self.find_table(parts)
        if found is not None:
            return found
        if self._is_in_spark(parts):
            raise ForeignNameError
        return self.catalog_table(parts)

    def resolve_new_table(self, parts: tuple[str, ...]) -> Identifier:
        """Name a table that is to be made: the catalog's unless its namespace is Spark's alone."""
        identifier = self.catalog_table(parts)
        if identifier == parts and len(parts) > 1:
            self.resolve_namespace(parts[:-1])
        return identifier

    def resolve_namespace(self, parts: tuple[str, ...]) -> Identifier:
        """Name a namespace: the catalog's if it is there, or if it is nowhere."""
        if parts[0] == self._lake.name:
            return parts[1:]
        if not self._has_namespace(parts) and self._is_database(parts):
            raise ForeignNameError
        return parts

    def resolve_new_namespace(self, parts: tuple[str, ...]) -> Identifier:
        """Name a namespace that is to be made: the catalog's unless its parent is Spark's alone."""
        identifier = self.catalog_namespace(parts)
        if not identifier:
            raise InvalidInputError(f"{'.'.join(parts)!r} names the lake itself, not a namespace in it")
        if identifier == parts and len(parts) > 1:
            # A catalog of Spark's has its databases as children.
            self.resolve_namespace((parts[0], "default") if parts[0] == "spark_catalog" else parts[:-1])
        return identifier

    def _find_in_catalog(self, parts: tuple[str, ...]) -> Identifier | None:
        stripped = self.catalog_table(parts)
        for identifier in dict.fromkeys([stripped, parts]):
            try:
                self._lake.catalog.table_exists(TableExistsRequest(id=list(identifier)))
            except (TableNotFoundError, NamespaceNotFoundError, InvalidInputError):
                continue
            return identifier
        return None

    def _has_namespace(self, identifier: Identifier) -> bool:
        try:
            self._lake.catalog.namespace_exists(NamespaceExistsRequest(id=list(identifier)))
        except (NamespaceNotFoundError, InvalidInputError):
            return False
        return True

    def _is_temporary(self, parts: tuple[str, ...]) -> bool:
        from pyspark.errors import PySparkException

        if len(parts) > 1 and parts[0].lower() != "global_temp":
            return False
        try:
            return bool(self._lake.spark.catalog.getTable(quote_name(*parts)).isTemporary)
        except PySparkException:
            return False

    def _is_in_spark(self, parts: tuple[str, ...]) -> bool:
        from pyspark.errors import PySparkException

        try:
            return bool(self._lake.spark.catalog.tableExists(quote_name(*parts)))
        except PySparkException:
            return False

    def _is_database(self, parts: tuple[str, ...]) -> bool:
        from pyspark.errors import PySparkException

        try:
            return bool(self._lake.spark.catalog.databaseExists(quote_name(*parts)))
        except PySparkException:
            return False
