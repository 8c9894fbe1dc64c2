"""Filters that are pushed down keep the same rows as Spark: Lance's results, compared with a model of Spark's rules."""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
import uuid
from dataclasses import dataclass, field
from decimal import Decimal

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from pennon.errors import InvalidInputError
from pennon.spark import types
from pennon.spark.quoting import quote_name
from pennon.spark.reading.filters import translate_filter
from pennon.spark.reading.literals import format_literal

NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0000))[0]
UTC = dt.timezone.utc
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "a%",
    "a_b",
    "a\\",
    "\\%",
    "%",
    "'",
    "''",
    "`",
    '"',
    "é",
    "e\u0301",
    "\U0001f600",
    "\x00",
    "\n",
]
FLOATS = [math.nan, NEGATIVE_NAN, math.inf, -math.inf, 0.0, -0.0, 1.5, -1.5, 1.1]
MOMENTS = [
    dt.datetime(1, 1, 1, tzinfo=UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    dt.datetime(1970, 1, 1, tzinfo=UTC),
    dt.datetime(2024, 2, 29, 12, 30, 15, 123_456, tzinfo=UTC),
    dt.datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
]
RECENT = MOMENTS[1:-1]
WHOLE = [moment.replace(microsecond=0) for moment in MOMENTS]
DATES = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
UUIDS = [uuid.UUID(int=number) for number in (0, 1, 2**127, 2**128 - 1)]


def _integers(bits: int, *, signed: bool) -> list[int]:
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [least, least + 1, 0, 1, 5, 100, most - 1, most]


def _local(moments):
    return [moment.replace(tzinfo=None) for moment in moments]


# The types whose values are compared, with their extreme values.
KINDS = {
    "int8": (pa.int8(), _integers(8, signed=True)),
    "int16": (pa.int16(), _integers(16, signed=True)),
    "int32": (pa.int32(), _integers(32, signed=True)),
    "int64": (pa.int64(), _integers(64, signed=True)),
    "uint8": (pa.uint8(), _integers(8, signed=False)),
    "uint16": (pa.uint16(), _integers(16, signed=False)),
    "uint32": (pa.uint32(), _integers(32, signed=False)),
    "uint64": (pa.uint64(), _integers(64, signed=False)),
    "float16": (pa.float16(), [*FLOATS, 65504.0, 6e-8]),
    "float32": (pa.float32(), [*FLOATS, 3.4028234663852886e38, 1e-45]),
    "float64": (pa.float64(), [*FLOATS, 1.7976931348623157e308, 5e-324, 1e22]),
    "decimal": (pa.decimal128(38, 10), [Decimal(text) for text in ("0", "1.5", "-1.5", "123456789012345.0000000001")]),
    "small": (pa.decimal128(5, 2), [Decimal(text) for text in ("0", "1.5", "-1.5", "999.99", "-999.99")]),
    "wide": (pa.decimal256(38, 2), [Decimal(text) for text in ("0", "1.5", "-1.5", "99999999999999999999.99")]),
    "string": (pa.string(), TEXTS),
    "large": (pa.large_string(), TEXTS),
    "words": (pa.dictionary(pa.int8(), pa.string()), TEXTS),
    "binary": (pa.binary(), [text.encode() for text in TEXTS] + [b"\xff\x00"]),
    "bytes": (pa.large_binary(), [text.encode() for text in TEXTS] + [b"\xff\x00"]),
    "fixed": (pa.binary(2), [b"\x00\x00", b"\x00\xff", b"a'", b"\xff\xff"]),
    "flag": (pa.bool_(), [True, False]),
    "date": (pa.date32(), DATES),
    "date64": (pa.date64(), DATES),
    "ts_s": (pa.timestamp("s"), _local(WHOLE)),
    "ts_ms": (pa.timestamp("ms"), _local(WHOLE)),
    "ts_us": (pa.timestamp("us"), _local(MOMENTS)),
    "ts_ns": (pa.timestamp("ns"), _local(RECENT)),
    "tz_us": (pa.timestamp("us", tz="UTC"), MOMENTS),
    "tz_city": (pa.timestamp("us", tz="America/New_York"), MOMENTS),
    "tz_s": (pa.timestamp("s", tz="+05:30"), WHOLE),
    "tz_ns": (pa.timestamp("ns", tz="UTC"), RECENT),
    "uuid": (pa.uuid(), UUIDS),
}
UNINDEXED = {"words", "fixed", "wide", "uuid"}
ROWS = 120


def _array(kind: pa.DataType, values: list, chooser: random.Random) -> pa.Array:
    chosen = [*values, None]
    chosen += [chooser.choice(chosen) for _ in range(ROWS - len(chosen))]
    chooser.shuffle(chosen)
    if isinstance(kind, pa.UuidType):
        storage = pa.array([None if value is None else value.bytes for value in chosen], kind.storage_type)
        return pa.ExtensionArray.from_storage(kind, storage)
    if pa.types.is_floating(kind):
        return pa.array(chosen, pa.float64(), from_pandas=False).cast(kind)
    made = pa.array(chosen, kind)
    # Nanoseconds, which Spark truncates.
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        noise = pa.array([chooser.choice([0, 0, 1, 999]) for _ in range(ROWS)])
        return pa.compute.add(made.cast(pa.int64()), noise).cast(kind)
    return made


def _table() -> pa.Table:
    chooser = random.Random(7)
    arrays = {name: _array(kind, values, chooser) for name, (kind, values) in KINDS.items()}
    # Null structs with fields that are not null.
    nulls = pa.array([chooser.random() < 0.2 for _ in range(ROWS)])
    deep = pa.StructArray.from_arrays(list(arrays.values()), names=list(arrays), mask=nulls)
    odd = {name: pa.StructArray.from_arrays([deep], names=[f"{name}.`in side`"], mask=nulls) for name in ODD_NAMES}
    return pa.table({"id": pa.array(range(ROWS)), **arrays, **odd})


ODD_NAMES = ["1st Select", 'quo"ted']
PATHS = [(name,) for name in KINDS] + [(odd, f"{odd}.`in side`", name) for odd in ODD_NAMES for name in KINDS]


@dataclass(frozen=True)
class Seen:
    dataset: lance.LanceDataset
    rows: list = field(repr=False)  # as Spark reads them


@pytest.fixture(scope="module", params=[None, "BTREE", "ZONEMAP"])
def table(request, tmp_path_factory):
    """Write all types, with and without indexes, and read them as Spark does."""
    path = str(tmp_path_factory.mktemp("filters") / "t.lance")
    for part in (range(50), range(50, ROWS)):
        dataset = lance.write_dataset(_table().take(list(part)), path, mode="append" if part.start else "create")
    if request.param is not None:
        for name in KINDS.keys() - UNINDEXED:
            dataset.create_scalar_index(name, request.param)
    dataset = lance.dataset(path)
    target = types.read_schema(dataset.schema)
    batch = dataset.to_table().combine_chunks().to_batches()[0]
    return Seen(dataset, types.to_spark(batch, target, truncate_nanoseconds=True).to_pylist())


def order(value):
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value + 0.0)
    return value.encode() if isinstance(value, str) else value


