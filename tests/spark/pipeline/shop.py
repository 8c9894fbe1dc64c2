"""A small shop: a catalog, input files, and helpers that inspect both without Spark."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pennon.spark.address import Address

ORDERS = [(1, "ada", 10.5, "paid"), (2, "bob", 20.0, "open"), (3, "ada", 5.0, "paid"), (4, "cy", 7.5, "open")]


@dataclass
class Shop:
    """A catalog with the namespace `shop`, and input files."""

    address: Address
    files: Path
    lake: Any = None

    def write_orders(self, orders=ORDERS) -> None:
        lines = [
            "id,customer,amount,status",
            *(",".join("" if one is None else str(one) for one in row) for row in orders),
        ]
        (self.files / "orders.csv").write_text("\n".join(lines) + "\n")

    def pipeline(self, text: str, **variables: str):
        from pennon.spark.pipeline import Pipeline

        return Pipeline.from_text(textwrap.dedent(text), {"files": str(self.files), **variables})

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Read a table without Spark."""
        from pennon.spark.reading.pinned import pin

        _, dataset = pin(self.address, ("shop", table))
        found = dataset.to_table(columns=list(columns) or None)
        return sorted(tuple(row.values()) for row in found.to_pylist())

    def versions(self) -> dict[str, int]:
        """Return the latest version of each table."""
        from pennon.spark.reading.pinned import pin

        tables = self.address.connect().list_tables({"id": ["shop"]}).tables
        return {name: pin(self.address, ("shop", name))[0].version for name in sorted(tables)}

    def leftovers(self) -> list[str]:
        """Return files that belong to no table: notes, previews, results of steps, and unreferenced data."""
        root = Path(dict(self.address.properties)["root"])
        files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
        odd = [one for one in files if "/_pennon/" in one or "/_versions/d" in one or "/data/" in one]
        used = set()
        for location, dataset in self._datasets():
            inside = Path(location).relative_to(root).as_posix()
            used |= {f"{inside}/data/{file.path}" for one in dataset.get_fragments() for file in one.metadata.files}
        return sorted(one for one in odd if one not in used and not one.startswith("__manifest/"))

    def _datasets(self):
        from pennon.spark.reading.pinned import pin

        for name in self.address.connect().list_tables({"id": ["shop"]}).tables:
            table, dataset = pin(self.address, ("shop", name))
            for version in range(1, table.version + 1):
                yield table.uri, dataset.checkout_version(version)
