"""Operations on the table `t` for races of a crew, as in `workers`."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa

TABLE = ["t"]
_KINDS = ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER")


def create_tag(ns: Any, index: int, name: str) -> None:
    """Tag the version with the member's number."""
    ns.create_table_tag({"id": TABLE, "tag": name, "version": index + 1})


def create_branch(ns: Any, index: int, name: str) -> None:
    """Create a branch at the version with the member's number."""
    ns.create_table_branch({"id": TABLE, "name": name, "from_version": index + 1})


def create_index(ns: Any, index: int, name: str) -> None:
    """Build an index of a kind that depends on the member."""
    ns.create_table_index({"id": TABLE, "column": "x", "index_type": _KINDS[index % len(_KINDS)], "name": name})


def add_column(ns: Any, index: int, name: str) -> None:
    """Add a column that holds the member's number."""
    ns.alter_table_add_columns({"id": TABLE, "new_columns": [{"name": name, "expression": f"x * 0 + {index}"}]})


def set_schema_metadata(ns: Any, index: int, name: str) -> None:
    ns.update_table_schema_metadata({"id": TABLE, "metadata": {name: str(index)}})


def add_column_or_append(ns: Any, index: int, name: str) -> None:
    """Add a column as the first member, or append a row."""
    if index == 0:
        ns.alter_table_add_columns({"id": TABLE, "new_columns": [{"name": name, "expression": "x * 2"}]})
    else:
        append_row(ns, index, name)


def drop_column_or_append(ns: Any, index: int, name: str) -> None:
    """Drop a column as the first member, or append a row."""
    if index == 0:
        ns.alter_table_drop_columns({"id": TABLE, "columns": [name]})
    else:
        append_row(ns, index, name)


def restore_or_tag(ns: Any, index: int, name: str) -> None:
    """Restore the first version, or create a tag, depending on the member."""
    if index % 2:
        ns.restore_table({"id": TABLE, "version": 1})
    else:
        ns.create_table_tag({"id": TABLE, "tag": f"{name}-{index}", "version": 1})


def append_row(ns: Any, index: int, name: str) -> None:
    """Append like any Lance program. The value identifies the member and the round."""
    value = 1000 * (index + 1) + int(name[1:])
    lance.write_dataset(pa.table({"x": [value]}), namespace_client=ns, table_id=TABLE, mode="append")
