"""The cases of each operation, in order, on a catalog that has one table `t` of 300 rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import catalog_cases
import table_cases

if TYPE_CHECKING:
    from operation_calls import Case

CASES: dict[str, list[Case]] = catalog_cases.CASES | table_cases.CASES
"""By operation. A case labelled `second` only prepares the next one, and is not shown."""
