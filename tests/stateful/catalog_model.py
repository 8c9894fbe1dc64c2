"""A model of a catalog in plain Python: the result of every operation, by the specification.

It has the two layers that the specification has: rows of the manifest, and directories under the root. What a client
sees follows from its mode: V1 sees the directories `<name>.lance`, V2 the rows, compatibility mode the rows first and
then the directories. A marker beside such a directory hides it from all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Identifier = tuple[str, ...]

UNSUPPORTED, NO_NAMESPACE, NAMESPACE_EXISTS, NOT_EMPTY, NO_TABLE, TABLE_EXISTS, BAD_INPUT = 0, 1, 2, 3, 4, 5, 13
V1, V2, COMPATIBILITY = "v1", "v2", "compatibility"
OWN, HASHED = "own", "hashed"


class Refused(Exception):
    """The operation must fail with this code and change nothing."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Directory:
    """A table's directory: its rows (None before there is data), its version, its markers."""

    rows: list[int] | None
    version: int = 0
    declared: bool = False
    deregistered: bool = False


@dataclass
class TableRow:
    """A table in the manifest."""

    location: str
    properties: dict[str, str]


def own(name: str) -> str:
    """Return the directory of a root table with this name."""
    return f"{name}.lance"


def is_own(identifier: Identifier, location: str) -> bool:
    return len(identifier) == 1 and location == own(identifier[0])


