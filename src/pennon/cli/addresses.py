"""Parse and format the addresses of tables and namespaces on the command line.

`prod.events` is the table `events` in the namespace `prod`. If an address contains a slash (or `$`, as in messages),
only slashes (or `$`) separate names, and dots are part of names: `/my.table`, `prod/events.v2`. No name contains a
slash or a `$`.
"""

from __future__ import annotations

from pennon.identifiers import DELIMITER, Identifier, namespace_identifier, table_identifier

DOT = "."
SLASH = "/"
ROOT = SLASH


def parse_table(text: str) -> Identifier:
    """Return the identifier of a table. Raises InvalidInputError if a name is not valid."""
    return table_identifier(_split(text))


def parse_namespace(text: str | None) -> Identifier:
    """Return the identifier of a namespace; None and `/` are the root. Raises InvalidInputError for bad names."""
    return namespace_identifier(() if text is None else _split(text))


def format_address(identifier: Identifier) -> str:
    """Return the shortest address that is parsed into this identifier."""
    if not identifier:
        return ROOT
    if any(DOT in name for name in identifier):
        return SLASH + SLASH.join(identifier)
    return DOT.join(identifier)


def suggest_slashes(text: str) -> str:
    """Return a hint about names with dots if the text may be such a name, or an empty string."""
    if DOT not in text or SLASH in text or DELIMITER in text:
        return ""
    return f" (if the name itself contains dots, write {SLASH}{text})"


def _split(text: str) -> list[str]:
    for separator in (SLASH, DELIMITER):
        if separator in text:
            rest = text.removeprefix(separator).removesuffix(separator)
            return rest.split(separator) if rest else []
    return text.split(DOT) if text else []
