"""Finding mistakes of a pipeline without Spark: missing files, unknown types, and columns that cannot exist.

Only what is certain is reported. Spark analyzes every query later (see `preflight`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from pennon.errors import InvalidInputError, LanceNamespaceError, TableNotFoundError
from pennon.identifiers import parse_table_name
from pennon.spark.pipeline.sources import find_missing_path, is_file_format, is_local_file
from pennon.spark.pipeline.statements import is_this, list_references, parse_query
from pennon.spark.types.column_text import read_columns
from pennon.yaml_documents.problems import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from pennon.spark.pipeline.graph import Graph
    from pennon.spark.pipeline.model import Source
    from pennon.spark.pipeline.pinned_reads import PinnedReads
    from pennon.spark.pipeline.statements import QueryReference
    from pennon.spark.pipeline.targets import TargetTable
    from pennon.yaml_documents.problems import Path

    Names = frozenset[str]

_WITH_NAMESPACE = 3
_PLAIN = re.compile(r"[A-Za-z]\w*", re.ASCII)
# Functions without parentheses, and columns that Spark adds. A name that begins with `_` may be such a column, too.
_BARE = frozenset(
    {
        "current_catalog",
        "current_database",
        "current_date",
        "current_schema",
        "current_time",
        "current_timestamp",
        "current_user",
        "grouping__id",
        "localtimestamp",
        "session_user",
        "session_window",
        "user",
        "window",
    }
)
# What makes columns whose names are not identifiers of the query.
_GENERATORS = (exp.UDTF, exp.Pivot, exp.QueryTransform, exp.Explode, exp.Posexplode, exp.Inline, exp.Stack)
_GENERATING = re.compile(r"explode|inline|stack|tuple|variant", re.IGNORECASE)


def check_statically(
    graph: Graph,
    reads: PinnedReads,
    targets: Sequence[TargetTable],
    settings: Mapping[str, str],
    report: Callable[[Path, LanceNamespaceError], None],
) -> None:
    """Report what is wrong with sources, queries, merge keys and the columns of checks. `settings` are Spark's."""
    _StaticCheck(graph, reads, targets, settings, report).run()


@dataclass
class _StaticCheck:
    graph: Graph
    reads: PinnedReads
    targets: Sequence[TargetTable]
    settings: Mapping[str, str]
    report: Callable[[Path, LanceNamespaceError], None]
    known: dict[str, Names | None] = field(default_factory=dict)
    """The names that a source or step may have as columns, in lower case; None if only Spark knows them."""

    def run(self) -> None:
        definition, used = self.graph.definition, self.graph.used_names()
        for name, source in definition.sources.items():
            if name in used:
                self.known[name] = self._check_source(name, source)
        for name, step in definition.steps.items():
            if name in used:
                self.known[name] = self._check_query(("steps", name, "sql"), step.sql, frozenset())
        after = self._check_targets()
        for group in definition.check_groups():
            names = after[group.target] if group.target is not None else self.known.get(group.step or "")
            for number, check in enumerate(group.checks):
                path: Path = (*group.path, number)
                if check.sql is not None:
                    self._check_query((*path, "sql"), check.sql, names)
                elif names is not None:
                    self._check_names((*path, check.kind), [_first_name(one) for one in check.columns], names)

    def _check_targets(self) -> list[Names | None]:
        """Check merge keys, and return the names that the columns of each target may have after the run."""
        definition = self.graph.definition
        after: list[Names | None] = []
        for number, (target, table) in enumerate(zip(definition.targets, self.targets, strict=True)):
            written = self.known.get(target.from_)
            if written is not None:
                self._check_names(("targets", number, "on"), target.on, written)
            there = frozenset() if table.schema is None else _names_of_fields(table.schema)
            after.append(None if written is None else written | there)
        return after

    def _check_source(self, name: str, source: Source) -> Names | None:
        if source.format is None:
            pinned = self.reads.sources.get(name)
            return None if pinned is None else _names_of_fields(pinned.open().schema)
        missing = find_missing_path(source.format, source.path or (), self.settings)
        if missing is not None:
            self.report(("sources", name, "path"), TableNotFoundError(f"There is nothing at {missing!r}"))
        declared = None if source.schema_ is None else read_columns(source.schema_)
        if declared is None:
            return None
        for word in declared.unknown_types:
            self.report(("sources", name, "schema"), InvalidInputError(f"Spark has no type {word!r}"))
        # Directories may add columns by their names, such as `day=1`.
        is_closed = is_file_format(source.format) and all(map(is_local_file, source.path or ()))
        return frozenset(one.lower() for one in declared.names) if is_closed and source.path else None

    def _check_query(self, path: Path, sql: str, this: Names | None) -> Names | None:
        """Report columns that no table of a query can have, and return the names that its result may have."""
        inputs = [self._find_names(one, this) for one in list_references(sql)]
        query = parse_query(sql)
        if "|>" in sql or any(one is None for one in inputs) or not _is_closed(query):
            return None
        columns: Names = frozenset().union(*(one for one in inputs if one is not None))
        uses = QueryNames.of(query, columns)
        for name in uses.missing():
            self._report_column(path, name, columns)
        return columns | (uses.introduced - uses.relations)

    def _find_names(self, reference: QueryReference, this: Names | None) -> Names | None:
        local = self.graph.find_local(reference.name)
        if local is not None:
            return self.known.get(local)
        if is_this(reference.name):
            return this
        found = self.reads.names.get(reference.name)
        pinned = None if found is None else self.reads.tables.get((found, reference.travel))
        # A check may read the table as it will be.
        written = {parse_table_name(one.table) for one in self.graph.definition.targets}
        return None if pinned is None or found in written else _names_of_fields(pinned.open().schema)

    def _check_names(self, path: Path, names: Iterable[str], known: Names) -> None:
        for name in names:
            if _PLAIN.fullmatch(name) and name.lower() not in known:
                self._report_column(path, name, known)

    def _report_column(self, path: Path, name: str, known: Names) -> None:
        self.report(path, InvalidInputError(f"There is no column {name!r}{suggest(name, sorted(known))}"))


