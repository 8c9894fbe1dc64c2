"""SQL expressions over the columns of a table, as Lance plans them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.errors import InvalidInputError
from pennon.table.lance_errors import bad_input_told

if TYPE_CHECKING:
    from lance import LanceDataset

_PROJECTION = re.compile(r"projection=\[(.*?)\], num_fragments")
_NO_COLUMN = "at least one column"
_ARROW_NAMES = {
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.float32(): "Float32",
    pa.float64(): "Float64",
    pa.string(): "Utf8",
    pa.bool_(): "Boolean",
    pa.date32(): "Date32",
}


def quoted(name: str) -> str:
    """Write a column's name so that an expression can hold it."""
    return f"`{name.replace('`', '``')}`"


def planned(dataset: LanceDataset, subject: str, expression: str) -> pa.Field:
    """Tell which values an expression would give; 13 if Lance cannot evaluate it."""
    # A scan must read a column.
    anchor = quoted(dataset.schema.names[0])
    with bad_input_told(subject):
        scanner = dataset.scanner(columns={"anchor": anchor, "value": expression}, limit=0)
        return scanner.projected_schema.field("value")


def inputs(dataset: LanceDataset, expression: str) -> list[str]:
    """Name the columns that an expression reads, sorted."""
    try:
        plan = dataset.scanner(columns={"value": expression}, limit=0).explain_plan()
    except (OSError, ValueError) as error:
        if _NO_COLUMN in str(error):
            return []
        raise
    found = _PROJECTION.search(plan)
    read = found[1] if found is not None else ""
    return sorted(name for name in dataset.schema.names if re.search(rf"(^|, ){re.escape(name)}(\.|, |$)", read))


def nullable(dataset: LanceDataset, expression: str, kind: pa.DataType) -> str | None:
    """Write an expression that gives no nulls so that its column may have some; None if it cannot be said.

    It is compared with a null that Lance does not know to be one: a column that is made null where it equals itself.
    """
    name = _ARROW_NAMES.get(kind)
    for column in dataset.schema if name is not None else ():
        if column.type not in _ARROW_NAMES:
            continue
        own = quoted(column.name)
        text = f"nullif(({expression}), arrow_cast(nullif({own}, {own}), '{name}'))"
        try:
            found = planned(dataset, "", text)
        except InvalidInputError:
            continue  # a cast that there is not; another column may do
        if found.nullable and found.type == kind:
            return text
    return None
