"""Tables and helpers for tests that plan queries without Spark."""

from __future__ import annotations

import pyarrow as pa

from pennon.spark.query.plan import plan_query
from pennon.spark.query.references import QueryTable
from pennon.spark.query.settings import SessionSettings

EVENTS = pa.schema(
    {
        "id": pa.int64(),
        "cid": pa.int32(),
        "amount": pa.float64(),
        "name": pa.string(),
        "ts": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "day": pa.date32(),
        "price": pa.decimal128(10, 2),
        "flag": pa.bool_(),
        "raw": pa.binary(),
        "info": pa.struct({"a": pa.int32(), "b": pa.string()}),
        "tags": pa.list_(pa.string()),
    }
)
CUSTOMERS = pa.schema({"id": pa.int64(), "name": pa.string(), "city": pa.string(), "since": pa.date32()})
ODD = pa.schema({"a b": pa.int32(), "a.b": pa.int32(), "Case": pa.int32(), "from": pa.int32()})
TABLES = {
    ("prod", "events"): EVENTS,
    ("prod", "customers"): CUSTOMERS,
    ("other", "events"): EVENTS,
    ("odd.ns", "t"): ODD,
    ("t",): pa.schema({"a": pa.int32(), "b": pa.string(), "c": pa.int64(), "d": pa.list_(pa.float32(), 8)}),
    ("twins",): pa.schema({"same": pa.int32(), "Same": pa.int32()}),
    ("u",): pa.schema({"a": pa.int32(), "e": pa.string()}),
}


def find(parts, travel):
    """Return the table with this name. The name of the lake may precede it."""
    del travel
    identifier = parts[1:] if parts[0] == "lake" and len(parts) > 1 else parts
    return QueryTable(identifier, TABLES[identifier], lake="lake") if identifier in TABLES else None


def plan_text(text, *, zone="UTC"):
    """Return the plan of a query over the tables above."""
    return plan_query(text, find, SessionSettings(zone))


def find_columns(text):
    """Return the columns of each read, in the order of the text. None means all columns."""
    return [read.columns for read in plan_text(text).reads]


def find_predicates(text, *, zone="UTC"):
    """Return the predicate of each read, in the order of the text."""
    return [read.where for read in plan_text(text, zone=zone).reads]
