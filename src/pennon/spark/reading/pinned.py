"""Tables pinned at one version: all tasks of a query read the same, whatever others commit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableNotFoundError,
    TableVersionNotFoundError,
    translate_errors,
)
from pennon.identifiers import Identifier, format_identifier
from pennon.spark import credential_renewal
from pennon.table.version_identity import hash_content

if TYPE_CHECKING:
    from datetime import datetime

    from lance import LanceDataset

    from pennon.spark.address import Address
    from pennon.spark.credential_renewal import Options

_OPEN_DATASETS = 32


@dataclass(frozen=True)
class PinnedTable:
    """A version of a table that any process can open. The catalog is needed only to renew storage options."""

    identifier: Identifier
    uri: str
    version: int
    branch: str | None = None
    storage_options: Options = ()
    address: Address | None = None
    """The catalog that renews the storage options, if they expire."""
    content: str | None = None
    """Identifies the content of the version (see `hash_content`): a recreated table has the same version numbers.

    None if it is not known yet.
    """

    def renewed_by(self, address: Address) -> PinnedTable:
        """Return the same version with the catalog that renews its storage options, if they expire."""
        return replace(self, address=address) if credential_renewal.has_expiry(self.storage_options) else self

    def identified_by(self, dataset: LanceDataset) -> PinnedTable:
        """Return the same version with the content that is open in `dataset`."""
        return replace(self, content=hash_content(dataset))

    def open(self) -> LanceDataset:
        """Open the version in this process. The handle is cached if the content of the version is known.

        Raises ConcurrentModificationError if the version at this location has another content.
        """
        return _open_version(self) if self.content is None else _open_cached(self)

    def __repr__(self) -> str:
        """Return the table and version, without storage options, which contain secrets."""
        return f"PinnedTable({format_identifier(self.identifier)}, version={self.version}, branch={self.branch!r})"


@dataclass(frozen=True)
class VersionOptions:
    """Selects a version of a table, by default the latest."""

    version: int | None = None
    tag: str | None = None
    branch: str | None = None
    as_of: datetime | str | None = None

    def __post_init__(self) -> None:
        """Raise InvalidInputError for contradicting fields."""
        named = [name for name in ("version", "tag", "as_of") if getattr(self, name) is not None]
        if len(named) > 1:
            raise InvalidInputError(f"Only one of version, tag and as_of can be given, got {' and '.join(named)}")
        if self.tag is not None and self.branch is not None:
            raise InvalidInputError("A tag belongs to a branch already: give a tag or a branch, not both")


LATEST = VersionOptions()


def pin(
    address: Address, identifier: Identifier, selector: VersionOptions = LATEST
) -> tuple[PinnedTable, LanceDataset]:
    """Find a version through the catalog and open it.

    Raises NamespaceNotFoundError, TableNotFoundError, TableTagNotFoundError, TableVersionNotFoundError or
    TableBranchNotFoundError if that does not exist, and InvalidInputError if the time is not valid.
    """
    from lance_namespace import DescribeTableRequest

    described = address.connect().describe_table(
        DescribeTableRequest(
            id=list(identifier),
            version=selector.version,
            tag=selector.tag,
            branch=selector.branch,
            vend_credentials=True,
            check_declared=True,
        )
    )
    if described.is_only_declared:
        raise declared_error(identifier)
    with translate_errors(f"Opening table {format_identifier(identifier)}"):
        dataset = _open_selected(address, identifier, selector, described)
    options = tuple(sorted((described.storage_options or {}).items()))
    branch = _branch(dataset, selector)
    location = str(described.location)
    pinned = PinnedTable(identifier, location, dataset.version, branch, options).renewed_by(address)
    return pinned.identified_by(dataset), dataset


def declared_error(identifier: Identifier) -> TableNotFoundError:
    """Return the error for reading a table that has no version."""
    return TableNotFoundError(
        f"Table {format_identifier(identifier)} is declared, but nothing has been written to it yet"
    )


def _open_selected(address: Address, identifier: Identifier, selector: VersionOptions, described: Any) -> LanceDataset:
    import lance

    from pennon.table.described_table import open_described
    from pennon.table.version_selector import VersionSelector

    if selector.as_of is None:
        chosen = VersionSelector(selector.version, selector.tag, selector.branch)
        return open_described(address.connect(), identifier, chosen, described)
    dataset = lance.dataset(described.location, storage_options=described.storage_options or None)
    if selector.branch is not None:
        dataset = dataset.checkout_version((selector.branch, None))
    version = _version_at(dataset, identifier, _parse_time(selector.as_of))
    return dataset.checkout_version(version if selector.branch is None else (selector.branch, version))


def _parse_time(value: datetime | str) -> datetime:
    from datetime import datetime, timezone

    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError as error:
        raise InvalidInputError(f"as_of is a time such as 2026-01-31T12:00:00+00:00, got {value!r}") from error
    return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)


def _version_at(dataset: LanceDataset, identifier: Identifier, instant: datetime) -> int:
    listed: list[dict[str, Any]] = dataset.versions()  # type: ignore[assignment]  # Lance's Version is such a dict
    # Lance returns times without a zone, in the local one.
    versions = [int(one["version"]) for one in listed if one["timestamp"].astimezone() <= instant]
    if not versions:
        raise TableVersionNotFoundError(
            f"Table {format_identifier(identifier)} has no version as old as {instant.isoformat()}"
        )
    return max(versions)


def _branch(dataset: LanceDataset, selector: VersionOptions) -> str | None:
    if selector.tag is not None:
        branch: str | None = dataset.tags.list()[selector.tag]["branch"]
        return branch
    return selector.branch


@lru_cache(maxsize=_OPEN_DATASETS)
def _open_cached(table: PinnedTable) -> LanceDataset:
    dataset = _open_version(table)
    if hash_content(dataset) != table.content:
        raise ConcurrentModificationError(
            f"Table {format_identifier(table.identifier)} was dropped and created again while it was being "
            "read: version "
            f"{table.version} is another one now. Run the query again"
        )
    return dataset


def _open_version(table: PinnedTable) -> LanceDataset:
    import lance

    options = dict(table.storage_options) or None
    renewing = credential_renewal.renewal_arguments(table.storage_options, table.address, table.identifier)
    if table.branch is None:
        return lance.LanceDataset(table.uri, version=table.version, storage_options=options, **renewing)
    opened = lance.LanceDataset(table.uri, storage_options=options, **renewing)
    return opened.checkout_version((table.branch, table.version))
