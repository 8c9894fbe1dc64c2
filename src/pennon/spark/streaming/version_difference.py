"""The difference between two versions, from their fragments, without reading data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.spark.reading.splits import FragmentSize, fragment_sizes
from pennon.spark.types.field_ids import list_field_ids

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

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


@dataclass(frozen=True)
class _Fragment:
    """What is compared of a fragment: the files of each column, and which rows are marked as deleted."""

    size: FragmentSize
    files: tuple[tuple[str, ...], ...]
    marks: tuple[int, int, int] | None
    rows: int
    """The number of rows that are not deleted."""
    deletions: int


def compare_versions(
    before: LanceDataset | None, after: LanceDataset, operation: str, columns: Sequence[str]
) -> VersionDifference:
    """Return the difference of two versions in these columns."""
    old = {} if before is None else _describe_fragments(before, columns)
    new = _describe_fragments(after, columns)
    rewritten = {number for number in old.keys() & new.keys() if old[number].files != new[number].files}
    # If the operation does not change values in place, a fragment with other files has other rows.
    replaced = set() if operation in _IN_PLACE else rewritten
    kept = (old.keys() & new.keys()) - replaced
    gone, marked = old.keys() - kept, {number for number in kept if old[number].marks != new[number].marks}
    deleted = sum(old[number].rows for number in gone)
    deleted += sum(max(0, new[number].deletions - old[number].deletions) for number in marked)
    return VersionDifference(
        gone=_sizes(old, gone),
        new=_sizes(new, new.keys() - kept),
        marked=_sizes(new, marked),
        rewritten=_sizes(new, rewritten - replaced),
        deleted=deleted,
    )


def _describe_fragments(dataset: LanceDataset, columns: Sequence[str]) -> dict[int, _Fragment]:
    ids = list_field_ids(dataset)
    described = {}
    for size, fragment in zip(fragment_sizes(dataset), dataset.get_fragments(), strict=True):
        one = fragment.metadata
        files = tuple(_files(one, ids.get(name, ())) for name in columns)
        described[size.id] = _Fragment(size, files, _marks(one), one.num_rows, one.num_deletions)
    return described


def _files(fragment: FragmentMetadata, fields: Collection[int]) -> tuple[str, ...]:
    """Return the files with values of these fields."""
    files = [*fragment.files, *(one.data_file for one in fragment.overlays)]
    return tuple(sorted(str(one.path) for one in files if any(number in fields for number in one.fields)))


def _marks(fragment: FragmentMetadata) -> tuple[int, int, int] | None:
    file = fragment.deletion_file
    return None if file is None else (file.read_version, file.id, file.num_deleted_rows or 0)


def _sizes(fragments: Mapping[int, _Fragment], numbers: Iterable[int]) -> tuple[FragmentSize, ...]:
    return tuple(fragments[number].size for number in sorted(numbers))


def _rows(fragments: Iterable[FragmentSize]) -> int:
    return sum(one.rows for one in fragments)
