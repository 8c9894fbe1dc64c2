"""The commands `head`, `search` and `count`."""

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pennon.cli.arguments import STDIN, Branch, Columns, TableArgument, Tag, Version, Where, split_names
from pennon.cli.commands import command, new_app
from pennon.cli.completion import complete_values
from pennon.cli.failures import CommandFailure
from pennon.cli.output import Block, Column, Note, Table
from pennon.cli.session import Session
from pennon.cli.values import format_cell, is_number, to_json_value

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon.api import LakeTable
    from pennon.identifiers import Identifier

app = new_app()


@command(app, "head", examples=["pennon head prod.events", "pennon head prod.events -n 3 -c id,name --where 'id > 10'"])
def head(
    session: Session,
    table: TableArgument,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="How many rows to show.")] = 10,
    columns: Columns = None,
    where: Where = None,
    version: Version = None,
    tag: Tag = None,
    branch: Branch = None,
) -> None:
    """Show the first rows of a table."""
    with session.lake() as lake:
        from pennon.cli.table_access import translate_failures

        with translate_failures("head", table):
            opened = lake[table].at(version, tag=tag, branch=branch)
            # Others may change the table before its rows are read.
            number = opened.version
            found = _pin(opened, number, branch, tag).search().limit(limit)
            if columns is not None:
                found = found.select(split_names(columns))
            if where is not None:
                found = found.where(where)
            rows = found.to_arrow()
    _show_rows(session, opened.identifier, number, rows, limit)


@command(app, "count", examples=["pennon count prod.events", "pennon count prod.events --where \"day = '2026-01-31'\""])
def count(
    session: Session,
    table: TableArgument,
    *,
    where: Where = None,
    version: Version = None,
    tag: Tag = None,
    branch: Branch = None,
) -> None:
    """Count the rows of a table."""
    with session.lake() as lake:
        from pennon.cli.table_access import translate_failures

        with translate_failures("count", table):
            opened = lake[table].at(version, tag=tag, branch=branch)
            number = opened.version
            rows = _pin(opened, number, branch, tag).count(where)
    document = {"id": list(opened.identifier), "version": number, "rows": rows}
    session.output.show(document, lambda: [Note(f"{rows:,}")])


@command(
    app,
    "search",
    examples=[
        "pennon search prod.texts --vector '[0.1, 0.9]' --limit 5",
        "pennon search prod.texts --like 'id = 7' --where \"lang = 'en'\"",
        "pennon search prod.texts 'red apple' --columns id,body",
    ],
)
def search(
    session: Session,
    table: TableArgument,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Words to search for. Needs a full-text index.")
    ] = None,
    *,
    vector: Annotated[
        str | None,
        typer.Option("--vector", metavar="JSON", help="A vector, such as '[0.1, 0.9]'; - reads it from stdin."),
    ] = None,
    like: Annotated[
        str | None, typer.Option("--like", metavar="SQL", help="The vector of the one row that matches this filter.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many rows to show.")] = 10,
    columns: Columns = None,
    where: Where = None,
    vector_column: Annotated[
        str | None, typer.Option("--vector-column", metavar="NAME", help="The column of vectors, if there are several.")
    ] = None,
    text_columns: Annotated[
        str | None, typer.Option("--text-columns", metavar="A,B", help="Search for the text only in these columns.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="The distance: l2, cosine, dot or hamming. The default is that of the index.",
            autocompletion=complete_values("l2", "cosine", "dot", "hamming"),
        ),
    ] = None,
    nprobes: Annotated[
        int | None, typer.Option("--nprobes", min=1, help="How many partitions of a vector index to search.")
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compare with all vectors, and not only with those that an index finds.")
    ] = False,
    version: Version = None,
    tag: Tag = None,
    branch: Branch = None,
) -> None:
    """Search a table by vectors, by texts or by both.

    The nearest rows come first, with their _distance, _score or _relevance_score.
    """
    if vector is not None and like is not None:
        raise CommandFailure("Use either --vector or --like, not both")
    if vector is None and like is None and text is None:
        raise CommandFailure("Search for what? Use TEXT, --vector or --like; to filter rows, use pennon head --where")
    query = None if vector is None else _parse_vector(vector)
    with session.lake() as lake:
        from pennon.cli.table_access import translate_failures

        with translate_failures("search", table):
            opened = lake[table].at(version, tag=tag, branch=branch)
            if like is not None:
                query = opened.find_vector(like, vector_column)
            found = opened.search(
                query,
                text=text,
                vector_column=vector_column,
                text_columns=None if text_columns is None else split_names(text_columns),
                metric=metric,
                nprobes=nprobes,
                bypass_index=exact,
            ).limit(limit)
            if columns is not None:
                found = found.select(split_names(columns))
            if where is not None:
                found = found.where(where)
            rows = found.to_arrow()
    _show_rows(session, opened.identifier, version, rows, None)


def _show_rows(
    session: Session, identifier: "Identifier", version: int | None, rows: "pa.Table", limit: int | None
) -> None:
    names = rows.column_names
    kinds = rows.schema.types
    values = [[column[index].as_py() for column in rows.columns] for index in range(rows.num_rows)]

    def view() -> Iterable[Block]:
        headings = [Column(name, right=is_number(kind)) for name, kind in zip(names, kinds, strict=True)]
        cells = [[format_cell(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in values]
        yield Table(headings, cells, empty="no rows")
        if limit and len(values) == limit:
            yield Note("there may be more rows: use --limit")

    session.output.show(
        {
            "id": list(identifier),
            "version": version,
            "columns": names,
            "rows": ({name: to_json_value(value) for name, value in zip(names, row, strict=True)} for row in values),
        },
        view,
    )


def _parse_vector(text: str) -> list[Any]:
    """Parse a vector, or several. Raises CommandFailure if it is not a list of numbers."""
    try:
        found = json.loads(sys.stdin.read() if text == STDIN else text)
    except ValueError as error:
        raise CommandFailure(f"--vector must be a JSON list of numbers, such as '[0.1, 0.9]': {error}") from error
    if not isinstance(found, list):
        raise CommandFailure("--vector must be a JSON list of numbers, such as '[0.1, 0.9]'")
    return found


def _pin(table: "LakeTable", version: int, branch: str | None, tag: str | None) -> "LakeTable":
    """Return a table at the version that it has now. A tag does not move, and may be on a branch."""
    return table if tag is not None else table.at(version, branch=branch)
