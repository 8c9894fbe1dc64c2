"""Version rows of a managed table next to the manifest files in its directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.directory.versions.record import VersionRecord


@dataclass(frozen=True)
class VersionComparison:
    """How the version rows of a table differ from its files."""

    faults: list[str]
    without_file: list[int]
    """Versions that have a row and no file. Cleaning leaves such rows, except for the latest version."""
    without_row: list[int]


def compare_with_files(rows: Mapping[int, VersionRecord], sizes: Mapping[int, int]) -> VersionComparison:
    """Compare version rows with the sizes of the files of versions."""
    without_file = [version for version, row in rows.items() if version not in sizes and not row.is_unfinished]
    newest = max(rows, default=0)
    faults = [f"version {newest}, the latest according to its row, has no file"] if newest in without_file else []
    for version in sorted(rows.keys() & sizes.keys()):
        size, recorded = sizes[version], rows[version].size
        if recorded is not None and recorded != size:
            faults.append(f"version {version} has {size} bytes, but its row records {recorded}")
    return VersionComparison(faults, without_file, sorted(sizes.keys() - rows.keys()))
