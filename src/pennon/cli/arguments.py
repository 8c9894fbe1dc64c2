"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from pennon.cli.completion import complete_address, complete_namespace, complete_values
from pennon.cli.failures import CommandFailure

STDIN = "-"
"""The name of stdin and stdout where a file is expected."""

TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="For example prod.events.", autocompletion=complete_address)
]
Namespace = Annotated[
    str | None,
    typer.Argument(metavar="[NAMESPACE]", help="The default is the root.", autocompletion=complete_namespace),
]
Page = Annotated[str | None, typer.Option("--page", metavar="TOKEN", help="Continue after an earlier page.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Version = Annotated[int | None, typer.Option("--version", "-v", min=1, metavar="N", help="An older version.")]
Tag = Annotated[str | None, typer.Option("--tag", metavar="NAME", help="The version with this tag.")]
Branch = Annotated[str | None, typer.Option("--branch", metavar="NAME", help="A branch of the table.")]
Where = Annotated[str | None, typer.Option("--where", "-w", metavar="SQL", help="Only rows that match this filter.")]
Columns = Annotated[
    str | None, typer.Option("--columns", "-c", metavar="A,B", help="Only these columns, in this order.")
]
Files = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Files or directories; - means stdin.", allow_dash=True)
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="parquet, csv, json or arrow. The default follows from the file names.",
        autocompletion=complete_values("parquet", "csv", "json", "arrow"),
    ),
]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help="The character between values of CSV.")]
Properties = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A property of the new object; may be repeated.")
]


def split_names(text: str) -> list[str]:
    """Return the names of an option such as `--columns A,B`."""
    return [name.strip() for name in text.split(",")]


def require_delimiter(delimiter: str | None) -> None:
    """Raise CommandFailure unless the delimiter of CSV is one character, or not set."""
    if delimiter is not None and len(delimiter) != 1:
        raise CommandFailure(f"--delimiter must be one character, got {delimiter!r}")
