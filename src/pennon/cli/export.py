"""The command `export`."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from pennon.cli.arguments import (
    STDIN,
    Branch,
    Columns,
    Delimiter,
    Format,
    TableArgument,
    Tag,
    Version,
    Where,
    require_delimiter,
    split_names,
)
from pennon.cli.commands import command, new_app
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.output import Note
from pennon.cli.session import Session
from pennon.cli.values import format_size

app = new_app()


@command(
    app,
    "export",
    examples=[
        "pennon export prod.events events.parquet",
        "pennon export prod.events events.csv.gz --where 'amount > 10' --columns id,amount",
        "pennon export prod.events - --format json | head -3",
    ],
)
def export(
    session: Session,
    table: TableArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; - means stdout.", allow_dash=True)],
    *,
    format_: Format = None,
    delimiter: Delimiter = None,
    columns: Columns = None,
    where: Where = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=0, help="At most so many rows.")] = None,
    version: Version = None,
    tag: Tag = None,
    branch: Branch = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Write the rows of a table to a Parquet, CSV, JSON or Arrow file.

    Rows are written as they are read. The file appears when it is complete. JSON is one object per line. The endings
    .gz, .bz2 and .zst compress CSV and JSON.
    """
    require_delimiter(delimiter)
    with session.lake() as lake:
        from pennon.cli import row_files
        from pennon.cli.table_access import translate_failures
        from pennon.progress import show_progress

        to_stdout = str(file) == STDIN
        chosen = row_files.choose_format(file, format_)
        if to_stdout and chosen in row_files.BINARY and sys.stdout.isatty():
            raise CommandFailure(f"{chosen} is not for a terminal: name a file, or redirect the output")
        if not to_stdout and not force and os.path.lexists(file):
            raise CommandFailure(f"The file {str(file)!r} exists: --force replaces it", ExitCode.CONFLICT)
        with translate_failures("export", table):
            opened = lake[table].at(version, tag=tag, branch=branch)
            found = opened.search()
            found = found if columns is None else found.select(split_names(columns))
            found = found if where is None else found.where(where)
            found = found if limit is None else found.limit(limit)
            with found.to_batches() as batches, show_progress("exporting (rows)", None) as advance:
                if to_stdout:
                    row_files.write_rows(sys.stdout.buffer, batches, chosen, delimiter, advance)
                    return
                with row_files.open_new_file(file, force=force) as sink:
                    rows = row_files.write_rows(sink, batches, chosen, delimiter, advance)
    size = file.stat().st_size
    document = {"id": list(opened.identifier), "file": str(file), "format": chosen, "rows": rows, "bytes": size}
    session.output.show(document, lambda: [Note(f"{rows:,} rows written to {file} ({format_size(size)})")])