def truth(filter_, row) -> bool | None:
    """Return the value of a filter for a row in Spark: true, false or null."""
    if isinstance(filter_, Not):
        inner = truth(filter_.child, row)
        return None if inner is None else not inner
    value = row
    for part in filter_.attribute:
        value = None if value is None else value[part]
    if isinstance(filter_, (IsNull, IsNotNull)):
        return (value is None) is isinstance(filter_, IsNull)
    if isinstance(filter_, EqualNullSafe) and (value is None or filter_.value is None):
        return value is None and filter_.value is None
    if value is None:
        return None
    if isinstance(filter_, In):
        found = any(one is not None and order(one) == order(value) for one in filter_.value)
        return None if None in filter_.value and not found else found
    if filter_.value is None:
        return None
    return {
        EqualTo: lambda left, right: left == right,
        EqualNullSafe: lambda left, right: left == right,
        GreaterThan: lambda left, right: left > right,
        GreaterThanOrEqual: lambda left, right: left >= right,
        LessThan: lambda left, right: left < right,
        LessThanOrEqual: lambda left, right: left <= right,
        StringStartsWith: lambda left, right: left.startswith(right),
        StringEndsWith: lambda left, right: left.endswith(right),
        StringContains: lambda left, right: right in left,
    }[type(filter_)](order(value), order(filter_.value))


