"""Write the results of SQL statements: JSON lines in a pipe, tables on a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.cli.output import Column, Note, Output, Table, write_json_line
from pennon.cli.values import format_cell, is_number, to_json_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from pennon.cli.output import Block


@dataclass(frozen=True)
class ResultWriter:
    """Writes results. A table has at most `limit` rows, JSON has all."""

    output: Output
    limit: int

    @property
    def most_rows(self) -> int | None:
        """How many rows of a result are needed, or None for all. One more shows that there are more."""
        return None if self.output.is_json else self.limit + 1

    def write(self, rows: pa.Table, seconds: float) -> None:
        """Write the rows of one statement, which took some time."""
        if self.output.is_json:
            _write_lines(rows)
        else:
            self.output.show({}, lambda: self._view(rows, seconds))

    def _view(self, rows: pa.Table, seconds: float) -> Iterable[Block]:
        shown = rows.slice(0, self.limit)
        if rows.num_columns:
            kinds = rows.schema.types
            headings = [
                Column(name, right=is_number(kind)) for name, kind in zip(rows.column_names, kinds, strict=True)
            ]
            cells = [
                [format_cell(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in _iterate(shown)
            ]
            yield Table(headings, cells, empty="no rows")
        more = f"the first {self.limit:,} rows" if rows.num_rows > self.limit else _count(rows)
        yield Note(f"{more}, {seconds:.1f} s")


def _count(rows: pa.Table) -> str:
    if not rows.num_columns:
        return "done"
    return "1 row" if rows.num_rows == 1 else f"{rows.num_rows:,} rows"


def _write_lines(rows: pa.Table) -> None:
    """Write each row as a JSON object on a line of its own."""
    names = _distinct(rows.column_names)
    for row in _iterate(rows):
        write_json_line({name: to_json_value(value) for name, value in zip(names, row, strict=True)})


def _iterate(rows: pa.Table) -> Iterable[list[object]]:
    for batch in rows.to_batches(max_chunksize=1024):
        for index in range(batch.num_rows):
            yield [column[index].as_py() for column in batch.columns]


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names of columns as keys of an object: a name that comes again gets a number."""
    found: list[str] = []
    for name in names:
        number, key = 1, name
        while key in found:
            number += 1
            key = f"{name}_{number}"
        found.append(key)
    return found
