"""Matching the columns of a DataFrame with those of a table, and checking their types."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as T

from pennon.spark.types.arrow_to_spark import spark_type
from pennon.spark.types.extension import UUID, known_extension, list_of, plain_schema
from pennon.spark.types.lazy_errors import invalid_input
from pennon.spark.types.spark_to_arrow import check_names, table_field
from pennon.spark.types.type_text import format_type
from pennon.spark.types.write_cast import WriteTarget, cast_array, null_array

if TYPE_CHECKING:
    from collections.abc import Sequence


_WHOLE = (T.IntegralType, T.DecimalType)
_TEXT = (T.StringType, T.CharType, T.VarcharType)
# The Spark types that a column accepts besides its own. Values are checked when they are written.
_TAKES: dict[type[T.DataType], tuple[type[T.DataType], ...]] = {
    T.IntegralType: _WHOLE,
    T.DecimalType: _WHOLE,
    T.FractionalType: (T.IntegralType, T.FractionalType),
    T.StringType: _TEXT,
}


@dataclass(frozen=True)
class WritePlan:
    """How to convert the rows of a DataFrame to rows of a table.

    `schema` is the written schema in plain form (`types.extension`). `new_columns` are the columns to add to the table
    first, as `LanceDataset.add_columns` accepts them: a new field of a struct is a struct with just that field. Without
    targets, the rows already have the types of the table.
    """

    schema: pa.Schema
    new_columns: tuple[pa.Field, ...] = ()
    targets: tuple[WriteTarget, ...] = ()

    def cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch from Spark with the types of the table; raises InvalidInputError if a value does not fit."""
        if not self.targets:
            return batch
        arrays = [
            null_array(batch.num_rows, target)
            if target.source is None
            else cast_array(batch.column(target.source), target)
            for target in self.targets
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def plan_write(
    incoming: T.StructType,
    table: pa.Schema,
    *,
    merge_schema: bool = False,
    fill_missing: bool | None = None,
    case_sensitive: bool = False,
    into: str = "the table",
) -> WritePlan:
    """Return a plan that matches columns by name; raises InvalidInputError if a column does not fit.

    With `merge_schema`, columns that the table lacks become new nullable columns. With `fill_missing`, by default the
    same, nullable columns that the DataFrame lacks are filled with nulls. `case_sensitive` is Spark's setting of that
    name. `into` names the table in errors.
    """
    fill = merge_schema if fill_missing is None else fill_missing
    planner = _ColumnMatcher(merge_schema, fill, case_sensitive, into)
    targets, new = planner.struct(incoming, list(plain_schema(table)), "")
    return WritePlan(pa.schema([target.field for target in targets]), new, targets)


@dataclass(frozen=True)
class _ColumnMatcher:
    may_add: bool
    may_fill: bool
    case_sensitive: bool
    into: str

    def struct(
        self, incoming: T.StructType, fields: Sequence[pa.Field], prefix: str
    ) -> tuple[tuple[WriteTarget, ...], tuple[pa.Field, ...]]:
        """Match the fields of a struct or the columns of the table; return the targets and the new fields."""
        places = self._match_names(incoming, fields, prefix)
        targets: list[WriteTarget] = []
        new: list[pa.Field] = []
        for field in fields:
            column = prefix + field.name
            source = places.pop(field.name, None)
            if source is None:
                targets.append(self._null_target(field, column))
                continue
            target, added = self._match_field(incoming[source].dataType, field, column)
            targets.append(replace(target, source=source))
            if added is not None:
                new.append(added)
        for source in sorted(places.values()):
            made = self._create_field(incoming[source], prefix, fields)
            target, _ = self._match_field(incoming[source].dataType, made, prefix + made.name)
            targets.append(replace(target, source=source))
            new.append(made)
        return tuple(targets), tuple(new)

    def _match_names(self, incoming: T.StructType, fields: Sequence[pa.Field], prefix: str) -> dict[str, int]:
        """Return the number of the DataFrame's field for each name, including new names."""
        names = [field.name for field in fields]
        places: dict[str, int] = {}
        for source, name in enumerate(incoming.names):
            known = name
            if name not in names and not self.case_sensitive:
                like = [one for one in names if one.lower() == name.lower()]
                if len(like) > 1:
                    raise invalid_input(f"Column {prefix}{name} may be any of {', '.join(like)} of {self.into}")
                known = like[0] if like else next((one for one in places if one.lower() == name.lower()), name)
            if known in places:
                other = incoming.names[places[known]]
                raise invalid_input(
                    f"Columns {prefix}{other} and {prefix}{name} of the DataFrame are one in {self.into}"
                )
            places[known] = source
        return places

    def _null_target(self, field: pa.Field, column: str) -> WriteTarget:
        if not field.nullable:
            raise invalid_input(f"Column {column} of {self.into} may not be null, and is missing in the DataFrame")
        if not self.may_fill:
            raise invalid_input(f"Column {column} of {self.into} is missing in the DataFrame")
        return WriteTarget(field, column)

    def _create_field(self, field: T.StructField, prefix: str, fields: Sequence[pa.Field]) -> pa.Field:
        if not self.may_add:
            has = ", ".join(prefix + one.name for one in fields)
            raise invalid_input(f"Column {prefix}{field.name} of the DataFrame is not in {self.into}, which has {has}")
        check_names([field.name], prefix)
        return table_field(field, prefix + field.name).with_nullable(nullable=True)

    def _match_field(self, given: T.DataType, field: pa.Field, column: str) -> tuple[WriteTarget, pa.Field | None]:
        """Match one field; return its target, and the field reduced to its new parts, or None."""
        shown = spark_type(field, column)
        if isinstance(given, T.NullType) and not field.nullable:
            raise invalid_input(f"Column {column} of {self.into} may not be null, and has only nulls in the DataFrame")
        if not isinstance(given, T.NullType) and not _takes(shown, given, field):
            raise invalid_input(
                f"Column {column} is {_describe_type(given)} in the DataFrame, which does not fit {format_type(field)} "
                f"in {self.into}"
            )
        kind = field.type
        if isinstance(given, T.StructType):
            parts, new = self.struct(given, list(kind), f"{column}.")
            made = field.with_type(pa.struct([part.field for part in parts]))
            return WriteTarget(made, column, parts=parts), field.with_type(pa.struct(new)) if new else None
        if isinstance(given, T.ArrayType):
            part, added = self._match_field(given.elementType, kind.value_field, f"{column}.element")
            new_list = None if added is None else field.with_type(list_of(kind, added))
            return WriteTarget(field.with_type(list_of(kind, part.field)), column, parts=(part,)), new_list
        if isinstance(given, T.MapType):
            key, new_key = self._match_field(given.keyType, kind.key_field, f"{column}.key")
            value, new_value = self._match_field(given.valueType, kind.item_field, f"{column}.value")
            if new_key is not None or new_value is not None:
                raise invalid_input(
                    f"Column {column} has a field that {self.into} lacks; structs in a map get no new ones"
                )
            return WriteTarget(field, column, parts=(key, value)), None
        return WriteTarget(field, column), None


def _takes(shown: T.DataType, given: T.DataType, field: pa.Field) -> bool:
    if known_extension(field) == UUID and isinstance(given, T.BinaryType):
        return True
    taken = next((taken for family, taken in _TAKES.items() if isinstance(shown, family)), type(shown))
    return isinstance(given, taken)


def _describe_type(given: T.DataType) -> str:
    if isinstance(given, T.UserDefinedType):
        return f"the user-defined type {given.simpleString()}"
    return given.simpleString()