def _near(name: str):
    """Draw values as Spark passes them: values of the column, others of its type, and values of no row."""
    kind, values = KINDS[name]
    if pa.types.is_timestamp(kind):
        zone = UTC if kind.tz else None
        drawn = st.sampled_from(_local(MOMENTS)) | st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
        return drawn.map(lambda moment: moment.replace(tzinfo=zone))
    if name == "uint64":
        return (st.sampled_from(values) | st.integers(-5, 2**64 + 5)).map(Decimal)
    if pa.types.is_integer(kind):
        return st.sampled_from(values) | st.integers(min(values) - 5, max(values) + 5)
    if pa.types.is_floating(kind):
        shown = 64 if kind.bit_width == 64 else 32
        known = [struct.unpack("f", struct.pack("f", value))[0] if shown == 32 else value for value in values]
        return st.sampled_from(known) | st.floats(width=shown)
    if pa.types.is_decimal(kind):
        whole = st.integers(-(10**kind.precision) + 1, 10**kind.precision - 1)
        return st.sampled_from(values) | whole.map(lambda number: Decimal(number).scaleb(-kind.scale))
    if name in {"string", "large", "words"}:
        return st.sampled_from(TEXTS) | st.text(st.characters(codec="utf-8"), max_size=3)
    if pa.types.is_date(kind):
        return st.sampled_from(values) | st.dates()
    if name == "uuid":
        return st.sampled_from([str(value) for value in UUIDS]) | st.uuids().map(str) | st.just("no uuid")
    if name in {"binary", "bytes", "fixed"}:
        return st.sampled_from(values) | st.binary(max_size=3)
    return st.sampled_from(values)


COMPARISONS = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]


@st.composite
def filters(draw, name: str):
    path = draw(st.sampled_from([path for path in PATHS if path[-1] == name]))
    values = _near(path[-1])
    made = draw(
        st.builds(In, st.just(path), st.lists(values | st.none(), min_size=1, max_size=30))
        | st.builds(
            lambda kind, value: kind(path, value),
            st.sampled_from(COMPARISONS),
            values,
        )
        | st.builds(EqualNullSafe, st.just(path), values | st.none())
        | st.sampled_from([IsNull(path), IsNotNull(path)])
        | (
            st.builds(
                lambda kind, value: kind(path, value),
                st.sampled_from([StringStartsWith, StringEndsWith, StringContains]),
                values,
            )
            if path[-1] in {"string", "large", "words", "uuid"}
            else st.nothing()
        )
    )
    for _ in range(draw(st.integers(0, 2))):
        made = Not(made)
    return made


def check(table: Seen, filter_) -> None:
    predicate = translate_filter(filter_, table.dataset.schema)
    if predicate is None:
        return
    kept = table.dataset.to_table(columns=["id"], filter=predicate)["id"].to_pylist()
    assert kept == [row["id"] for row in table.rows if truth(filter_, row)], predicate


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_lance_keeps_the_rows_that_spark_keeps(table, name, data) -> None:
    check(table, data.draw(filters(name)))


@pytest.mark.parametrize(
    "filter_",
    [
        GreaterThan(("float64",), 1.0),
        LessThanOrEqual(("float16",), -1.5),
        Not(In(("float32",), [0.0, math.nan])),
        In(("float64",), [-0.0, 1.5, 1.7976931348623157e308, 5e-324]),
        Not(In(("int8",), [1, None])),
        In(("int8",), [None]),
        EqualTo(("int64",), -(2**63)),
        Not(EqualNullSafe(("ts_ns",), _local(RECENT)[0])),
        In(("ts_ns",), _local(RECENT)),
        *(kind(("ts_s",), _local(MOMENTS)[1]) for kind in COMPARISONS),
        *(Not(kind(("tz_s",), MOMENTS[3])) for kind in COMPARISONS),
    ],
    ids=str,
)
def test_lance_keeps_the_rows_that_spark_keeps_at_the_edges(table, filter_) -> None:
    check(table, filter_)


def _values(name: str) -> list:
    """Return values that Spark passes and that the column can have."""
    kind, values = KINDS[name]
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return [moment.replace(tzinfo=UTC if kind.tz else None) for moment in RECENT]
    if name == "uuid":
        return [str(value) for value in UUIDS]
    if name in {"float16", "float32"}:
        return [value for value in values if value not in {1.1, 6e-8, 1e-45}]
    return values


