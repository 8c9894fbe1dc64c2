"""Decide whether a name in a statement belongs to the catalog or to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_namespace import NamespaceExistsRequest

from pennon.catalog_pages import has_table, iterate_namespaces, iterate_tables
from pennon.errors import InvalidInputError, NamespaceNotFoundError
from pennon.identifiers import quote_identifier
from pennon.spark.quoting import fold_name, quote_name
from pennon.spark.session_settings import classic_context, is_case_sensitive

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake


class ForeignNameError(Exception):
    """A statement names an object of Spark, so Spark runs the statement."""


class NameResolver:
    """Resolves the names of one statement to identifiers of the catalog.

    A name may begin with the name of the lake. As in Spark, case matters only if the session says so; a name that is
    exactly a table's always means that table. A temporary view of Spark hides a table of the lake. A table of Spark
    does not; it can be reached as `spark_catalog.default.name`.

    Methods raise ForeignNameError if the name belongs to Spark.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._tables: dict[tuple[str, ...], Identifier | None] = {}

    def find_table(self, parts: tuple[str, ...]) -> Identifier | None:
        """Return the identifier of the catalog's table with this name, or None."""
        if parts not in self._tables:
            self._tables[parts] = None if self._is_temporary(parts) else self._find_in_catalog(parts)
        return self._tables[parts]

    def catalog_table(self, parts: tuple[str, ...]) -> Identifier:
        """Return the identifier of a table that can only belong to the catalog, without the lake's name."""
        return parts[1:] if len(parts) > 1 and parts[0] == self._lake.name else parts

    def catalog_namespace(self, parts: tuple[str, ...]) -> Identifier:
        """Return the identifier of a namespace that can only belong to the catalog."""
        return parts[1:] if parts[0] == self._lake.name else parts

    def resolve_table(self, parts: tuple[str, ...]) -> Identifier:
        """Return the identifier of a table that is in the catalog, or neither there nor in Spark."""
        identifier = self.find_table(parts)
        if identifier is not None:
            return identifier
        if self._is_in_spark(parts):
            raise ForeignNameError
        return self.catalog_table(parts)

    def resolve_new_table(self, parts: tuple[str, ...]) -> Identifier:
        """Return the identifier of a table to create, unless only Spark has its namespace."""
        identifier = self.catalog_table(parts)
        if identifier == parts and len(parts) > 1:
            self.resolve_namespace(parts[:-1])
        return identifier

    def resolve_namespace(self, parts: tuple[str, ...]) -> Identifier:
        """Return the identifier of a namespace that is in the catalog, or neither there nor in Spark."""
        if parts[0] == self._lake.name:
            return parts[1:]
        if not self._has_namespace(parts) and self._is_database(parts):
            raise ForeignNameError
        return parts

    def resolve_new_namespace(self, parts: tuple[str, ...]) -> Identifier:
        """Return the identifier of a namespace to create, unless only Spark has its parent.

        Raises InvalidInputError if the name is that of the lake itself.
        """
        identifier = self.catalog_namespace(parts)
        if not identifier:
            raise InvalidInputError(f"{'.'.join(parts)!r} is the name of the lake; name a namespace in it")
        if identifier == parts and len(parts) > 1:
            # The children of Spark's catalog are its databases.
            self.resolve_namespace((parts[0], "default") if parts[0] == "spark_catalog" else parts[:-1])
        return identifier

    def _find_in_catalog(self, parts: tuple[str, ...]) -> Identifier | None:
        stripped = self.catalog_table(parts)
        for identifier in dict.fromkeys([stripped, parts]):
            if has_table(self._lake.catalog, identifier):
                return identifier
        return None if is_case_sensitive(self._lake.spark) else self._find_ignoring_case(parts)

    def _find_ignoring_case(self, parts: tuple[str, ...]) -> Identifier | None:
        """Return the only table whose name differs just in case, or None.

        Raises InvalidInputError if there are several.
        """
        names = parts[1:] if len(parts) > 1 and fold_name(parts[0]) == fold_name(self._lake.name) else parts
        catalog = self._lake.catalog
        parents: list[Identifier] = [()]
        for name in names[:-1]:
            below = [one for parent in parents for one in iterate_namespaces(catalog, parent, recursive=False)]
            parents = [one for one in below if fold_name(one[-1]) == fold_name(name)]
        tables = [one for parent in parents for one in iterate_tables(catalog, parent)]
        found = [one for one in tables if fold_name(one[-1]) == fold_name(names[-1])]
        if len(found) > 1:
            listed = ", ".join(map(quote_identifier, sorted(found)))
            raise InvalidInputError(f"The table name {quote_identifier(parts)} can mean any of {listed}")
        return found[0] if found else None

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
        spark = self._lake.spark
        if len(parts) == 1 and classic_context(spark) is not None:
            # The public method takes milliseconds for a name that Spark does not know.
            views: Any = spark._jsparkSession.sessionState().catalog()  # noqa: SLF001 - there is no other way
            return bool(views.getRawTempView(parts[0]).isDefined())
        try:
            return bool(spark.catalog.getTable(quote_name(*parts)).isTemporary)
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
