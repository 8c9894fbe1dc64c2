"""The command `create-namespace`."""

from typing import Annotated

import typer

from pennon.cli.arguments import DryRun, Properties, Yes
from pennon.cli.commands import command, new_app
from pennon.cli.completion import complete_namespace
from pennon.cli.consent import require_consent
from pennon.cli.output import Note
from pennon.cli.session import Session
from pennon.cli.settings import parse_pairs

app = new_app()


@command(
    app,
    "create-namespace",
    examples=["pennon create-namespace prod", "pennon create-namespace prod.raw --parents --set owner=shop"],
)
def create_namespace(
    session: Session,
    namespace: Annotated[
        str, typer.Argument(metavar="NAMESPACE", help="For example prod.raw.", autocompletion=complete_namespace)
    ],
    *,
    mode: Annotated[
        str, typer.Option(help="If it exists: create fails, exist_ok keeps it, overwrite drops its contents.")
    ] = "create",
    parents: Annotated[bool, typer.Option("--parents", help="Also create missing parent namespaces.")] = False,
    properties: Properties = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Create a namespace."""
    given = parse_pairs(properties or (), "--set")
    with session.catalog(creates=True) as catalog:
        from pennon import addresses, modes
        from pennon.cli.table_access import namespace_exists, translate_failures
        from pennon.directory import namespaces
        from pennon.errors import (
            InvalidInputError,
            NamespaceAlreadyExistsError,
            NamespaceNotFoundError,
        )

        with translate_failures("create-namespace", namespace):
            identifier = addresses.parse_namespace(namespace)
            if not identifier:
                raise InvalidInputError("The root namespace always exists: name a namespace below it")
            wanted = modes.parse_mode(mode, modes.CreateMode.CREATE)
            catalog.require_manifest("create-namespace")
            there = namespace_exists(catalog, identifier)
            if there and wanted is modes.CreateMode.CREATE:
                raise NamespaceAlreadyExistsError(f"Namespace already exists: '{addresses.format_address(identifier)}'")
            missing = [identifier[:level] for level in range(1, len(identifier))]
            missing = [above for above in missing if not namespace_exists(catalog, above)]
            if missing and not parents:
                raise NamespaceNotFoundError(
                    f"Namespace not found: '{addresses.format_address(missing[0])}'; use --parents to create it"
                )
            if not dry_run:
                if there and wanted is modes.CreateMode.OVERWRITE:
                    shown = addresses.format_address(identifier)
                    require_consent(f"Drop namespace '{shown}' with all its contents, and create it again?", yes=yes)
                for above in missing:
                    namespaces.create(catalog, above, modes.CreateMode.EXIST_OK, None)
                namespaces.create(catalog, identifier, wanted, given)
    made = not there or wanted is modes.CreateMode.OVERWRITE
    word = "would be created" if dry_run else "created"
    text = f"namespace {addresses.format_address(identifier)} {word if made else 'already exists'}"
    session.output.show({"id": list(identifier), "created": made, "dry_run": dry_run}, lambda: [Note(text)])
