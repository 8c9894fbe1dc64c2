"""Root tables, as one kind of table: what `lifecycle` calls (`TableKind`)."""

from pennon.directory.root_tables.create import create, declare, fill
from pennon.directory.root_tables.drop import drop
from pennon.directory.root_tables.protect import protect
from pennon.directory.root_tables.purge import purge
from pennon.directory.root_tables.undrop import undrop

__all__ = ["create", "declare", "drop", "fill", "protect", "purge", "undrop"]
