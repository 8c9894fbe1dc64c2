"""The filters that Spark actually passes: Lance keeps the same rows as Spark."""

from __future__ import annotations

import pickle
from pathlib import Path

import lance
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, Not

from pennon.spark import types
from pennon.spark.reading.filters import translate_filter
from tests.spark.test_filters import ROWS, _table

NUMBERS = [
    "{} = 5",
    "{} <=> 5",
    "NOT ({} <=> 5)",
    "{} != 0",
    "{} > 100",
    "{} <= 1",
    "{} NOT IN (0, 1)",
    "{} IN (1, NULL)",
]
REALS = [
    "{} = {}('NaN')",
    "{} != {}('NaN')",
    "{} > {}('1.5')",
    "{} <= {}('1.5')",
    "{} < {}('NaN')",
    "{} >= {}('0')",
    "{} < {}('-0.0')",
    "{} = {}('-0.0')",
    "{} IN ({}('0'), {}('NaN'), {}('1.1'))",
    "{} NOT IN ({}('0'), {}('NaN'))",
    "{} >= {}('-Infinity')",
    "{} > {}('Infinity')",
]
WORDS = [
    "{} = 'a'",
    "{} > 'a'",
    "{} = ''''",
    "{} LIKE 'a%'",
    "{} LIKE '%b'",
    "{} LIKE '%_b%'",
    "NOT {} LIKE 'a%'",
    "startswith({}, 'a\\\\')",
    "contains({}, '%')",
    "endswith({}, '\\u00e9')",
    "{} IN ('', 'é', '😀', NULL)",
    "{} NOT IN ('', 'é', '😀')",
    "{} <=> NULL",
]
BYTES = ["{} = X'61'", "{} > X'FF'", "{} IN (X'', X'615F62')", "NOT ({} <=> X'61')"]
DAYS = [
    "{} = DATE'2024-02-29'",
    "{} < DATE'1970-01-01'",
    "{} IN (DATE'0001-01-01', DATE'9999-12-31')",
    "{} > '2024-02-29'",
]
# In the zone of the session, unless they name another one.
INSTANTS = [
    "{} = TIMESTAMP'2024-02-29 07:30:15.123456'",
    "{} = TIMESTAMP'2024-02-29 12:30:15 UTC'",
    "{} > TIMESTAMP'1969-12-31 18:59:59.999999'",
    "{} <= TIMESTAMP'1969-12-31 18:59:59.5'",
    "{} >= TIMESTAMP'1969-12-31 18:59:59.5'",
    "{} < DATE'2024-02-29'",
    "NOT ({} <=> TIMESTAMP'2024-02-29 07:30:15.123456')",
    "{} IN (TIMESTAMP'1970-01-01 00:00:00 UTC', TIMESTAMP'2024-02-29 12:30:15.123456 UTC')",
]
LOCALS = [
    "{} = TIMESTAMP_NTZ'2024-02-29 12:30:15.123456'",
    "{} != TIMESTAMP_NTZ'2024-02-29 12:30:15'",
    "{} > TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'",
    "{} < TIMESTAMP_NTZ'1969-12-31 23:59:59.5'",
    "{} NOT IN (TIMESTAMP_NTZ'1970-01-01 00:00:00', TIMESTAMP_NTZ'2024-02-29 12:30:15')",
]
DECIMALS = ["{} = 1.5", "{} > -1.5", "{} IN (0, 1.5)", "{} <= 999.99", "{} > 1.234"]
FLAGS = ["{}", "NOT {}", "{} = true", "{} <=> false", "{} IS NULL"]
CONDITIONS = {
    **dict.fromkeys(("int8", "int64", "uint8", "uint64"), NUMBERS),
    **{name: [text.replace("{}(", "float(") for text in REALS] for name in ("float16", "float32")},
    "float64": [text.replace("{}(", "double(") for text in REALS],
    **dict.fromkeys(("decimal", "small"), DECIMALS),
    **dict.fromkeys(("string", "words"), WORDS),
    **dict.fromkeys(("binary", "fixed"), BYTES),
    "flag": FLAGS,
    **dict.fromkeys(("date", "date64"), DAYS),
    **dict.fromkeys(("tz_city", "tz_s", "tz_ns"), INSTANTS),
    **dict.fromkeys(("ts_us", "ts_s"), LOCALS),
    "uuid": ["{} = '80000000-0000-0000-0000-000000000000'", "{} > '1'", "{} IS NOT NULL"],
}
MORE = {
    "int64": ["{} = 9223372036854775807", "{} = -9223372036854775808", "{} = 3000000000"],
    "uint64": ["{} = 18446744073709551615", "{} > 9223372036854775807", "{} < 0"],
    "uint8": ["{} = 256", "{} > -1"],
    "decimal": ["{} = 123456789012345.0000000001", "{} < 1234567890123456789012345678.0123456789"],
}
# Conditions that Spark evaluates itself: patterns, values that the column cannot have, a number that PySpark rounds.
STAYING = {
    "string LIKE '%_b%'",
    "words LIKE '%_b%'",
    "NOT (fixed <=> X'61')",
    "fixed = X'61'",
    "fixed > X'FF'",
    "fixed IN (X'', X'615F62')",
    "float16 IN (float('0'), float('NaN'), float('1.1'))",
    "decimal < 1234567890123456789012345678.0123456789",
    "uint8 = 256",
    "uint8 > -1",
    "uuid > '1'",
}