@pytest.mark.parametrize("path", PATHS, ids=".".join)
def test_every_comparison_with_a_valid_value_is_pushed_down(path) -> None:
    schema = _table().schema
    values = _values(path[-1])
    made = [kind(path, value) for kind in COMPARISONS for value in values]
    made += [In(path, values), In(path, [*values, None]), IsNull(path), IsNotNull(path), EqualNullSafe(path, None)]
    if path[-1] in {"string", "large", "words"}:
        made += [kind(path, value) for kind in (StringStartsWith, StringEndsWith, StringContains) for value in values]

    assert [
        one for one in made if translate_filter(one, schema) is None or translate_filter(Not(one), schema) is None
    ] == []


STAYING = {
    "a value that only a wider type has": EqualTo(("uint8",), 256),
    "a number between two that float16 has": LessThan(("float16",), 1.1),
    "a decimal that PySpark may have rounded": EqualTo(("decimal",), Decimal("1234567890123456789.1234567890")),
    "a text that is no UUID": EqualTo(("uuid",), "no uuid"),
    "a UUID that is not in lower case": EqualTo(("uuid",), str(UUIDS[2]).replace("8", "A")),
    "a part of a UUID": StringStartsWith(("uuid",), "0"),
    "nanoseconds that 64 bits do not count": GreaterThan(("ts_ns",), dt.datetime(3000, 1, 1)),
    "a local time for a column with a zone": EqualTo(("tz_us",), dt.datetime(2024, 1, 1)),
    "bytes of another length": EqualTo(("fixed",), b"abc"),
    "one of a list": In(("uint8",), [1, 256]),
    "the opposite of what stays": Not(EqualTo(("uint8",), 256)),
    "a column that is not there": IsNull(("other",)),
    "a field that is not there": IsNull(("1st Select", "other")),
    "a field of what is no struct": IsNull(("int8", "x")),
    "a list": EqualTo(("list",), [1]),
    "a time of day": EqualTo(("time",), dt.time(1)),
    "JSON": EqualTo(("json",), "{}"),
    "a blob": IsNull(("blob",)),
    "a name with a backtick": IsNull(("back`tick",)),
}
MORE = [
    pa.field("list", pa.list_(pa.int32())),
    pa.field("time", pa.time64("us")),
    pa.field("json", pa.json_()),
    pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
    pa.field("back`tick", pa.int32()),
]


@pytest.mark.parametrize("filter_", STAYING.values(), ids=STAYING.keys())
def test_filters_that_lance_evaluates_differently_are_not_pushed_down(filter_) -> None:
    assert translate_filter(filter_, pa.schema([*_table().schema, *MORE])) is None


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int32()), pa.list_(pa.float32(), 2), pa.map_(pa.string(), pa.int8()), pa.json_()], ids=str
)
def test_null_checks_of_every_type_are_pushed_down(kind) -> None:
    assert translate_filter(IsNull(("c",)), pa.schema([("c", kind)])) == "`c` IS NULL"


def test_long_lists_are_pushed_down(tmp_path) -> None:
    dataset = lance.write_dataset(pa.table({"i": range(20_000)}), str(tmp_path / "t.lance"))
    predicate = translate_filter(In(("i",), list(range(0, 20_000, 2))), dataset.schema)

    assert dataset.count_rows(predicate) == 10_000


@pytest.mark.parametrize(
    "name", ["a b", "UPPER", "1st", "select", 'quo"te', "it's", "é", "a:b", "[0]", "\\", "\n", "a`b.c"]
)
def test_columns_with_any_name_are_pushed_down(name, tmp_path) -> None:
    inner = pa.array([{name: 1}, {name: 2}, None], pa.struct([(name, pa.int64())]))
    path = [name.replace("`", "").replace(".", ""), name]
    dataset = lance.write_dataset(pa.table({path[0]: inner}), str(tmp_path / "t.lance"))

    assert dataset.count_rows(f"{quote_name(*path)} = 2") == 1


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.5, pa.int8()),
        (True, pa.int8()),
        ("1", pa.int8()),
        (128, pa.int8()),
        (1, pa.string()),
        ("\ud800", pa.string()),
        ([1], pa.list_(pa.int8())),
        (Decimal("1E+999999999"), pa.decimal128(5, 2)),
        (Decimal("1E+999999999"), pa.int64()),
        (Decimal("NaN"), pa.decimal128(5, 2)),
    ],
    ids=str,
)
def test_literal_outside_the_type_raises_invalid_input(value, kind) -> None:
    with pytest.raises(InvalidInputError, match="is not a value of the Arrow type"):
        format_literal(value, kind)
