"""Catalogs for jobs: in each mode, with and without managed versions."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from pennon.spark.address import Address
from tests.spark.jobs.stock import Stock
from tests.support import MODES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLACES = {
    "v1": ("v1", False),
    "v2": ("v2", False),
    "compatibility": ("compatibility", False),
    "managed": ("compatibility", True),
    "v2-managed": ("v2", True),
}
LONG_AGO = 30 * 24 * 3600


@pytest.fixture
def new_stock(tmp_path) -> Callable[..., Stock]:
    """Return a function that creates catalogs, each in its own root."""
    made = []

    def new(place: str = "compatibility", **properties: str) -> Stock:
        mode, is_managed = PLACES[place]
        where = tmp_path / f"root-{len(made)}"
        address = Address.of("dir", {"root": str(where), **MODES[mode], **properties})
        stock = Stock(address, where)
        made.append(stock)
        if is_managed:
            stock.catalog.enable_table_version_management()
        return stock

    return new


@pytest.fixture
def stock(new_stock) -> Stock:
    """Create a catalog in compatibility mode."""
    return new_stock()


@pytest.fixture
def age() -> Callable[[Path], None]:
    """Return a function that makes files look 30 days old."""

    def aged(*paths: Path) -> None:
        then = time.time() - LONG_AGO
        for path in paths:
            os.utime(path, (then, then))

    return aged
