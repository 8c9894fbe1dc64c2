"""Complete the addresses of tables and namespaces in a shell.

Only on local roots, because a network would be too slow. After an error nothing is completed.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from pennon.cli import startup
from pennon.cli.session import Session
from pennon.cli.settings import Options

if TYPE_CHECKING:
    from pennon.api.catalog import LakeCatalog

_MOST = 500


def complete_address(context: typer.Context, incomplete: str) -> list[str]:
    """Return completions for the address of a table."""
    return _complete(context, incomplete, with_tables=True)


def complete_namespace(context: typer.Context, incomplete: str) -> list[str]:
    """Return completions for the address of a namespace."""
    return _complete(context, incomplete, with_tables=False)


def complete_values(*values: str) -> Callable[[str], list[str]]:
    """Return a function that completes one of a few values."""
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


def _complete(context: typer.Context, incomplete: str, *, with_tables: bool) -> list[str]:
    try:
        startup.prepare()
        return _find_addresses(_session(context), incomplete, with_tables=with_tables)
    except Exception:  # noqa: BLE001 - completion must not print errors
        return []


def _session(context: typer.Context) -> Session:
    """Return a session with the options typed so far. The command itself does not run during completion."""
    options = Options()
    for level in (context.parent, context):
        given = {} if level is None else level.params
        own = Options(
            given.get("root"),
            given.get("impl"),
            tuple(given.get("property_") or ()),
            given.get("config"),
            given.get("profile"),
        )
        options = own.over(options)
    return Session(options)


def _find_addresses(session: Session, incomplete: str, *, with_tables: bool) -> list[str]:
    if "://" in session.connection().properties["root"]:
        return []
    with session.lake() as lake:
        found = _list_level(lake, incomplete, with_tables=with_tables)
        separator = _separator(incomplete)
        if len(found) == 1 and found[0].endswith(separator) == with_tables:
            # A shell adds a space after the only completion. With those of the next level it can go on.
            inside = found[0].removesuffix(separator) + separator
            deeper = _list_level(lake, inside, with_tables=with_tables)
            found += deeper if with_tables else [inside] * bool(deeper)
    return found[:_MOST]


def _list_level(lake: "LakeCatalog", incomplete: str, *, with_tables: bool) -> list[str]:
    """Return the completions up to the next separator. One follows namespaces if the address is that of a table."""
    from pennon import addresses
    from pennon.catalog_pages import iterate_namespaces, iterate_tables

    separator = _separator(incomplete)
    typed, _, begun = incomplete.rpartition(separator)
    where = addresses.parse_namespace(typed or None)
    prefix = incomplete.removesuffix(begun)
    end = separator if with_tables else ""
    found = [f"{prefix}{child[-1]}{end}" for child in iterate_namespaces(lake.namespace, where, recursive=False)]
    if with_tables:
        names = [identifier[-1] for identifier in iterate_tables(lake.namespace, where)]
        # A name with dots needs the form with slashes.
        found += [prefix + name for name in names if separator == addresses.SLASH or addresses.DOT not in name]
    return [name for name in found if name.startswith(incomplete) and not any(one.isspace() for one in name)]


def _separator(incomplete: str) -> str:
    from pennon import addresses

    return addresses.SLASH if addresses.SLASH in incomplete else addresses.DOT
