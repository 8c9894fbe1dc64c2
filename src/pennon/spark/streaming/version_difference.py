"""The difference between two versions, from their fragments, without reading data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.spark.reading.splits import FragmentSize, fragment_sizes
from pennon.spark.types.field_ids import list_field_ids

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

# Operations that change values in the rows of a fragment. All others keep a fragment's rows.
_IN_PLACE = frozenset({"Update", "Merge", "DataReplacement", "DataOverlay"})


@dataclass(frozen=True)
class VersionDifference:
    """The fragments in which two versions differ."""

    gone: tuple[FragmentSize, ...] = ()
    new: tuple[FragmentSize, ...] = ()
    marked: tuple[FragmentSize, ...] = ()
    """Fragments in both versions, with different rows marked as deleted."""
    rewritten: tuple[FragmentSize, ...] = ()
    """Fragments in both versions, with different values in the compared columns."""
    deleted: int = 0
    """The number of rows of the older version that are not in the newer one, estimated from fragments."""

    @property
    def is_empty(self) -> bool:
        """Return True if all rows are the same."""
        return not (self.gone or self.new or self.marked or self.rewritten)

    @property
    def has_only_new_rows(self) -> bool:
        """Return True if rows were only added."""
        return bool(self.new) and not (self.gone or self.marked or self.rewritten)

    @property
    def added(self) -> int:
        """The number of rows of new fragments."""
        return _rows(self.new)

    @property
    def changed(self) -> int:
        """The approximate number of rows that describe the difference."""
        return self.added + self.deleted + 2 * _rows(self.rewritten)


def compare_versions(
    before: LanceDataset | None, after: LanceDataset, operation: str, columns: Iterable[str]
) -> VersionDifference:
    """Return the difference of two versions in these columns."""
    old = {} if before is None else {one.fragment_id: one.metadata for one in before.get_fragments()}
    new = {one.fragment_id: one.metadata for one in after.get_fragments()}
    old_sizes = {} if before is None else {one.id: one for one in fragment_sizes(before)}
    new_sizes = {one.id: one for one in fragment_sizes(after)}
    in_place = operation in _IN_PLACE
    old_ids, new_ids = {} if before is None else list_field_ids(before), list_field_ids(after)
    fields = [(old_ids.get(name, ()), new_ids.get(name, ())) for name in columns]
    gone, added, marked, rewritten, deleted = [], [], [], [], 0
    for number in sorted(old.keys() | new.keys()):
        if number not in new:
            gone.append(old_sizes[number])
            deleted += old[number].num_rows
        elif number not in old:
            added.append(new_sizes[number])
        else:
            same_files = all(_files(old[number], ours) == _files(new[number], theirs) for ours, theirs in fields)
            if not same_files and not in_place:
                gone.append(old_sizes[number])
                added.append(new_sizes[number])
                deleted += old[number].num_rows
                continue
            if not same_files:
                rewritten.append(new_sizes[number])
            if _marks(old[number]) != _marks(new[number]):
                marked.append(new_sizes[number])
                deleted += max(0, new[number].num_deletions - old[number].num_deletions)
    return VersionDifference(tuple(gone), tuple(added), tuple(marked), tuple(rewritten), deleted)


def _files(fragment: FragmentMetadata, fields: Collection[int]) -> tuple[str, ...]:
    """Return the files with values of these fields."""
    files = [*fragment.files, *(one.data_file for one in fragment.overlays)]
    return tuple(sorted(str(one.path) for one in files if any(number in fields for number in one.fields)))


def _marks(fragment: FragmentMetadata) -> tuple[int, int, int] | None:
    file = fragment.deletion_file
    return None if file is None else (file.read_version, file.id, file.num_deleted_rows or 0)


def _rows(fragments: Iterable[FragmentSize]) -> int:
    return sum(one.rows for one in fragments)
