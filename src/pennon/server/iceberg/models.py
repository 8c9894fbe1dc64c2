"""The bodies of requests in the Iceberg REST protocol, as far as the server reads them.

Fields have the names and types of the OpenAPI file of Iceberg 1.9; a null field is a missing one, and unknown fields
are ignored. Fields that the file requires and that mean nothing for a Lance table may be missing.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, FailFast, Field, Tag, model_validator

from pennon.identifiers import Identifier, table_identifier

_LARGEST = (1 << 63) - 1
_PRIMITIVE = "primitive"

Int64: TypeAlias = Annotated[int, Field(ge=-_LARGEST - 1, le=_LARGEST)]
Properties: TypeAlias = dict[Annotated[str, Field(min_length=1)], str]


class _Body(BaseModel):
    model_config = ConfigDict(
        alias_generator=lambda name: name.rstrip("_").replace("_", "-"), strict=True, frozen=True, extra="ignore"
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, content: Any) -> Any:  # noqa: ANN401 - as a client sent it
        if not isinstance(content, dict):
            return content
        return {name: value for name, value in content.items() if value is not None}


class TableIdentifier(_Body):
    """A table, which must be in a namespace."""

    namespace: Annotated[list[str], Field(min_length=1)]
    name: str

    @property
    def identifier(self) -> Identifier:
        """The validated identifier. Raises InvalidInputError if a name is not valid."""
        return table_identifier([*self.namespace, self.name])


class CreateNamespaceRequest(_Body):
    """The body of CreateNamespace."""

    namespace: Annotated[list[str], Field(min_length=1)]
    properties: Properties = {}


class UpdateNamespacePropertiesRequest(_Body):
    """The body of UpdateProperties."""

    removals: list[str] = []
    updates: Properties = {}


class RenameTableRequest(_Body):
    """The body of RenameTable."""

    source: TableIdentifier
    destination: TableIdentifier


def _kind_of_type(kind: Any) -> str | None:  # noqa: ANN401 - as a client sent it
    if isinstance(kind, str):
        return _PRIMITIVE
    name = kind.get("type") if isinstance(kind, dict) else getattr(kind, "type", None)
    return name if isinstance(name, str) else None


Type: TypeAlias = Annotated[
    Annotated[str, Tag(_PRIMITIVE)]
    | Annotated["StructType", Tag("struct")]
    | Annotated["ListType", Tag("list")]
    | Annotated["MapType", Tag("map")],
    Discriminator(_kind_of_type),
]


class StructField(_Body):
    """A column, or a field of a struct."""

    id: int | None = None
    name: str
    type: Type
    required: bool = False
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None


class StructType(_Body):
    """A struct."""

    type: Literal["struct"] = "struct"
    fields: Annotated[list[StructField], FailFast()]


class ListType(_Body):
    """A list."""

    type: Literal["list"]
    element: Type
    element_required: bool = False


class MapType(_Body):
    """A map."""

    type: Literal["map"]
    key: Type
    value: Type
    value_required: bool = False


class Schema(StructType):
    """The columns of a table."""

    schema_id: int | None = None
    identifier_field_ids: list[int] = []


class PartitionSpec(_Body):
    """How a table is partitioned: by none of these fields."""

    fields: list[Any] = []


class SortOrder(_Body):
    """How a table is sorted: by none of these fields."""

    fields: list[Any] = []


class CreateTableRequest(_Body):
    """The body of CreateTable."""

    name: str
    location: str | None = None
    schema_: Schema
    partition_spec: PartitionSpec = PartitionSpec()
    write_order: SortOrder = SortOrder()
    stage_create: bool = False
    properties: Properties = {}


class AssertCreate(_Body):
    """The table does not exist yet."""

    type: Literal["assert-create"]


class AssertTableUUID(_Body):
    """The table has this UUID."""

    type: Literal["assert-table-uuid"]
    uuid: str


class AssertRefSnapshotId(_Body):
    """A branch or tag is at this snapshot; without one, it does not exist."""

    type: Literal["assert-ref-snapshot-id"]
    ref: str
    snapshot_id: Int64 | None = None


class AssertLastAssignedFieldId(_Body):
    """The largest id of a field."""

    type: Literal["assert-last-assigned-field-id"]
    last_assigned_field_id: Int64


class AssertCurrentSchemaId(_Body):
    """The id of the current schema."""

    type: Literal["assert-current-schema-id"]
    current_schema_id: Int64


class AssertLastAssignedPartitionId(_Body):
    """The largest id of a partition field."""

    type: Literal["assert-last-assigned-partition-id"]
    last_assigned_partition_id: Int64


class AssertDefaultSpecId(_Body):
    """The id of the partition spec."""

    type: Literal["assert-default-spec-id"]
    default_spec_id: Int64


class AssertDefaultSortOrderId(_Body):
    """The id of the sort order."""

    type: Literal["assert-default-sort-order-id"]
    default_sort_order_id: Int64


TableRequirement: TypeAlias = Annotated[
    AssertCreate
    | AssertTableUUID
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId,
    Field(discriminator="type"),
]


class Snapshot(_Body):
    """A snapshot to add."""

    snapshot_id: Int64
    sequence_number: Int64 | None = None
    summary: dict[str, str] = {}


class AddSnapshotUpdate(_Body):
    """Add a snapshot."""

    action: Literal["add-snapshot"]
    snapshot: Snapshot


class SetSnapshotRefUpdate(_Body):
    """Let a branch or tag name a snapshot."""

    action: Literal["set-snapshot-ref"]
    ref_name: str
    type: str = "branch"
    snapshot_id: Int64


class RemoveSnapshotsUpdate(_Body):
    """Remove snapshots."""

    action: Literal["remove-snapshots"]
    snapshot_ids: list[Int64]


class SetPropertiesUpdate(_Body):
    """Set properties."""

    action: Literal["set-properties"]
    updates: Properties


class RemovePropertiesUpdate(_Body):
    """Remove properties."""

    action: Literal["remove-properties"]
    removals: list[str]


class AddSchemaUpdate(_Body):
    """Add a schema."""

    action: Literal["add-schema"]
    schema_: Schema


class SetCurrentSchemaUpdate(_Body):
    """Make a schema the current one."""

    action: Literal["set-current-schema"]
    schema_id: Int64


class SetLocationUpdate(_Body):
    """Move the table."""

    action: Literal["set-location"]
    location: str


class AssignUUIDUpdate(_Body):
    """Assign a UUID."""

    action: Literal["assign-uuid"]
    uuid: str


class UpgradeFormatVersionUpdate(_Body):
    """Change the version of the format."""

    action: Literal["upgrade-format-version"]
    format_version: int


class AddPartitionSpecUpdate(_Body):
    """Add a partition spec."""

    action: Literal["add-spec"]
    spec: PartitionSpec


class SetDefaultSpecUpdate(_Body):
    """Make a partition spec the current one."""

    action: Literal["set-default-spec"]
    spec_id: int


class AddSortOrderUpdate(_Body):
    """Add a sort order."""

    action: Literal["add-sort-order"]
    sort_order: SortOrder


class SetDefaultSortOrderUpdate(_Body):
    """Make a sort order the current one."""

    action: Literal["set-default-sort-order"]
    sort_order_id: int


class MeaninglessUpdate(_Body):
    """An update that has no meaning for a Lance table."""

    action: Literal[
        "remove-snapshot-ref",
        "set-statistics",
        "remove-statistics",
        "set-partition-statistics",
        "remove-partition-statistics",
        "remove-partition-specs",
        "remove-schemas",
        "enable-row-lineage",
        "add-encryption-key",
        "remove-encryption-key",
        "add-view-version",
        "set-current-view-version",
    ]


TableUpdate: TypeAlias = Annotated[
    AddSnapshotUpdate
    | SetSnapshotRefUpdate
    | RemoveSnapshotsUpdate
    | SetPropertiesUpdate
    | RemovePropertiesUpdate
    | AddSchemaUpdate
    | SetCurrentSchemaUpdate
    | SetLocationUpdate
    | AssignUUIDUpdate
    | UpgradeFormatVersionUpdate
    | AddPartitionSpecUpdate
    | SetDefaultSpecUpdate
    | AddSortOrderUpdate
    | SetDefaultSortOrderUpdate
    | MeaninglessUpdate,
    Field(discriminator="action"),
]


class CommitTableRequest(_Body):
    """The body of UpdateTable."""

    identifier: TableIdentifier | None = None
    requirements: Annotated[list[TableRequirement], FailFast()]
    updates: Annotated[list[TableUpdate], FailFast()]


class TableChange(CommitTableRequest):
    """One table of a transaction."""

    identifier: TableIdentifier


class CommitTransactionRequest(_Body):
    """The body of CommitTransaction."""

    table_changes: Annotated[list[TableChange], Field(min_length=1), FailFast()]
