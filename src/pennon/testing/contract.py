"""What all parts of the contract share: where tests get a namespace, and what depends on the implementation."""

from __future__ import annotations

from typing import Any, ClassVar

import lance
import pyarrow as pa

from pennon.testing.calls import describe_namespace, describe_table, list_namespaces, list_tables

Place = tuple[Any, tuple[str, ...]]
"""A catalog, and the namespace in it where a test creates tables."""


class Contract:
    """Tests of one subject, on the fixtures `place`, `nested` and `namespace`, which `NamespaceContract` defines."""

    unsupported: ClassVar[frozenset[str]] = frozenset()
    """Names of the operations that the implementation does not have. They must raise UnsupportedOperationError."""

    def supports(self, catalog: Any, operation: str) -> bool:  # noqa: ARG002 - implementations may look at the catalog
        """Return True if a catalog has an operation."""
        return operation not in self.unsupported

    def open_dataset(self, location: str) -> lance.LanceDataset:
        """Open a table at the location that the catalog returned. Override it if Lance needs storage options."""
        return lance.dataset(location)

    def rows(self, location: str) -> list[Any]:
        """Return the column `x` of the table at a location."""
        return self.open_dataset(location).to_table()["x"].to_pylist()  # type: ignore[no-any-return]

    def append(self, location: str, values: list[int]) -> lance.LanceDataset:
        """Append rows to the table at a location, past the catalog, and return the table."""
        dataset = self.open_dataset(location)
        dataset.insert(pa.table({"x": values}))
        return dataset

    def contents(self, catalog: Any, *names: str) -> dict[tuple[str, ...], Any]:
        """Return everything below a namespace: tests compare it before and after an operation that must fail.

        It asks the catalog. Override it to compare what is stored.
        """
        found: dict[tuple[str, ...], Any] = {names: describe_namespace(catalog, *names).properties} if names else {}
        for table in list_tables(catalog, *names):
            described = describe_table(catalog, *names, table)
            identifier = (*names, table)
            found[identifier] = (described.location, described.properties)
        for child in list_namespaces(catalog, *names):
            found.update(self.contents(catalog, *names, child))
        return found
