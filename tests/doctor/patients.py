"""A catalog that the doctor examines: what is in it, and what its root holds byte by byte."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import create_namespace, create_table, declare_table, drop_table, ipc

if TYPE_CHECKING:
    from pennon import DirectoryNamespace, DoctorReport, Finding, LakeCatalog
    from tests.support import Root

ROWS = {"x": [1, 2, 3]}
_WORKING = {".lance-locks", ".lance-trash"}


@dataclass(frozen=True)
class Patient:
    """A catalog with a table of each kind."""

    root: Root
    mode: str
    namespace: DirectoryNamespace
    lake: LakeCatalog

    @property
    def path(self) -> Path:
        """The root, on a disk."""
        return Path(self.root.uri)

    def examine(self, *, fix: bool = False, deep: bool = False, probe: bool = False) -> DoctorReport:
        """Examine the catalog. The store is only probed if that is asked for."""
        return self.lake.doctor(fix=fix, deep=deep, probe=probe)

    def tables(self) -> dict[str, list[int]]:
        """Return the rows of all tables that have data."""
        names = [name for name in self.lake.tables() if name.rpartition(".")[2] != "promised"]
        return {name: self.lake[name].to_arrow()["x"].to_pylist() for name in names}

    def files(self, *, but: tuple[str, ...] = ()) -> dict[str, str]:
        """Return a hash of every file of the root, except those below some names and those of locks."""
        left_out = _WORKING | set(but)
        return {
            str(path.relative_to(self.path)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.path.rglob("*"))
            if path.is_file() and path.relative_to(self.path).parts[0] not in left_out
        }


def fill(namespace: DirectoryNamespace, kind: str) -> None:
    """Create tables in the root and in namespaces, a declared one, and dropped ones."""
    prefixes: list[tuple[str, ...]] = [()]
    if kind != "v1":
        create_namespace(namespace, "a")
        create_namespace(namespace, "a", "b")
        prefixes += [("a",), ("a", "b")]
    for prefix in prefixes:
        create_table(namespace, *prefix, "kept", data=ipc(ROWS))
        create_table(namespace, *prefix, "gone", data=ipc(ROWS))
        declare_table(namespace, *prefix, "promised")
        drop_table(namespace, *prefix, "gone")


def shown(findings: list[Finding]) -> list[tuple[str, str]]:
    """Return the severity and the subject of findings."""
    return [(one.severity, one.subject) for one in findings]