@dataclass(frozen=True)
class QueryNames:
    """The identifiers of a query, in lower case: those that it introduces, and those by which it names columns."""

    introduced: frozenset[str]
    """Aliases of tables and columns, parameters of functions, and parts of names after the first."""
    used: tuple[tuple[str, ...], ...]
    """The parts of each column's name."""
    relations: frozenset[str]
    """Names and aliases of tables that are no names of columns."""
    columns: frozenset[str]

    @classmethod
    def of(cls, query: exp.Expression, columns: frozenset[str]) -> QueryNames:
        """Return the identifiers of a query over tables with these columns."""
        aliases = {one.name.lower() for one in query.find_all(exp.TableAlias)} - {""}
        tables = {one.name.lower() for one in query.find_all(exp.Table)} | aliases
        others = {one.alias.lower() for one in query.find_all(exp.Alias)} | columns
        relations = frozenset(tables - others)
        used: list[tuple[str, ...]] = []
        nested: set[str] = set()
        inside: set[int] = set()
        for column in query.find_all(exp.Column):
            parts = tuple(part.name.lower() for part in column.parts if isinstance(part, exp.Identifier))
            inside.update(map(id, column.parts))
            used.append(parts)
            # In `t.id`, the second part is a column of a table; in `a.b`, a field, which may be a column elsewhere.
            nested.update(parts[2:] if parts[:1] and parts[0] in relations else parts[1:])
        free = {one.name.lower() for one in query.find_all(exp.Identifier) if id(one) not in inside}
        return cls(frozenset(free | nested), tuple(used), relations, columns)

    def missing(self) -> Iterator[str]:
        """Yield the columns that no table of the query can have."""
        there = self.introduced | self.columns | _BARE
        for parts in dict.fromkeys(self.used):
            first, second = (*parts, "", "")[:2]
            name = second if first in self.relations and len(parts) < _WITH_NAMESPACE else first
            if name not in there and _PLAIN.fullmatch(name):
                yield name


def _is_closed(query: exp.Expression) -> bool:
    """Return True if every column of a query has a name that the query, or a table, shows."""
    if next(query.find_all(*_GENERATORS), None) is not None:
        return False
    if any(_GENERATING.search(one.name) for one in query.find_all(exp.Anonymous)):
        return False
    tables = {name for one in query.find_all(exp.Table) for name in (one.name, one.alias)}
    tables |= {one.name for one in query.find_all(exp.TableAlias)}
    stars = [one for one in query.find_all(exp.Column) if isinstance(one.this, exp.Star)]
    return all(isinstance(one.this, exp.Identifier) for one in query.find_all(exp.Table)) and all(
        not one.table or one.table in tables for one in stars
    )


def _names_of_fields(schema: pa.Schema) -> Names:
    """Return the names of all columns and of their fields, in lower case."""
    found: set[str] = set()
    left: list[pa.Field] = list(schema)
    while left:
        one = left.pop()
        found.add(one.name.lower())
        left += [one.type.field(number) for number in range(one.type.num_fields)]
    return frozenset(found)


def _first_name(column: str) -> str:
    return column.partition(".")[0].strip("`")
