"""Rewrite expressions of UPDATE, DELETE and MERGE whose subqueries read tables of the catalog.

Each such table becomes a temporary view while the statement runs. Qualified names of the target table are shortened to
its name or alias in the statement.
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
    from pennon.spark.query.execute import QueryRunner

_BEGIN = "/*pennon begin*/"
_END = "/*pennon end*/"


class ExpressionRewriter(AbstractContextManager["ExpressionRewriter"]):
    """Rewrites expressions for Spark. `relations` is the FROM clause they refer to. Drops its views on exit."""

    def __init__(self, lake: Lake, runner: QueryRunner, relations: str) -> None:
        self._lake = lake
        self._runner = runner
        self._relations = relations
        self._views: list[str] = []

    def __enter__(self) -> Self:
        """Return the rewriter."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop the temporary views."""
        for view in self._views:
            self._lake.spark.catalog.dropTempView(view)

    def rewrite(self, text: str) -> str:
        """Return an expression that Spark can evaluate."""
        # Planning changes only names, so the text between the two comments is still the expression.
        query = f"SELECT {_BEGIN} {text}\n{_END} FROM {self._relations}"  # noqa: S608 - the user wrote the expression
        plan = self._runner.plan(query)
        if not plan.reads:
            return text
        part = plan.text[plan.text.index(_BEGIN) + len(_BEGIN) : plan.text.rindex(_END)].strip()
        views = {read.name: "" for read in plan.reads}
        for read in plan.reads:
            if f"{{{read.name}}}" in part:
                views[read.name] = self._create_view(self._runner.read_table(read))
        return part.format(**views)

    def rewrite_optional(self, text: str | None) -> str | None:
        """Return the rewritten expression, or None if there is no expression."""
        return None if text is None else self.rewrite(text)

    def _create_view(self, frame: object) -> str:
        name = f"__pennon_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)  # type: ignore[attr-defined]  # a DataFrame, whose module is slow to import
        self._views.append(name)
        return quote_name(name)
