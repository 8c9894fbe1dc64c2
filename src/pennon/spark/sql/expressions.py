"""Expressions of UPDATE, DELETE and MERGE, in which subqueries may read other tables of the catalog.

Such tables become temporary views for as long as the statement runs. Names of the table itself are shortened to what it
is called in the statement.
"""

from __future__ import annotations

import uuid
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from pennon.spark.quoting import quote_name

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from pennon.spark.lake import Lake
    from pennon.spark.sql.query_runner import QueryRunner

_BEGIN = "/*pennon begins*/"
_END = "/*pennon ends*/"


class ExpressionRewriter(AbstractContextManager["ExpressionRewriter"]):
    """Makes expressions fit for Spark, where `relations` are in FROM; drops its views at the end."""

    def __init__(self, lake: Lake, runner: QueryRunner, relations: str) -> None:
        self._lake = lake
        self._runner = runner
        self._relations = relations
        self._views: list[str] = []

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop the views."""
        for view in self._views:
            self._lake.spark.catalog.dropTempView(view)

    def rewrite(self, text: str) -> str:
        """Give an expression as Spark evaluates it."""
        # Nothing but names is changed by planning: what stands between the two comments afterwards is the expression.
        query = f"SELECT {_BEGIN} {text}\n{_END} FROM {self._relations}"  # noqa: S608 - the caller's own expression
        planned = self._runner.plan(query)
        if not planned.reads:
            return text
        part = planned.text[planned.text.index(_BEGIN) + len(_BEGIN) : planned.text.rindex(_END)].strip()
        views = {read.name: "" for read in planned.reads}
        for read in planned.reads:
            if f"{{{read.name}}}" in part:
                views[read.name] = self._view(self._runner.read_table(read))
        return part.format(**views)

    def rewrite_optional(self, text: str | None) -> str | None:
        """Give an expression that may be missing."""
        return None if text is None else self.rewrite(text)

    def _view(self, frame: object) -> str:
        name = f"__pennon_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)  # type: ignore[attr-defined]  # a DataFrame, whose module is slow to import
        self._views.append(name)
        return quote_name(name)
