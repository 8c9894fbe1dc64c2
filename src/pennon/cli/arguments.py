"""Arguments and options that several commands share."""

from typing import Annotated

import typer

from pennon.cli.completion import complete_address, complete_namespace

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
Properties = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A property of the new object; may be repeated.")
]
