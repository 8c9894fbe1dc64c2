"""What a table tells of itself: schema, statistics, metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance

from pennon.errors import TableBranchNotFoundError, TableTagNotFoundError, TableVersionNotFoundError, is_not_found
from pennon.table.branches import MAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance_namespace_urllib3_client.models.json_arrow_schema import JsonArrowSchema
    from lance_namespace_urllib3_client.models.table_basic_stats import TableBasicStats


@dataclass(frozen=True)
class Description:
    """One version of a table, described."""

    version: int
    schema: JsonArrowSchema
    stats: TableBasicStats
    metadata: dict[str, str]


def open_table(
    location: str,
    storage_options: Mapping[str, str],
    *,
    shown: str,
    session: Any = None,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
    require_branch: Callable[[str], object] = lambda _: None,
) -> lance.LanceDataset:
    """Open a table at a version, tag or branch; raises 11, 8 or 22 if that is not there.

    `require_branch` is told the branch before it is opened, and raises what speaks against that.

    A session remembers what was read of a version, by the e-tag of its manifest, and so saves reading it again.
    """
    dataset = lance.dataset(location, storage_options=dict(storage_options) or None, session=session)
    if tag is not None:
        tags = dataset.tags.list()
        if tag not in tags:
            raise TableTagNotFoundError(f"Table {shown} has no tag '{tag}'")
        version, branch = int(tags[tag]["version"]), tags[tag]["branch"]
    branch = None if branch == MAIN else branch
    if branch is not None and branch not in dataset.branches.list():
        raise TableBranchNotFoundError(f"Table {shown} has no branch '{branch}'")
    if branch is None and version in {None, dataset.version}:
        return dataset
    if branch is not None:
        require_branch(branch)
    try:
        return dataset.checkout_version((branch, version))
    except (OSError, ValueError, OverflowError) as error:
        if is_not_found(error) or isinstance(error, OverflowError):
            raise TableVersionNotFoundError(f"Table {shown} has no version {version}") from error
        raise


def count_rows(location: str, storage_options: Mapping[str, str]) -> int | None:
    """Count the rows of the latest version; None if there is none that can be read."""
    try:
        return int(lance.dataset(location, storage_options=dict(storage_options) or None).count_rows())
    except (OSError, ValueError):
        return None


def describe(dataset: lance.LanceDataset) -> Description:
    """Describe the version that is open."""
    # Imported late: whoever only opens a table does without the SDK's models (docs/adr/0010).
    from lance_namespace_urllib3_client.models.table_basic_stats import TableBasicStats  # noqa: PLC0415

    from pennon.table.json_schema import json_schema  # noqa: PLC0415

    numbers = dataset.stats.dataset_stats()
    return Description(
        version=int(dataset.version),
        schema=json_schema(dataset.schema),
        stats=TableBasicStats(
            num_deleted_rows=int(numbers["num_deleted_rows"]), num_fragments=int(numbers["num_fragments"])
        ),
        metadata={str(key): str(value) for key, value in dataset.metadata.items()},
    )
