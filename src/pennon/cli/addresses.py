"""How tables and namespaces are written on the command line.

`prod.events` is the table `events` in the namespace `prod`. With a slash (or `$`, as in messages) anywhere, only
slashes (or `$`) separate, and dots belong to names: `/my.table`, `prod/events.v2`. No name can hold either.
"""

from __future__ import annotations

from pennon.identifiers import DELIMITER, Identifier, namespace_identifier, table_identifier

DOT = "."
SLASH = "/"
ROOT = SLASH


def table(text: str) -> Identifier:
    """Read the address of a table; a bad name is InvalidInputError (13)."""
    return table_identifier(_names(text))


def namespace(text: str | None) -> Identifier:
    """Read the address of a namespace; none, and `/`, are the root."""
    return namespace_identifier(() if text is None else _names(text))


def shown(identifier: Identifier) -> str:
    """Write an address in the shortest form that is read back as the same."""
    if not identifier:
        return ROOT
    if any(DOT in name for name in identifier):
        return SLASH + SLASH.join(identifier)
    return DOT.join(identifier)


def dotted_hint(text: str) -> str:
    """Say how to write a name that holds dots, if the text may have been meant as one."""
    if DOT not in text or SLASH in text or DELIMITER in text:
        return ""
    return f" (if the name itself holds dots, write {SLASH}{text})"


def _names(text: str) -> list[str]:
    for separator in (SLASH, DELIMITER):
        if separator in text:
            rest = text.removeprefix(separator).removesuffix(separator)
            return rest.split(separator) if rest else []
    return text.split(DOT) if text else []
