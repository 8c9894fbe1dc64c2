"""The tasks that build an index: plan, train a model, build segments, merge them. None of them commits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.spark.jobs.catalog_access import open_latest, skip_committed
from pennon.spark.jobs.job_run import DECLARED, PinnedTask, TableTask
from pennon.spark.jobs.outcome import TableOutcome, skipped_outcome
from pennon.spark.reading.splits import fragment_sizes, group_fragments
from pennon.table import index_kinds

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from lance import LanceDataset
    from lance.dataset import Index

    from pennon.spark.address import Address

_SAMPLES = 256
_ROWS_OF_A_PARTITION = 8192


@dataclass(frozen=True)
class IndexJobSpec:
    """The index to build."""

    column: str
    kind: str
    name: str
    metric: str = "l2"
    num_partitions: int | None = None
    num_sub_vectors: int | None = None
    num_bits: int | None = None
    replace: bool = False
    rows_per_task: int = 1_000_000
    job: str | None = None
    dry_run: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises InvalidInputError if no table could have such an index."""
        index_kinds.parse_kind(self.kind)
        index_kinds.parse_metric(self.metric)
        if not self.column or not self.name:
            raise InvalidInputError("The column and the name of an index must not be empty")
        for option in ("num_partitions", "num_sub_vectors", "num_bits", "rows_per_task"):
            value = getattr(self, option)
            if value is not None and value < 1:
                raise InvalidInputError(f"{option} must be at least 1, got {value}")
        if not self.is_vector and (self.num_partitions or self.num_sub_vectors or self.num_bits):
            raise InvalidInputError(f"An index of kind {self.kind} has no partitions, sub-vectors or bits")

    @property
    def is_vector(self) -> bool:
        """Whether this is an index for vector search."""
        return self.kind in index_kinds.VECTOR_KINDS


@dataclass(frozen=True)
class IndexPlan(PinnedTask):
    """A table that needs the index."""

    rows: int
    groups: tuple[tuple[int, ...], ...]
    """The fragments of each segment."""
    removed: tuple[Index, ...]
    """The segments of the index that is replaced."""
    shared_model: bool


@dataclass(frozen=True)
class VectorModel:
    """The model that all segments of a vector index share, so that they can be merged."""

    centroids: pa.Array
    codebook: pa.Array | None = None
    rotation: str | None = None


@dataclass(frozen=True)
class IndexTask(PinnedTask):
    """A task for a table's index: train the model, build a segment, or merge segments."""

    spec: IndexJobSpec
    rows: int = 0
    fragments: tuple[int, ...] = ()
    model: VectorModel | None = None
    segments: tuple[Index, ...] = ()


def plan_index(address: Address, task: TableTask) -> TableOutcome | IndexPlan:
    """Return the plan of a table's index, or a skipped outcome with the reason.

    Raises TableColumnNotFoundError if the table lacks the column, and InvalidInputError if another index has the name.
    """
    spec: IndexJobSpec = task.options
    there = open_latest(address, task.identifier)
    if there is None:
        return skipped_outcome(task.table, DECLARED)
    pinned, dataset = there
    earlier = skip_committed(pinned, task.table, address, spec.job)
    if earlier is not None:
        return earlier
    require_column(dataset, task.table, spec.column)
    rows = dataset.count_rows()
    if not rows:
        return skipped_outcome(task.table, "the table has no rows", pinned.version)
    removed = _find_same_name(dataset, spec, task.table)
    if removed and not spec.replace:
        message = f"the index {spec.name!r} exists already; optimize it to add new rows"
        return skipped_outcome(task.table, message, pinned.version)
    fragments = fragment_sizes(dataset)
    groups = group_fragments(fragments, spec.rows_per_task, lambda fragment: fragment.rows)
    # Segments with different models cannot be merged. Without enough rows to train a model, there is one segment.
    shared = spec.is_vector and len(groups) > 1
    if shared and rows < 2 * max(_choose_partitions(spec, rows), 2 ** (spec.num_bits or 8)):
        groups, shared = [tuple(one.id for one in fragments)], False
    return IndexPlan(pinned, rows, tuple(groups), removed, shared)


def require_column(dataset: LanceDataset, table: str, column: str) -> None:
    """Raise TableColumnNotFoundError if a table lacks a column or field."""
    if dataset.lance_schema.field_case_insensitive(column) is None:
        raise TableColumnNotFoundError(f"Table '{table}' has no column {column!r}")


