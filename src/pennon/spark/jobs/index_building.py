"""What executors do for an index: look at the table, train a model, build segments, merge them. Nothing commits."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.identifiers import quote_identifier
from pennon.spark.commits import committing
from pennon.spark.jobs.asking import opened
from pennon.spark.jobs.outcome import SKIPPED, Outcome
from pennon.spark.jobs.running import DECLARED, TableWork
from pennon.spark.reading.splits import FragmentSize, fragment_sizes
from pennon.table import index_kinds
from pennon.table.index_kinds import KINDS, METRICS, VECTOR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from lance import LanceDataset
    from lance.dataset import Index

    from pennon.spark.address import Address
    from pennon.spark.reading.pinned import PinnedTable

_SAMPLES = 256
_ROWS_OF_A_PARTITION = 8192


@dataclass(frozen=True)
class IndexWish:
    """The index that is asked for."""

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
        """Refuse what no table could have (13)."""
        if self.kind not in KINDS:
            raise InvalidInputError(f"Unknown kind of index {self.kind!r}; known: {', '.join(KINDS)}")
        if not self.column or not self.name:
            raise InvalidInputError("An index needs a column and a name that are not empty")
        if self.metric not in METRICS:
            raise InvalidInputError(f"Unknown metric {self.metric!r}; known: {', '.join(METRICS)}")
        for option in ("num_partitions", "num_sub_vectors", "num_bits", "rows_per_task"):
            value = getattr(self, option)
            if value is not None and value < 1:
                raise InvalidInputError(f"{option} is at least 1, got {value}")
        if self.kind not in VECTOR and (self.num_partitions or self.num_sub_vectors or self.num_bits):
            raise InvalidInputError(f"An index of kind {self.kind} has no partitions, sub-vectors or bits")

    @property
    def is_vector(self) -> bool:
        """Tell whether it is an index for vector search."""
        return self.kind in VECTOR


@dataclass(frozen=True)
class ToBuild:
    """A table that needs the index."""

    pinned: PinnedTable
    rows: int
    groups: tuple[tuple[int, ...], ...]
    """The fragments of each segment."""
    removed: tuple[Index, ...]
    """The segments of the index that it replaces."""
    shared_model: bool
    seconds: float

    @property
    def table(self) -> str:
        """Name the table as people write it."""
        return quote_identifier(self.pinned.identifier)


@dataclass(frozen=True)
class Model:
    """What all segments of a vector index share, so that they can be merged."""

    centroids: pa.Array
    codebook: pa.Array | None = None
    rotation: str | None = None


@dataclass(frozen=True)
class Task:
    """A task of a table's index: train, build a segment, or merge segments."""

    pinned: PinnedTable
    wish: IndexWish
    rows: int = 0
    fragments: tuple[int, ...] = ()
    model: Model | None = None
    segments: tuple[Index, ...] = ()

    @property
    def table(self) -> str:
        """Name the table as people write it."""
        return quote_identifier(self.pinned.identifier)


def looked_at(address: Address, work: TableWork) -> Outcome | ToBuild:
    """Tell what there is to do for a table: nothing, with the reason, or segments to build."""
    begun = time.monotonic()
    wish: IndexWish = work.options
    there = opened(address, work.identifier)
    if there is None:
        return Outcome(work.table, SKIPPED, DECLARED)
    pinned, dataset = there
    version = dataset.version
    if wish.job is not None and (made := committing.find(address, work.identifier, wish.job)) is not None:
        message = f"done by an earlier run of this job, as version {made.version}"
        return Outcome(work.table, SKIPPED, message, None, version, version)
    if dataset.lance_schema.field_case_insensitive(wish.column) is None:
        raise TableColumnNotFoundError(f"Table '{work.table}' has no column {wish.column!r}")
    fragments = [one for one in fragment_sizes(dataset) if one.rows]
    if not fragments:
        return Outcome(work.table, SKIPPED, "the table has no rows", None, version, version)
    removed = _same_name(dataset, wish, work.table)
    if removed and not wish.replace:
        message = f"the index {wish.name!r} is there; new rows come into it by optimizing it"
        return Outcome(work.table, SKIPPED, message, None, version, version)
    rows = sum(one.rows for one in fragments)
    groups = grouped(fragments, wish.rows_per_task)
    # Segments with models of their own cannot be merged; a model needs rows enough to be trained on.
    shared = wish.is_vector and len(groups) > 1
    if shared and rows < 2 * max(_partitions(wish, rows), 2 ** (wish.num_bits or 8)):
        groups, shared = (tuple(one.id for one in fragments),), False
    return ToBuild(pinned, rows, groups, removed, shared, time.monotonic() - begun)


def grouped(fragments: Sequence[FragmentSize], rows: int) -> tuple[tuple[int, ...], ...]:
    """Put fragments together until they have so many rows."""
    groups: list[list[int]] = []
    held = 0
    for fragment in fragments:
        if not groups or held + fragment.rows > rows:
            groups.append([])
            held = 0
        groups[-1].append(fragment.id)
        held += fragment.rows
    return tuple(tuple(group) for group in groups)


