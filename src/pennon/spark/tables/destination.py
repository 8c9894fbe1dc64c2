"""The destination of commits to a table: its directory, who manages its versions, and the branch."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon.config import EXPIRY
from pennon.errors import TableBranchNotFoundError, is_not_found
from pennon.identifiers import Identifier, format_identifier
from pennon.spark import credential_renewal
from pennon.spark.reading.pinned import PinnedTable
from pennon.store import open_store

if TYPE_CHECKING:
    from lance import LanceDataset

    from pennon.spark.address import Address
    from pennon.spark.tables.run_files import RunDirectory

_CLEANS_ITSELF = "lance.auto_cleanup."


@dataclass(frozen=True)
class Destination:
    """A table of the catalog, or the location of a new one."""

    address: Address
    identifier: Identifier
    uri: str
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    managed: bool = False
    """Whether the catalog manages the table's versions."""
    branch: str | None = None
    declared: bool = False
    """Whether the table is declared, but has no version."""

    @property
    def options(self) -> dict[str, str] | None:
        """Return the storage options as Lance accepts them, renewed if they expire soon."""
        options = credential_renewal.renew_options(self.storage_options, self.address, self.identifier, self.uri)
        return dict(options) or None

    @property
    def renewal_arguments(self) -> dict[str, Any]:
        """Return the arguments with which Lance renews storage options while it writes."""
        return credential_renewal.renewal_arguments(self.storage_options, self.address, self.identifier)

    def catalog_arguments(self, client: Any) -> dict[str, Any]:
        """Return the arguments with which Lance commits through a catalog."""
        return {
            "namespace_client": client,
            "table_id": list(self.identifier),
            "namespace_client_managed_versioning": True,
        }

    def latest(self) -> LanceDataset:
        """Open the latest version; raises TableBranchNotFoundError if the branch does not exist."""
        import lance

        if self.managed and self.branch is None:
            # The catalog may have versions whose files are not yet at their final paths.
            table: dict[str, Any] = {"namespace_client": self.address.connect(), "table_id": list(self.identifier)}
            dataset = lance.dataset(**table, storage_options=self.options)
        else:
            dataset = lance.LanceDataset(self.uri, storage_options=self.options, **self.renewal_arguments)
        require_plain_cleanup(dataset)
        if self.branch is None:
            return dataset
        try:
            return dataset.checkout_version((self.branch, None))
        except (OSError, ValueError) as error:
            if is_not_found(error):
                raise TableBranchNotFoundError(
                    f"Table {format_identifier(self.identifier)} has no branch {self.branch!r}"
                ) from error
            raise

    def files(self, *, blobs: bool = False) -> RunDirectory:
        """Open the directory of the table, or of the branch."""
        from pennon.spark.tables.run_files import RunDirectory

        def options() -> dict[str, str]:
            return {key: value for key, value in (self.options or {}).items() if key != EXPIRY}

        return RunDirectory(self.uri, options, branch=self.branch, blobs=blobs)

    def require_plain_cleanup(self) -> None:
        """Raise UnusableEntryError if a commit would delete files behind symbolic links."""
        import lance

        if is_on_disk(self.uri):
            # If the table does not exist, the commit raises that error.
            with suppress(OSError, ValueError):
                require_plain_cleanup(lance.LanceDataset(self.uri))

    def pin_version(self, version: int) -> PinnedTable:
        """Return a version of the table that any process can open."""
        pinned = PinnedTable(self.identifier, self.uri, version, self.branch, self.storage_options)
        return pinned.renewed_by(self.address)


def new_destination(address: Address, identifier: Identifier) -> Destination:
    """Return a new location from the catalog; raises NamespaceNotFoundError or TableAlreadyExistsError."""
    uri = address.connect().new_table_location(list(identifier))
    return Destination(address, identifier, uri, tuple(sorted(address.storage_options.items())))


def locate_table(address: Address, identifier: Identifier, branch: str | None = None) -> Destination:
    """Return where a table is; raises NamespaceNotFoundError or TableNotFoundError."""
    from lance_namespace import DescribeTableRequest

    described = address.connect().describe_table(
        DescribeTableRequest(id=list(identifier), vend_credentials=True, check_declared=True)
    )
    destination = Destination(
        address,
        identifier,
        str(described.location),
        tuple(sorted((described.storage_options or {}).items())),
        managed=bool(described.managed_versioning),
        branch=branch,
        declared=bool(described.is_only_declared),
    )
    if branch is not None:
        # Raises UnusableEntryError if the way to the branch on a disk leads through a symbolic link.
        with destination.files() as files:
            files.require_plain()
    return destination


def require_plain_cleanup(dataset: LanceDataset) -> None:
    """Raise UnusableEntryError if a commit would delete files behind symbolic links.

    A commit to a table that is configured to clean itself deletes files that Lance finds, also behind links.
    """
    uri = str(dataset.uri)
    if is_on_disk(uri) and any(key.startswith(_CLEANS_ITSELF) for key in dataset.config()):
        open_store(uri, {}).resolve("", deeply=True)


def is_on_disk(uri: str) -> bool:
    """Return True if a table is on a local disk."""
    return "://" not in uri or uri.startswith("file://")
