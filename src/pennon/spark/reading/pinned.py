"""Tables at one version: what every task of a query reads, whatever is committed meanwhile."""

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
    """A version of a table that any process can open, without the catalog unless that hands out what expires."""

    identifier: Identifier
    uri: str
    version: int
    branch: str | None = None
    storage_options: Options = ()
    address: Address | None = None
    """The catalog that hands out new storage options, if these expire."""
    content: str | None = None
    """Identifies what the version holds (see `hash_content`): a table that is created again has the same numbers.

    None if nobody has looked yet.
    """

    def renewed_by(self, address: Address) -> PinnedTable:
        """Say which catalog to ask, if there is a need to."""
        return replace(self, address=address) if credential_renewal.has_expiry(self.storage_options) else self

    def identified_by(self, dataset: LanceDataset) -> PinnedTable:
        """Return the same version with the content that is open in `dataset`."""
        return replace(self, content=hash_content(dataset))

    def open(self) -> LanceDataset:
        """Open the version in this process; a handle is cached if the content of the version is known.

        Raises ConcurrentModificationError if the version at this place has another content.
        """
        return _open_version(self) if self.content is None else _open_cached(self)

    def __repr__(self) -> str:
        """Show the table without its storage options, which hold secrets."""
        return f"PinnedTable({format_identifier(self.identifier)}, version={self.version}, branch={self.branch!r})"


@dataclass(frozen=True)
class VersionSelector:
    """Which version of a table is meant: the latest if nothing is said."""

    version: int | None = None
    tag: str | None = None
    branch: str | None = None
    as_of: datetime | str | None = None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        named = [name for name in ("version", "tag", "as_of") if getattr(self, name) is not None]
        if len(named) > 1:
            raise InvalidInputError(f"Only one of version, tag and as_of can be given, got {' and '.join(named)}")
        if self.tag is not None and self.branch is not None:
            raise InvalidInputError("A tag names its branch itself: give a tag or a branch, not both")


LATEST = VersionSelector()


def pin(address: Address, identifier: Identifier, moment: VersionSelector = LATEST) -> tuple[PinnedTable, LanceDataset]:
    """Find the version that is meant through the catalog, and open it; errors 1, 4, 8, 11, 13, 22."""
    from lance_namespace import DescribeTableRequest

    described = address.connect().describe_table(
        DescribeTableRequest(
            id=list(identifier),
            version=moment.version,
            tag=moment.tag,
            branch=moment.branch,
            vend_credentials=True,
            check_declared=True,
        )
    )
    if described.is_only_declared:
        raise TableNotFoundError(
            f"Table {format_identifier(identifier)} is declared, but nothing has been written to it yet"
        )
    with translate_errors(f"Opening table {format_identifier(identifier)}"):
        dataset = _open_selected(address, identifier, moment, described)
    options = tuple(sorted((described.storage_options or {}).items()))
    branch = _branch(dataset, moment)
    location = str(described.location)
    pinned = PinnedTable(identifier, location, dataset.version, branch, options).renewed_by(address)
    return pinned.identified_by(dataset), dataset


def _open_selected(address: Address, identifier: Identifier, moment: VersionSelector, described: Any) -> LanceDataset:
    import lance

    options = described.storage_options or None
    if moment.branch is None and moment.as_of is None:
        if moment.version is None and moment.tag is None and described.managed_versioning:
            # The catalog knows of versions whose files are still being put into place.
            return lance.dataset(
                storage_options=options,
                namespace_client=address.connect(),
                table_id=list(identifier),
            )
        version = moment.version if moment.tag is None else moment.tag
        return lance.dataset(described.location, version=version, storage_options=options)
    dataset = lance.dataset(described.location, storage_options=options)
    if moment.branch is not None:
        dataset = dataset.checkout_version((moment.branch, moment.version))
    if moment.as_of is None:
        return dataset
    version = _version_at(dataset, identifier, _parse_time(moment.as_of))
    return dataset.checkout_version(version if moment.branch is None else (moment.branch, version))


def _parse_time(value: datetime | str) -> datetime:
    from datetime import datetime, timezone

    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError as error:
        raise InvalidInputError(f"as_of is a time such as 2026-01-31T12:00:00+00:00, got {value!r}") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)


def _version_at(dataset: LanceDataset, identifier: Identifier, instant: datetime) -> int:
    listed: list[dict[str, Any]] = dataset.versions()  # type: ignore[assignment]  # Lance's Version is such a dict
    # Lance gives times without a zone, in the machine's.
    versions = [int(one["version"]) for one in listed if one["timestamp"].astimezone() <= instant]
    if not versions:
        raise TableVersionNotFoundError(
            f"Table {format_identifier(identifier)} has no version as old as {instant.isoformat()}"
        )
    return max(versions)


def _branch(dataset: LanceDataset, moment: VersionSelector) -> str | None:
    if moment.tag is not None:
        branch: str | None = dataset.tags.list()[moment.tag]["branch"]
        return branch
    return moment.branch


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
