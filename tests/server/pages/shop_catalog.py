"""A catalog of a shop, for pictures of the catalog pages: tables of many kinds, with a history, runs and a trash."""

from __future__ import annotations

import math
import random
import struct
import zlib
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.pipeline_runs.report import (
    CHECKS_FAILED,
    PUBLISHED,
    CheckReport,
    RunReport,
    SourceReport,
    StepReport,
    TargetReport,
)
from pennon.pipeline_runs.run_state import RunState

if TYPE_CHECKING:
    from pennon import DirectoryNamespace

SEED = 7
FIRST_DAY = datetime(2026, 2, 1, tzinfo=timezone.utc)
PRODUCTS = (
    ("Enamel mug", "kitchen"),
    ("Walnut board", "kitchen"),
    ("Linen towel", "kitchen"),
    ("Desk lamp", "office"),
    ("Notebook A5", "office"),
    ("Fountain pen", "office"),
    ("Trail bottle", "outdoor"),
    ("Wool blanket", "outdoor"),
)
COUNTRIES = ("DE", "FR", "IT", "NL", "SE", "ES")
NAMESPACES = {
    ("sales",): {"owner": "shop-team", "description": "What customers order, pay and send back"},
    ("sales", "eu"): {"owner": "shop-team"},
    ("sales", "us"): {"owner": "shop-team"},
    ("catalog",): {"owner": "product-team"},
    ("ml",): {"owner": "search-team"},
    ("ml", "features"): {},
    ("finance",): {"owner": "finance", "retention": "10 years"},
    ("web",): {"owner": "web-team"},
}
DIMENSIONS = 64


def fill_shop(catalog: DirectoryNamespace) -> None:
    """Create the namespaces, tables, runs and dropped tables of the shop."""
    for place, properties in NAMESPACES.items():
        catalog.create_namespace({"id": list(place), "properties": properties})
    rng = random.Random(SEED)
    _create_orders(catalog, rng)
    _create_products(catalog, rng)
    _create_small_tables(catalog, rng)
    record_shop_runs(catalog)
    for names, ttl in ((["sales", "orders_test"], "7d"), (["web", "clicks_2024"], "30d"), (["ml", "trial"], "36h")):
        _create(catalog, names, pa.table({"id": list(range(500))}))
        catalog.drop_table({"id": names, "context": {"ttl": ttl}})


def _create_orders(catalog: DirectoryNamespace, rng: random.Random) -> None:
    """Create a table with some versions, a tag, a branch and indexes."""
    names = ["sales", "orders"]
    properties = {"owner": "shop-team", "description": "One row for each order", "contains": "personal data"}
    _create(catalog, names, make_orders(rng, 0, 1800), properties)
    table = catalog.open_dataset(names)
    table.insert(make_orders(rng, 1800, 420))
    catalog.create_table_tag({"id": names, "tag": "quarter-1", "version": int(table.version)})
    table.delete("status = 'cancelled'")
    table.update({"status": "'sent'"}, where="order_id < 40 AND status = 'paid'")
    table.insert(make_orders(rng, 2220, 380))
    table.add_columns({"net": "amount / 1.19"})
    table.update({"note": "'Second attempt, gift wrap'"}, where="order_id IN (2301, 2304)")
    catalog.create_table_branch({"id": names, "name": "new-vat-rates", "from_version": 2})
    for column, kind in (("order_id", "BTREE"), ("status", "BITMAP")):
        catalog.create_table_scalar_index({"id": names, "column": column, "index_type": kind})
    catalog.set_table_protection(names, True)


def make_orders(rng: random.Random, start: int, count: int) -> pa.Table:
    """Return orders with consecutive numbers."""
    numbers = range(start, start + count)
    stock = [rng.choice(PRODUCTS)[0] for _ in numbers]
    rows = {
        "order_id": list(numbers),
        "ordered_at": [FIRST_DAY + timedelta(minutes=17 * number, seconds=number % 60) for number in numbers],
        "customer": [f"C-{rng.randrange(400):04}" for _ in numbers],
        "country": [rng.choice(COUNTRIES) for _ in numbers],
        "product": stock,
        "quantity": [rng.choice((1, 1, 1, 2, 2, 3, 6)) for _ in numbers],
        "amount": [round(rng.lognormvariate(3.4, 0.6), 2) for _ in numbers],
        "status": [rng.choices(("sent", "paid", "cancelled"), (80, 15, 5))[0] for _ in numbers],
        "note": ["Please ring twice" if rng.random() < 0.04 else None for _ in numbers],
    }
    schema = pa.schema(
        [
            pa.field("order_id", pa.int64(), nullable=False),
            pa.field("ordered_at", pa.timestamp("s", tz="UTC")),
            pa.field("customer", pa.string()),
            pa.field("country", pa.string()),
            pa.field("product", pa.string()),
            pa.field("quantity", pa.int32()),
            pa.field("amount", pa.float64()),
            pa.field("status", pa.string()),
            pa.field("note", pa.string()),
        ]
    )
    return pa.table(rows, schema=schema)