def recorder() -> type[DataSource]:
    """Return a source that records the filters and reads nothing; workers cannot import this module."""

    class Recorder(DataSource):
        @classmethod
        def name(cls) -> str:
            return "filter_recorder"

        def schema(self):
            content = Path(self.options["schema"]).read_bytes()
            return types.spark_schema(pa.ipc.read_schema(pa.py_buffer(content)))

        def reader(self, schema):
            del schema
            return RecordingReader(self.options["filters"])

    class RecordingReader(DataSourceReader):
        def __init__(self, path: str) -> None:
            self.path = path

        def pushFilters(self, filters):
            Path(self.path).write_bytes(pickle.dumps(filters))
            return filters

        def read(self, partition):
            del partition
            return iter([])

    return Recorder


def test_lance_keeps_the_rows_that_spark_keeps(spark, tmp_path) -> None:
    # Each condition has its own copy of the column, whose name identifies the filter.
    table = _table()
    wanted = {name: [*texts, *MORE.get(name, [])] for name, texts in CONDITIONS.items()}
    conditions = {f"{name}_{number}": text for name, texts in wanted.items() for number, text in enumerate(texts)}
    copies = {copy: table[copy.rsplit("_", 1)[0]] for copy in conditions}
    dataset = lance.write_dataset(pa.table({"id": table["id"], **copies}), str(tmp_path / "t.lance"))
    schema = dataset.schema
    (tmp_path / "schema").write_bytes(schema.serialize())
    batch = types.to_spark(
        dataset.to_table().combine_chunks().to_batches()[0], types.read_schema(schema), truncate_nanoseconds=True
    )

    # Without inferred filters, Spark plans the many conditions faster, and no condition hides the fault of another.
    settings = {"spark.sql.session.timeZone": "America/New_York", "spark.sql.constraintPropagation.enabled": "false"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        frame = spark.createDataFrame(pa.Table.from_batches([batch]), types.spark_schema(schema))
        asked = {copy: text.format(f"`{copy}`") for copy, text in conditions.items()}
        truths = frame.select("id", *[F.expr(text).alias(copy) for copy, text in asked.items()]).collect()
        spark.dataSource.register(recorder())
        source = spark.read.format("filter_recorder").options(schema=tmp_path / "schema", filters=tmp_path / "filters")
        source.load().where(" AND ".join(f"({text})" for text in asked.values())).collect()
    finally:
        for key in settings:
            spark.conf.unset(key)
    handed = pickle.loads((tmp_path / "filters").read_bytes())

    assert len(truths) == ROWS
    handed_of = {copy: [one for one in handed if named(one) == copy] for copy in conditions}
    predicates = {copy: [translate_filter(one, schema) for one in filters] for copy, filters in handed_of.items()}
    together = {copy: " AND ".join(f"({one})" for one in made if one) for copy, made in predicates.items()}
    answers = dataset.to_table(columns={"id": "id", **{copy: text or "true" for copy, text in together.items()}})
    staying = set()
    for copy, text in asked.items():
        true = {row["id"] for row in truths if row[copy]}
        kept = {row["id"] for row in answers.select(["id", copy]).to_pylist() if row[copy]}
        assert true <= kept, (text, handed_of[copy], together[copy])
        # For a condition that Spark cannot pass, it only passes that the column is not null.
        if None in predicates[copy] or (together[copy] in {"", f"(`{copy}` IS NOT NULL)"} and "NULL" not in text):
            staying.add(conditions[copy].format(copy.rsplit("_", 1)[0]))
        else:
            assert true == kept, (text, handed_of[copy], together[copy])
    assert staying == STAYING


def named(filter_) -> str:
    return filter_.child.attribute[0] if isinstance(filter_, Not) else filter_.attribute[0]
