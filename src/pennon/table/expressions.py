"""SQL expressions over the columns of a table, as Lance plans them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.errors import InvalidInputError
from pennon.table.lance_errors import translate_errors

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


def quote_name(name: str) -> str:
    """Return a column's name, quoted for an expression."""
    return f"`{name.replace('`', '``')}`"


def plan_expression(dataset: LanceDataset, subject: str, expression: str) -> pa.Field:
    """Return the field that an expression produces. Raises InvalidInputError if Lance cannot evaluate it."""
    # A scan must read at least one column.
    anchor = quote_name(dataset.schema.names[0])
    with translate_errors(subject):
        scanner = dataset.scanner(columns={"anchor": anchor, "value": expression}, limit=0)
        return scanner.projected_schema.field("value")


def find_inputs(dataset: LanceDataset, expression: str) -> list[str]:
    """Return the names of the columns that an expression reads, sorted."""
    try:
        plan = dataset.scanner(columns={"value": expression}, limit=0).explain_plan()
    except (OSError, ValueError) as error:
        if _NO_COLUMN in str(error):
            return []
        raise
    found = _PROJECTION.search(plan)
    read = found[1] if found is not None else ""
    return sorted(name for name in dataset.schema.names if re.search(rf"(^|, ){re.escape(name)}(\.|, |$)", read))


def make_nullable(dataset: LanceDataset, expression: str, kind: pa.DataType) -> str | None:
    """Return an equal expression whose column is nullable, or None if there is none.

    It compares the values with a null that Lance does not recognize: a column that is null where it equals itself.
    """
    name = _ARROW_NAMES.get(kind)
    for column in dataset.schema if name is not None else ():
        if column.type not in _ARROW_NAMES:
            continue
        own = quote_name(column.name)
        text = f"nullif(({expression}), arrow_cast(nullif({own}, {own}), '{name}'))"
        try:
            found = plan_expression(dataset, "", text)
        except InvalidInputError:
            continue  # this column cannot be cast to the type; try another one
        if found.nullable and found.type == kind:
            return text
    return None
