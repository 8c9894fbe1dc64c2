"""Ranges of versions, as requests name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, TableVersionNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lance_namespace_urllib3_client.models.version_range import VersionRange

_LAST = -1


def ignores_missing(context: Mapping[str, str] | None) -> bool:
    """Tell from a request's context whether versions that are not there are fine."""
    return (context or {}).get("ignore_missing", "true") != "false"


def chooser(ranges: Sequence[VersionRange], what: str, *, ignore_missing: bool) -> Callable[[list[int]], list[int]]:
    """Give a function that chooses from sorted versions those in the ranges; 13 for bad ranges, 11 for missing ones."""
    for one in ranges:
        if one.start_version < 0 or (one.end_version != _LAST and one.end_version < one.start_version):
            raise InvalidInputError(f"Bad range of versions [{one.start_version}, {one.end_version}) for table {what}")

    def chosen(there: list[int]) -> list[int]:
        newest = there[-1] if there else 0
        spans = [(one.start_version, newest + 1 if one.end_version == _LAST else one.end_version) for one in ranges]
        if not ignore_missing:
            known = set(there)
            for start, end in spans:
                missing = next((version for version in range(max(start, 1), end) if version not in known), None)
                if missing is not None:
                    raise TableVersionNotFoundError(f"Table {what} has no version {missing}")
        return [version for version in there if any(start <= version < end for start, end in spans)]

    return chosen
