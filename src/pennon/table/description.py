"""What a table tells of itself: schema, statistics, metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance

from pennon.errors import TableVersionNotFoundError, is_not_found
from pennon.table.version_selector import check_out

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance_namespace_urllib3_client.models.json_arrow_schema import JsonArrowSchema
    from lance_namespace_urllib3_client.models.table_basic_stats import TableBasicStats

    from pennon.table.version_selector import VersionSelector


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
    selector: VersionSelector,
    *,
    table: str,
    session: Any = None,
    check_branch: Callable[[str], object] = lambda _: None,
) -> lance.LanceDataset:
    """Open a table at a version, tag or branch, as its files define them.

    A session caches what was read of a version by the e-tag of its manifest. `check_branch` is called with the name of
    a branch before it is opened, and raises to refuse it. Raises TableVersionNotFoundError, TableTagNotFoundError or
    TableBranchNotFoundError if the version does not exist.
    """
    dataset = lance.dataset(location, storage_options=dict(storage_options) or None, session=session)
    target = selector.resolve_tag(dataset, table)
    if target.branch is None and target.version in {None, dataset.version}:
        return dataset
    try:
        return check_out(dataset, target, table, check_branch)
    except (OSError, ValueError, OverflowError) as error:
        if is_not_found(error) or isinstance(error, OverflowError):
            raise TableVersionNotFoundError(f"Table {table} has no version {target.version}") from error
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

    from pennon.table.json_arrow import to_json_schema  # noqa: PLC0415

    numbers = dataset.stats.dataset_stats()
    return Description(
        version=int(dataset.version),
        schema=to_json_schema(dataset.schema),
        stats=TableBasicStats(
            num_deleted_rows=int(numbers["num_deleted_rows"]), num_fragments=int(numbers["num_fragments"])
        ),
        metadata={str(key): str(value) for key, value in dataset.metadata.items()},
    )