def train_model(_: Address, task: IndexTask) -> VectorModel:
    """Train the model of a vector index on a sample of all rows."""
    from lance.indices import IndicesBuilder
    from lance.lance import indices

    spec, dataset = task.spec, task.pinned.open()
    builder = IndicesBuilder(dataset, spec.column)
    partitions = _choose_partitions(spec, task.rows)
    samples = max(2, min(_SAMPLES, task.rows // partitions))
    ivf = builder.train_ivf(partitions, distance_type=spec.metric, sample_rate=samples)
    if "PQ" in spec.kind:
        code_bits = spec.num_bits or 8
        samples = max(2, min(_SAMPLES, task.rows // 2**code_bits))
        parts = _choose_sub_vectors(dataset, spec)
        codebook = builder.train_pq(ivf, parts, sample_rate=samples, num_bits=code_bits).codebook
        return VectorModel(ivf.centroids, codebook)
    if "RQ" in spec.kind:
        width = _dimension(dataset, spec)
        bits = spec.num_bits
        rotation = indices.build_rq_model(width) if bits is None else indices.build_rq_model(width, num_bits=bits)
        return VectorModel(ivf.centroids, rotation=rotation)
    return VectorModel(ivf.centroids)


def build_segment(_: Address, task: IndexTask) -> Index:
    """Build one segment over some fragments. Raises InvalidInputError if the column cannot have such an index."""
    spec, dataset = task.spec, task.pinned.open()
    options: dict[str, Any] = dict(spec.params)
    if spec.is_vector:
        options |= _vector_options(dataset, spec, task.model)
    try:
        return dataset.create_index_uncommitted(
            spec.column, spec.kind, name=spec.name, replace=True, fragment_ids=list(task.fragments), **options
        )
    except (TypeError, NotImplementedError, KeyError) as error:
        raise InvalidInputError(
            f"Column {spec.column!r} of table '{task.table}' cannot have an index of kind {spec.kind}: {error}"
        ) from error


def merge_segments(_: Address, task: IndexTask) -> Index:
    """Merge the segments of a table into one."""
    return task.pinned.open().merge_existing_index_segments(list(task.segments))


def _choose_sub_vectors(dataset: LanceDataset, spec: IndexJobSpec) -> int:
    return index_kinds.choose_sub_vectors(spec.column, _dimension(dataset, spec), spec.num_sub_vectors)


def _vector_options(dataset: LanceDataset, spec: IndexJobSpec, model: VectorModel | None) -> dict[str, Any]:
    options: dict[str, Any] = {"metric": spec.metric}
    if spec.num_bits is not None:
        options["num_bits"] = spec.num_bits
    if "PQ" in spec.kind:
        options["num_sub_vectors"] = _choose_sub_vectors(dataset, spec)
    if model is None:
        return options if spec.num_partitions is None else {**options, "num_partitions": spec.num_partitions}
    options |= {"num_partitions": len(model.centroids), "ivf_centroids": model.centroids}
    if model.codebook is not None:
        # Codes are merged row by row; Lance transposes them when it merges.
        options |= {"pq_codebook": model.codebook, "skip_transpose": True}
    if model.rotation is not None:
        options |= {"rabitq_model": model.rotation, "skip_transpose": True}
    return options


def _choose_partitions(spec: IndexJobSpec, rows: int) -> int:
    return spec.num_partitions or max(1, rows // _ROWS_OF_A_PARTITION)


def _dimension(dataset: LanceDataset, spec: IndexJobSpec) -> int:
    kind = dataset.schema.field(spec.column).type
    width = index_kinds.read_vector_width(kind)
    if width is None:
        raise InvalidInputError(f"Column {spec.column!r} holds {kind}, not vectors of one width")
    return width


def _find_same_name(dataset: LanceDataset, spec: IndexJobSpec, table: str) -> tuple[Index, ...]:
    """Return the segments of an existing index with the same name.

    Raises InvalidInputError if it is another kind of index and must not be replaced.
    """
    from lance.dataset import Index

    there = next((index for index in dataset.describe_indices() if index.name == spec.name), None)
    if there is None:
        return ()
    same_kind = index_kinds.normalize_kind(there.index_type) == index_kinds.normalize_kind(spec.kind)
    if not spec.replace and not (same_kind and list(there.field_names) == [spec.column]):
        raise InvalidInputError(
            f"Table '{table}' has an index {spec.name!r} of kind {there.index_type} on "
            f"{', '.join(there.field_names)}: choose another name, or replace it"
        )
    return tuple(
        Index(
            segment.uuid,
            there.name,
            list(there.fields),
            segment.dataset_version_at_last_update,
            segment.fragment_ids,
            segment.index_version,
        )
        for segment in there.segments
    )