@dataclass
class Model:
    """The state of one root."""

    namespaces: dict[Identifier, dict[str, str]] = field(default_factory=dict)
    tables: dict[Identifier, TableRow] = field(default_factory=dict)
    directories: dict[str, Directory] = field(default_factory=dict)
    root_properties: dict[str, str] = field(default_factory=dict)

    # What a client sees

    def namespace_exists(self, mode: str, identifier: Identifier) -> bool:
        return not identifier or (mode != V1 and identifier in self.namespaces)

    def require_namespace(self, mode: str, identifier: Identifier) -> None:
        if not self.namespace_exists(mode, identifier):
            raise Refused(NO_NAMESPACE)

    def owners(self, location: str) -> list[Identifier]:
        return [identifier for identifier, row in self.tables.items() if row.location == location]

    def shows(self, location: str) -> bool:
        return location in self.directories and not self.directories[location].deregistered

    def row(self, mode: str, identifier: Identifier) -> TableRow | None:
        """Return a valid row. A row of a root table is valid only if its directory exists."""
        row = None if mode == V1 else self.tables.get(identifier)
        if row is not None and is_own(identifier, row.location) and not self.shows(row.location):
            return None
        return row

    def find(self, mode: str, identifier: Identifier) -> str | None:
        """Return the location of a table that this client sees. Fails with code 1 if the namespace is missing."""
        self.require_namespace(mode, identifier[:-1])
        row = self.row(mode, identifier)
        if row is not None:
            return row.location
        if len(identifier) == 1 and mode != V2 and self.shows(own(identifier[0])):
            if mode == V1:
                return own(identifier[0])
            if identifier not in self.namespaces and not self.owned_by_another(identifier):
                return own(identifier[0])
        return None

    def owned_by_another(self, identifier: Identifier) -> bool:
        """Return True if the directory of a root name belongs to a table with another name."""
        return any(owner != identifier for owner in self.owners(own(identifier[0])))

    def required(self, mode: str, identifier: Identifier) -> str:
        location = self.find(mode, identifier)
        if location is None:
            raise Refused(NO_TABLE)
        return location

    def properties(self, mode: str, identifier: Identifier) -> dict[str, str] | None:
        if mode == V1:
            return None
        row = self.row(mode, identifier)
        return {} if row is None else row.properties

    def table_names(self, mode: str, parent: Identifier, *, include_declared: bool = True) -> list[str]:
        self.require_namespace(mode, parent)
        candidates = [identifier for identifier in self.tables if identifier[:-1] == parent]
        if parent == ():
            candidates += [(name.removesuffix(".lance"),) for name in self.directories if name.endswith(".lance")]
        found = []
        for identifier in set(candidates):
            location = self.find(mode, identifier)
            if location is not None and (include_declared or self.directories[location].rows is not None):
                found.append(identifier[-1])
        return sorted(found)

    def all_tables(self, mode: str, *, include_declared: bool = True) -> list[str]:
        parents = [(), *(self.namespaces if mode != V1 else ())]
        return sorted(
            "$".join((*parent, name))
            for parent in parents
            for name in self.table_names(mode, parent, include_declared=include_declared)
        )

    def namespace_names(self, mode: str, parent: Identifier) -> list[str]:
        self.require_namespace(mode, parent)
        return sorted(key[-1] for key in self.namespaces if key[:-1] == parent) if mode != V1 else []

    # Namespaces

    def create_namespace(self, mode: str, identifier: Identifier, how: str, properties: dict[str, str]) -> dict:
        if mode == V1:
            raise Refused(UNSUPPORTED)
        self.require_namespace(mode, identifier[:-1])
        if identifier in self.namespaces:
            if how == "create":
                raise Refused(NAMESPACE_EXISTS)
            if how == "exist_ok":
                return self.namespaces[identifier]
            self.remove_below(identifier)
        elif self.find(mode, identifier) is not None:
            raise Refused(NAMESPACE_EXISTS)
        self.tables.pop(identifier, None)
        self.namespaces[identifier] = dict(properties)
        return self.namespaces[identifier]

    def drop_namespace(self, mode: str, identifier: Identifier, *, skip: bool, cascade: bool) -> dict:
        if not identifier:
            raise Refused(BAD_INPUT)
        if mode == V1:
            raise Refused(UNSUPPORTED)
        if identifier not in self.namespaces:
            if skip:
                return {}
            raise Refused(NO_NAMESPACE)
        below = len(identifier)
        if not cascade and any(key[:below] == identifier and key != identifier for key in self.all_keys()):
            raise Refused(NOT_EMPTY)
        self.remove_below(identifier)
        return self.namespaces.pop(identifier)

    def alter_properties(self, mode: str, identifier: Identifier, changes: dict[str, str | None]) -> dict:
        if mode == V1:
            raise Refused(UNSUPPORTED)
        self.require_namespace(mode, identifier)
        properties = self.namespaces[identifier] if identifier else self.root_properties
        for key, value in changes.items():
            if value is None:
                properties.pop(key, None)
            else:
                properties[key] = value
        return properties

    def all_keys(self) -> list[Identifier]:
        return [*self.namespaces, *self.tables]

    def remove_below(self, identifier: Identifier) -> None:
        for key in self.all_keys():
            if len(key) > len(identifier) and key[: len(identifier)] == identifier:
                self.namespaces.pop(key, None)
                row = self.tables.pop(key, None)
                if row is not None and not self.owners(row.location):
                    self.directories.pop(row.location, None)

    # Create and register tables

    def declare(self, mode: str, identifier: Identifier, properties: dict[str, str], wish: str | None) -> str:
        """Return the kind of location that a declared table gets; `place` puts it there."""
        if mode == V1 and properties:
            raise Refused(UNSUPPORTED)
        if mode == V1 and wish is not None:
            raise Refused(BAD_INPUT)
        self.require_namespace(mode, identifier[:-1])
        if self.find(mode, identifier) is not None or (mode != V1 and identifier in self.namespaces):
            raise Refused(TABLE_EXISTS)
        if wish is not None:
            if wish in self.directories:
                raise Refused(TABLE_EXISTS)
            return wish
        return self.free_place(mode, identifier)

    def free_place(self, mode: str, identifier: Identifier) -> str:
        """Return the location of a new table. The directory of its name must not exist."""
        if len(identifier) > 1 or mode == V2 or (mode == COMPATIBILITY and self.owned_by_another(identifier)):
            return HASHED
        if own(identifier[0]) in self.directories:
            raise Refused(TABLE_EXISTS)
        return OWN

    def create(self, mode: str, identifier: Identifier, how: str, properties: dict[str, str]) -> tuple[str, str]:
        """Return what a create does: `keep`, `fill` or `overwrite` at a location, or `new` with a kind of location."""
        if mode == V1 and properties:
            raise Refused(UNSUPPORTED)
        self.require_namespace(mode, identifier[:-1])
        if mode != V1 and identifier in self.namespaces:
            raise Refused(TABLE_EXISTS)
        location = self.find(mode, identifier)
        if location is None:
            return "new", self.free_place(mode, identifier)
        if self.directories[location].rows is None:
            return "fill", location
        if how == "create":
            raise Refused(TABLE_EXISTS)
        return ("keep" if how == "exist_ok" else "overwrite"), location

    def place(self, mode: str, identifier: Identifier, location: str, properties: dict, rows: list[int] | None) -> None:
        """Add a new table at the location that the client chose."""
        self.directories[location] = Directory(rows, version=0 if rows is None else 1, declared=rows is None)
        if mode != V1:
            self.tables[identifier] = TableRow(location, dict(properties))

    def fill(self, mode: str, identifier: Identifier, location: str, properties: dict, rows: list[int]) -> None:
        """Add the first rows of a declared table."""
        self.directories[location].rows, self.directories[location].version = rows, 1
        if mode != V1:
            declared = self.tables.get(identifier)
            kept = {} if declared is None else declared.properties
            self.tables[identifier] = TableRow(location, dict(properties) or kept)

    def overwrite(self, mode: str, identifier: Identifier, location: str, properties: dict, rows: list[int]) -> None:
        """Replace a table by a new one in the same place, as the specification says of this mode."""
        directory = self.directories[location]
        directory.rows, directory.version = rows, directory.version + 1
        if mode != V1:
            self.tables[identifier] = TableRow(location, dict(properties))

    def register(self, mode: str, identifier: Identifier, location: str, how: str, properties: dict[str, str]) -> None:
        directory = self.directories.get(location)
        if mode == V1:
            self.register_again(identifier, location, how, properties)
            return
        if directory is None:
            raise Refused(BAD_INPUT)
        name = location.removesuffix(".lance") if location.endswith(".lance") else None
        if name is not None and mode == COMPATIBILITY and self.shows(location):
            if identifier != (name,):
                raise Refused(BAD_INPUT)
            if how == "create":
                raise Refused(TABLE_EXISTS)
        self.require_namespace(mode, identifier[:-1])
        existing = self.find(mode, identifier)
        if identifier in self.namespaces or (existing is not None and how == "create"):
            raise Refused(TABLE_EXISTS)
        if any(owner != identifier for owner in self.owners(location)):
            raise Refused(BAD_INPUT)
        if existing is not None and is_own(identifier, existing) and existing != location:
            # No client sees the replaced registration any more.
            self.directories[existing].deregistered = True
        self.tables[identifier] = TableRow(location, dict(properties))
        # A directory that belongs to another name is not a table of its own name.
        directory.deregistered = name is not None and identifier != (name,)

    def register_again(self, identifier: Identifier, location: str, how: str, properties: dict[str, str]) -> None:
        self.require_namespace(V1, identifier[:-1])
        if properties:
            raise Refused(UNSUPPORTED)
        if not is_own(identifier, location) or location not in self.directories or self.owned_by_another(identifier):
            raise Refused(BAD_INPUT)
        if self.shows(location) and how == "create":
            raise Refused(TABLE_EXISTS)
        self.directories[location].deregistered = False

    # Drop, deregister and rename tables

    def deregister(self, mode: str, identifier: Identifier) -> tuple[str, dict | None]:
        location = self.required(mode, identifier)
        properties = self.properties(mode, identifier)
        if is_own(identifier, location):
            self.directories[location].deregistered = True
        if mode != V1:
            self.tables.pop(identifier, None)
        return location, properties

    def rename(self, mode: str, identifier: Identifier, target: Identifier) -> None:
        if mode == V1:
            raise Refused(UNSUPPORTED)
        location = self.required(mode, identifier)
        if identifier == target:
            return
        self.require_namespace(mode, target[:-1])
        if target in self.namespaces or self.find(mode, target) is not None:
            raise Refused(TABLE_EXISTS)
        row = self.tables.pop(identifier, None)
        self.tables[target] = TableRow(location, {} if row is None else row.properties)
        if is_own(identifier, location):
            self.directories[location].deregistered = True
        elif is_own(target, location):
            self.directories[location].deregistered = False

    def drop(self, mode: str, identifier: Identifier) -> str:
        """Drop a table; a root table that is deregistered can be dropped as well."""
        self.require_namespace(mode, identifier[:-1])
        row = None if mode == V1 else self.tables.get(identifier)
        if row is not None:
            if identifier == (row.location.removesuffix(".lance"),) and row.location not in self.directories:
                raise Refused(NO_TABLE)  # a client that knows nothing of rows has dropped it before
            del self.tables[identifier]
            if not self.owners(row.location):
                self.directories.pop(row.location, None)
            return row.location
        if len(identifier) == 1 and mode != V2 and not (mode == COMPATIBILITY and identifier in self.namespaces):
            location = own(identifier[0])
            if location in self.directories and not self.owned_by_another(identifier):
                del self.directories[location]
                return location
        raise Refused(NO_TABLE)

    def migrate(self, mode: str, *, dry_run: bool) -> list[str]:
        """Return the names that a migration adds to the manifest."""
        if mode == V1:
            raise Refused(UNSUPPORTED)
        migrated = []
        for location in sorted(self.directories):
            identifier = (location.removesuffix(".lance"),)
            known = identifier in self.tables or identifier in self.namespaces or self.owners(location)
            if location == own(identifier[0]) and self.shows(location) and not known:
                migrated.append(identifier[0])
        if not dry_run:
            for name in migrated:
                self.tables[name,] = TableRow(own(name), {})
        return migrated
