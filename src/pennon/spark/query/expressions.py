"""Rewrite expressions of UPDATE, DELETE and MERGE whose subqueries read tables of the catalog.

Each such table becomes a temporary view while the statement runs. Qualified names of the target table are shortened to
its name or alias in the statement.
"""

from __future__ import annotations

import uuid
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot import TokenType

from pennon.spark.query.execute import read_rows
from pennon.spark.quoting import quote_name
from pennon.spark.tokens import tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from sqlglot import Token
    from typing_extensions import Self

    from pennon.spark.lake import Lake
    from pennon.spark.query.plan import TableRead
    from pennon.spark.query.runner import QueryRunner

_BEGIN = "/*pennon begin*/"
_END = "/*pennon end*/"
_QUERY_WORDS = {"SELECT", "WITH", "FROM", "TABLE", "VALUES"}


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
        if plan.whole is not None:
            return self._rewrite_subqueries(text)
        part = plan.text[plan.text.index(_BEGIN) + len(_BEGIN) : plan.text.rindex(_END)].strip()
        return self._insert_views(part, plan.reads)

    def rewrite_optional(self, text: str | None) -> str | None:
        """Return the rewritten expression, or None if there is no expression."""
        return None if text is None else self.rewrite(text)

    def _rewrite_subqueries(self, text: str) -> str:
        """Return an expression that is not analysed, with whole tables in each of its subqueries."""
        pieces, position = [], 0
        for start, end in _find_subqueries(tokenize(text) or []):
            plan = self._runner.plan(text[start:end], analyse=False)
            pieces += [
                text[position:start],
                self._insert_views(plan.text, plan.reads) if plan.reads else text[start:end],
            ]
            position = end
        return "".join([*pieces, text[position:]])

    def _insert_views(self, text: str, reads: Sequence[TableRead]) -> str:
        """Return a planned text with temporary views in place of the reads that occur in it."""
        views = {read.name: "" for read in reads}
        for read in reads:
            if f"{{{read.name}}}" in text:
                name = f"__pennon_{uuid.uuid4().hex}"
                read_rows(self._lake.spark, read, self._runner.scan).createOrReplaceTempView(name)
                self._views.append(name)
                views[read.name] = quote_name(name)
        return text.format(**views)


def _find_subqueries(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each query in parentheses that is not within another one."""
    depth, start = 0, None
    for token, following in pairwise(tokens):
        if start is None and token.token_type is TokenType.L_PAREN and following.text.upper() in _QUERY_WORDS:
            depth, start = 0, following.start
        elif start is not None:
            depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if start is not None and depth == 0 and following.token_type is TokenType.R_PAREN:
            yield start, token.end + 1
            start = None