def _create_products(catalog: DirectoryNamespace, rng: random.Random) -> None:
    """Create a table with pictures, sounds and vectors."""
    numbers = range(len(PRODUCTS))
    schema = pa.schema(
        [
            pa.field("sku", pa.string(), nullable=False),
            pa.field("name", pa.string()),
            pa.field("category", pa.string()),
            pa.field("price", pa.decimal128(8, 2)),
            pa.field("embedding", pa.list_(pa.float32(), DIMENSIONS)),
            pa.field("photo", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
            pa.field("spoken_name", pa.binary()),
            pa.field("tags", pa.list_(pa.string())),
        ]
    )
    rows = {
        "sku": [f"P-{1000 + 37 * number}" for number in numbers],
        "name": [name for name, _ in PRODUCTS],
        "category": [category for _, category in PRODUCTS],
        "price": pa.array([f"{12 + 7.5 * number:.2f}" for number in numbers]).cast(pa.decimal128(8, 2)),
        "photo": [None if number == 5 else draw_picture(number) for number in numbers],
        "spoken_name": [None if number == 2 else make_tone(330 + 40 * number) for number in numbers],
        "embedding": [make_embedding(rng, number) for number in numbers],
        "tags": [["new"] if number % 3 == 0 else ["sale", "gift"] if number % 3 == 1 else [] for number in numbers],
    }
    names = ["ml", "product_images"]
    _create(catalog, names, pa.table(rows, schema=schema), {"owner": "search-team", "model": "clip-vit-b32"})
    catalog.create_table_tag({"id": names, "tag": "launch", "version": 1})


def make_embedding(rng: random.Random, number: int) -> list[float]:
    """Return a vector that looks like no other."""
    phases = [rng.uniform(0, math.tau) for _ in range(3)]
    return [
        sum(math.sin(place / (3 + 2 * turn) + phase + number) for turn, phase in enumerate(phases)) / 3
        + rng.gauss(0, 0.08)
        for place in range(DIMENSIONS)
    ]


def draw_picture(number: int, width: int = 96, height: int = 72) -> bytes:
    """Return a PNG: a disc before two tones."""
    tones = ((233, 185, 110), (122, 162, 190), (190, 140, 160), (140, 175, 130))
    back, front = tones[number % 4], tones[(number + 2) % 4]
    middle, radius = (width * (0.35 + 0.04 * number), height * 0.5), height * 0.3

    def colour(x: int, y: int) -> bytes:
        if math.hypot(x - middle[0], y - middle[1]) < radius:
            return bytes(front)
        return bytes(one - (36 if y > height * 0.68 else y // 4) for one in back)

    lines = (b"\0" + b"".join(colour(x, y) for x in range(width)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(b"".join(lines))), (b"IEND", b""))
    parts = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def make_tone(hertz: int, rate: int = 8000, seconds: float = 0.4) -> bytes:
    """Return a WAV with one tone."""
    body = bytes(int(127 + 100 * math.sin(math.tau * hertz * place / rate)) for place in range(int(rate * seconds)))
    form = struct.pack("<IHHIIHH", 16, 1, 1, rate, rate, 1, 8)
    return (
        b"RIFF" + struct.pack("<I", 36 + len(body)) + b"WAVEfmt " + form + b"data" + struct.pack("<I", len(body)) + body
    )


def _create_small_tables(catalog: DirectoryNamespace, rng: random.Random) -> None:
    customers = pa.table(
        {
            "customer": [f"C-{number:04}" for number in range(400)],
            "since": [FIRST_DAY.date() - timedelta(days=rng.randrange(2000)) for _ in range(400)],
            "newsletter": [rng.random() < 0.4 for _ in range(400)],
        }
    )
    _create(catalog, ["sales", "customers"], customers, {"contains": "personal data"})
    returns = pa.table({"order_id": [17, 230, 411], "reason": ["too small", "broken", None]})
    _create(catalog, ["sales", "returns"], returns)
    revenue = pa.table(
        {
            "day": [FIRST_DAY.date() + timedelta(days=number) for number in range(31)],
            "revenue": [round(900 + 500 * rng.random(), 2) for _ in range(31)],
        }
    )
    _create(catalog, ["finance", "revenue"], revenue)
    for place in ("eu", "us"):
        _create(catalog, ["sales", place, "daily"], revenue)
    stock = pa.table(
        {"sku": [f"P-{1000 + 37 * number}" for number in range(8)], "pieces": [rng.randrange(90) for _ in range(8)]}
    )
    _create(catalog, ["catalog", "stock"], stock)
    # Written in small steps: it needs compaction.
    clicks = ["web", "clicks"]
    _create(catalog, clicks, _make_clicks(rng, 0, 60))
    table = catalog.open_dataset(clicks)
    for step in range(1, 24):
        table.insert(_make_clicks(rng, step * 60, 60))
    table.delete("visitor < 60")
    catalog.declare_table({"id": ["ml", "features", "click_rates"]})


def _make_clicks(rng: random.Random, start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "at": [FIRST_DAY + timedelta(seconds=number * 11) for number in numbers],
            "visitor": [rng.randrange(200) for _ in numbers],
            "path": [f"/{rng.choice(PRODUCTS)[1]}/{rng.randrange(40)}" for _ in numbers],
        }
    )


def record_shop_runs(catalog: DirectoryNamespace) -> None:
    """Record runs of three pipelines, one of them with a failed check."""
    store = catalog.catalog.store
    for day in range(1, 6):
        report = _make_nightly(f"2026-03-0{day}", passed=day != 5)
        state = RunState(store, "nightly-sales", report.run_id)
        state.begin("f", {})
        (state.finish if day != 5 else state.forget)(report.document())
    weekly = RunState(store, "weekly-report", "2026-w09")
    weekly.begin("f", {})
    weekly.finish(_make_weekly().document())
    images = RunState(store, "product-images", "2026-03-04")
    images.begin("f", {})
    images.record("step.photos", {"rows": 8})
    images.note_error("TableNotFoundError", "Table 'ml.raw_images' was not found")


def _make_nightly(run: str, *, passed: bool) -> RunReport:
    failing = (
        {"order_id": 2301, "amount": -12.5, "status": "paid"},
        {"order_id": 2304, "amount": None, "status": "paid"},
        {"order_id": 2377, "amount": -4.0, "status": "sent"},
    )
    checks = (
        CheckReport("finance.revenue", "not_null(day)", "error", passed=True, failing=0, seconds=0.08),
        CheckReport("finance.revenue", "unique(day)", "error", passed=True, failing=0, seconds=0.21),
        CheckReport(
            "sales.eu.daily",
            "amount >= 0",
            "error",
            passed=passed,
            failing=0 if passed else len(failing),
            message="" if passed else "3 rows do not meet the condition",
            seconds=0.35,
            samples=() if passed else failing,
        ),
        CheckReport(
            "sales.us.daily",
            "row_count > 100",
            "warning",
            passed=False,
            failing=None,
            message="31 rows, expected more than 100",
            seconds=0.05,
        ),
    )
    return RunReport(
        "nightly-sales",
        run,
        PUBLISHED if passed else CHECKS_FAILED,
        "atomic",
        f"{run}T02:00:04+00:00",
        14.6 if passed else 9.2,
        resumed=False,
        sources=(
            SourceReport("orders", "table", 6, "sales.orders"),
            SourceReport("customers", "table", 1, "sales.customers"),
            SourceReport("rates", "csv"),
        ),
        steps=(
            StepReport(
                "valid_orders", staged=True, rows=2471, bytes=96_300, seconds=4.1, reads=("orders", "customers")
            ),
            StepReport("in_euro", staged=True, rows=2471, bytes=104_800, seconds=2.6, reads=("valid_orders", "rates")),
            StepReport("by_day", staged=False, within=("finance.revenue",), reads=("in_euro",)),
        ),
        targets=(
            TargetReport("finance.revenue", "merge", 31, 2_140, 1.9, 1, 2 if passed else None, source="by_day"),
            TargetReport("sales.eu.daily", "append", 31, 2_140, 1.2, 1, 2 if passed else None, source="in_euro"),
            TargetReport("sales.us.daily", "append", 31, 2_140, 1.1, 1, 2 if passed else None, source="in_euro"),
        ),
        checks=checks,
    )


def _make_weekly() -> RunReport:
    return RunReport(
        "weekly-report",
        "2026-w09",
        PUBLISHED,
        "atomic",
        "2026-03-02T06:00:00+00:00",
        5.4,
        resumed=False,
        sources=(SourceReport("revenue", "table", 1, "finance.revenue"),),
        steps=(),
        targets=(TargetReport("finance.weekly", "overwrite", 9, 1_020, 2.2, None, 1, source="revenue"),),
        checks=(),
    )


def _create(
    catalog: DirectoryNamespace, names: list[str], rows: pa.Table, properties: dict[str, str] | None = None
) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    catalog.create_table({"id": names, "properties": properties}, bytes(sink.getvalue()))
