"""The command `properties`."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pennon.cli import secrets
from pennon.cli.commands import command, new_app
from pennon.cli.completion import complete_address
from pennon.cli.failures import CommandFailure
from pennon.cli.output import Block, Column, Note, Table
from pennon.cli.session import Session
from pennon.cli.settings import parse_pairs

if TYPE_CHECKING:
    from pennon.api import LakeCatalog
    from pennon.identifiers import Identifier

app = new_app()


@command(
    app,
    "properties",
    examples=[
        "pennon properties prod",
        "pennon properties prod --set owner=shop --unset draft",
        "pennon properties prod.events --set comment='one row per click'",
    ],
)
def properties(
    session: Session,
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE|NAMESPACE]", help="The default is the root namespace.", autocompletion=complete_address
        ),
    ] = None,
    *,
    namespace: Annotated[bool, typer.Option("--namespace", help="The address is that of a namespace.")] = False,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a property; may be repeated.")
    ] = None,
    removed: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="Remove a property; may be repeated.")
    ] = None,
) -> None:
    """Show, set or remove properties of a table or a namespace.

    Properties of a table are the metadata of its schema, as in Spark's TBLPROPERTIES. Those that the catalog stores for
    a table are set when it is created; they are shown, too.
    """
    given = parse_pairs(changes or (), "--set")
    both = sorted(given.keys() & set(removed or ()))
    if both:
        raise CommandFailure(f"The property {both[0]!r} cannot be set and removed at once")
    wanted: dict[str, str | None] = {**given, **dict.fromkeys(removed or ())}
    with session.lake() as lake:
        from pennon import addresses
        from pennon.cli.table_access import translate_failures

        with translate_failures("properties", address):
            identifier = addresses.parse_namespace(address)
            if identifier and not namespace and identifier in lake:
                document = _change_table(lake, identifier, wanted)
            else:
                document = _change_namespace(lake, identifier, wanted, is_certain=namespace)

    def view() -> Iterable[Block]:
        rows = sorted(document["properties"].items())
        yield Table([Column("property", whole=True), Column("value", whole=True)], rows, empty="no properties")
        for key, value in sorted(document.get("created_with", {}).items()):
            yield Note(f"created with {key} = {value}")

    session.output.show(document, view)


def _change_table(lake: "LakeCatalog", identifier: "Identifier", wanted: Mapping[str, str | None]) -> dict[str, Any]:
    table = lake.table(identifier)
    found = table.set_metadata(wanted) if wanted else table.metadata
    return {
        "type": "table",
        "id": list(identifier),
        "properties": secrets.mask_secrets(found),
        "created_with": secrets.mask_secrets(table.properties),
    }


def _change_namespace(
    lake: "LakeCatalog", identifier: "Identifier", wanted: Mapping[str, str | None], *, is_certain: bool
) -> dict[str, Any]:
    from pennon import addresses
    from pennon.errors import NamespaceNotFoundError, TableNotFoundError

    try:
        if wanted:
            lake.set_namespace_properties(identifier, wanted)
        found = lake.namespace_properties(identifier)
    except NamespaceNotFoundError as error:
        if is_certain:
            raise
        raise TableNotFoundError(
            f"Neither a table nor a namespace has the address '{addresses.format_address(identifier)}'"
            f"{lake.suggest_similar(identifier)}"
        ) from error
    return {"type": "namespace", "id": list(identifier), "properties": secrets.mask_secrets(found)}
