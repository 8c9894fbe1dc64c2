"""Parse and format the addresses of tables and namespaces, as people write them in Python and on the command line.

`prod.events` is the table `events` in the namespace `prod`. A name with dots or backticks is written in backticks, as
in messages (`` prod.`events.v2` ``), or with slashes: if an address contains a slash (or `$`, as in object ids), only
slashes (or `$`) separate names, and dots are part of names (`/my.table`, `prod/events.v2`). No name contains a slash or
a `$`. In Python, a list of names is an address, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.identifiers import DELIMITER, Identifier, namespace_identifier, parse_identifier, table_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    Address: TypeAlias = "str | Sequence[str]"

DOT = "."
SLASH = "/"
ROOT = SLASH
_QUOTE = "`"


def parse_table(address: Address) -> Identifier:
    """Return the identifier of a table. Raises InvalidInputError if a name is not valid."""
    return table_identifier(_split(address))


def parse_namespace(address: Address | None) -> Identifier:
    """Return the identifier of a namespace; None, "" and `/` are the root. Raises InvalidInputError for bad names."""
    return namespace_identifier(() if address is None else _split(address))


def format_address(identifier: Identifier) -> str:
    """Return the shortest address that is parsed into this identifier and needs no quotes in a shell."""
    if not identifier:
        return ROOT
    if any(DOT in name or _QUOTE in name for name in identifier):
        return SLASH + SLASH.join(identifier)
    return DOT.join(identifier)


def suggest_slashes(text: str) -> str:
    """Return a hint about names with dots if the text may be such a name, or an empty string."""
    if DOT not in text or SLASH in text or DELIMITER in text:
        return ""
    return f" (if the name itself contains dots, write {SLASH}{text})"


def _split(address: Address) -> Sequence[str]:
    if not isinstance(address, str):
        return address
    for separator in (SLASH, DELIMITER):
        if separator in address:
            rest = address.removeprefix(separator).removesuffix(separator)
            return rest.split(separator) if rest else []
    return parse_identifier(address)