def trained(_: Address, work: Task) -> Model:
    """Train the model of a vector index on a sample of all rows."""
    from lance.indices import IndicesBuilder
    from lance.lance import indices

    wish, dataset = work.wish, work.pinned.open()
    builder = IndicesBuilder(dataset, wish.column)
    partitions = _partitions(wish, work.rows)
    samples = max(2, min(_SAMPLES, work.rows // partitions))
    ivf = builder.train_ivf(partitions, distance_type=wish.metric, sample_rate=samples)
    if "PQ" in wish.kind:
        code_bits = wish.num_bits or 8
        samples = max(2, min(_SAMPLES, work.rows // 2**code_bits))
        wanted = sub_vectors(dataset, wish)
        codebook = builder.train_pq(ivf, wanted, sample_rate=samples, num_bits=code_bits).codebook
        return Model(ivf.centroids, codebook)
    if "RQ" in wish.kind:
        width = _dimension(dataset, wish)
        bits = wish.num_bits
        rotation = indices.build_rq_model(width) if bits is None else indices.build_rq_model(width, num_bits=bits)
        return Model(ivf.centroids, rotation=rotation)
    return Model(ivf.centroids)


def built(_: Address, work: Task) -> tuple[Index, float]:
    """Build one segment over some fragments; a column that such an index cannot have raises 13."""
    begun = time.monotonic()
    wish, dataset = work.wish, work.pinned.open()
    options: dict[str, Any] = dict(wish.params)
    if wish.is_vector:
        options |= _vector_options(dataset, wish, work.model)
    try:
        segment = dataset.create_index_uncommitted(
            wish.column, wish.kind, name=wish.name, replace=True, fragment_ids=list(work.fragments), **options
        )
    except (TypeError, NotImplementedError, KeyError) as error:
        raise InvalidInputError(
            f"Column {wish.column!r} of table '{work.table}' cannot have an index of kind {wish.kind}: {error}"
        ) from error
    return segment, time.monotonic() - begun


def merged(_: Address, work: Task) -> tuple[Index, float]:
    """Merge the segments of a table into one."""
    begun = time.monotonic()
    return work.pinned.open().merge_existing_index_segments(list(work.segments)), time.monotonic() - begun


def sub_vectors(dataset: LanceDataset, wish: IndexWish) -> int:
    """Choose into how many parts PQ cuts a vector; 13 if none fits."""
    return index_kinds.sub_vectors(wish.column, _dimension(dataset, wish), wish.num_sub_vectors)


def _vector_options(dataset: LanceDataset, wish: IndexWish, model: Model | None) -> dict[str, Any]:
    options: dict[str, Any] = {"metric": wish.metric}
    if wish.num_bits is not None:
        options["num_bits"] = wish.num_bits
    if "PQ" in wish.kind:
        options["num_sub_vectors"] = sub_vectors(dataset, wish)
    if model is None:
        return options if wish.num_partitions is None else {**options, "num_partitions": wish.num_partitions}
    options |= {"num_partitions": len(model.centroids), "ivf_centroids": model.centroids}
    if model.codebook is not None:
        # Codes are merged row by row; Lance turns them around when it merges.
        options |= {"pq_codebook": model.codebook, "skip_transpose": True}
    if model.rotation is not None:
        options |= {"rabitq_model": model.rotation, "skip_transpose": True}
    return options


def _partitions(wish: IndexWish, rows: int) -> int:
    return wish.num_partitions or max(1, rows // _ROWS_OF_A_PARTITION)


def _dimension(dataset: LanceDataset, wish: IndexWish) -> int:
    kind = dataset.schema.field(wish.column).type
    width = index_kinds.width(kind)
    if width is None:
        raise InvalidInputError(f"Column {wish.column!r} holds {kind}, not vectors of one width")
    return width


def _same_name(dataset: LanceDataset, wish: IndexWish, table: str) -> tuple[Index, ...]:
    """Give the segments of an index that has the name already; 13 if it is another index and is not to be replaced."""
    from lance.dataset import Index

    found = [index for index in dataset.describe_indices() if index.name == wish.name]
    if not found:
        return ()
    (there,) = found
    same_kind = index_kinds.plain(there.index_type) == index_kinds.plain(wish.kind)
    same = same_kind and list(there.field_names) == [wish.column]
    if not same and not wish.replace:
        raise InvalidInputError(
            f"Table '{table}' has an index {wish.name!r} of kind {there.index_type} on "
            f"{', '.join(there.field_names)}: give another name, or replace it"
        )
    fields = list(there.fields)
    return tuple(
        Index(
            segment.uuid,
            there.name,
            fields,
            segment.dataset_version_at_last_update,
            segment.fragment_ids,
            segment.index_version,
        )
        for segment in there.segments
    )
