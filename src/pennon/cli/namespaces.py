"""The commands `create-namespace` and `protect`."""

from typing import Annotated

import typer

from pennon.cli.arguments import DryRun, Properties, Yes
from pennon.cli.commands import command, new_app
from pennon.cli.completion import complete_address, complete_namespace, complete_values
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
        str,
        typer.Option(
            help="If it exists: create fails, exist_ok keeps it, overwrite drops its contents.",
            autocompletion=complete_values("create", "exist_ok", "overwrite"),
        ),
    ] = "create",
    parents: Annotated[bool, typer.Option("--parents", help="Also create missing parent namespaces.")] = False,
    properties: Properties = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Create a namespace."""
    given = parse_pairs(properties or (), "--set")
    with session.lake(creates=True) as lake:
        import lance_namespace as sdk

        from pennon import addresses, modes
        from pennon.cli.session import find_directory
        from pennon.cli.table_access import translate_failures
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
            catalog = find_directory(lake)
            if catalog is not None:
                catalog.require_manifest("create-namespace")
            there = lake.has_namespace(identifier)
            if there and wanted is modes.CreateMode.CREATE:
                raise NamespaceAlreadyExistsError(f"Namespace already exists: '{addresses.format_address(identifier)}'")
            missing = [identifier[:level] for level in range(1, len(identifier))]
            missing = [above for above in missing if not lake.has_namespace(above)]
            if missing and not parents:
                raise NamespaceNotFoundError(
                    f"Namespace not found: '{addresses.format_address(missing[0])}'; use --parents to create it"
                )
            if not dry_run:
                if there and wanted is modes.CreateMode.OVERWRITE:
                    shown = addresses.format_address(identifier)
                    require_consent(f"Drop namespace '{shown}' with all its contents, and create it again?", yes=yes)
                for above in missing:
                    lake.create_namespace(above, exist_ok=True)
                lake.namespace.create_namespace(
                    sdk.CreateNamespaceRequest(id=list(identifier), mode=mode, properties=given or None)
                )
    made = not there or wanted is modes.CreateMode.OVERWRITE
    word = "would be created" if dry_run else "created"
    text = f"namespace {addresses.format_address(identifier)} {word if made else 'already exists'}"
    session.output.show({"id": list(identifier), "created": made, "dry_run": dry_run}, lambda: [Note(text)])


@command(
    app,
    "protect",
    examples=["pennon protect prod.events", "pennon protect prod --namespace", "pennon protect prod.events --off"],
)
def protect(
    session: Session,
    address: Annotated[
        str, typer.Argument(metavar="TABLE|NAMESPACE", help="For example prod.events.", autocompletion=complete_address)
    ],
    *,
    namespace: Annotated[bool, typer.Option("--namespace", help="The address is that of a namespace.")] = False,
    off: Annotated[bool, typer.Option("--off", help="End the protection.")] = False,
) -> None:
    """Protect a table or a namespace from being dropped and purged, or end that."""
    with session.lake() as lake:
        from pennon import addresses
        from pennon.cli.table_access import translate_failures

        with translate_failures("protect", address):
            if namespace:
                identifier = addresses.parse_namespace(address)
                lake.protect_namespace(identifier, on=not off)
            else:
                identifier = lake.table(address).identifier
                lake.protect(identifier, on=not off)
    kind = "namespace" if namespace else "table"
    text = f"{kind} {addresses.format_address(identifier)} is {'not protected any more' if off else 'protected'}"
    session.output.show({"type": kind, "id": list(identifier), "protected": not off}, lambda: [Note(text)])
