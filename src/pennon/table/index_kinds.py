"""Kinds of indexes, and which parameters each of them has. Nothing of Lance is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

SCALAR = ("BTREE", "BITMAP", "LABEL_LIST", "NGRAM", "ZONEMAP", "BLOOMFILTER", "RTREE", "INVERTED")
VECTOR = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ")
KINDS = (*SCALAR, *VECTOR)
FULL_TEXT = "INVERTED"
METRICS = ("l2", "cosine", "dot", "hamming")
_ALIASES = {"FTS": FULL_TEXT, "FULLTEXT": FULL_TEXT}
_METRIC_ALIASES = {"euclidean": "l2"}

_OF_VECTORS = frozenset(("distance_type", "num_partitions", "target_partition_size", "sample_rate", "max_iterations"))
_OF_GRAPHS = frozenset(("m", "ef_construction"))
_OF_TEXT = frozenset(
    (
        "with_position",
        "base_tokenizer",
        "language",
        "max_token_length",
        "lower_case",
        "stem",
        "remove_stop_words",
        "ascii_folding",
    )
)
PARAMETERS = tuple(sorted(_OF_VECTORS | _OF_GRAPHS | _OF_TEXT | {"num_sub_vectors", "num_bits"}))
_BITS = {"PQ": (4, 8), "SQ": (8,), "RQ": tuple(range(1, 10))}


def known(kind: str) -> str:
    """Give a kind as it is known here, however it is written (`BTree`, `ivf-pq`, `FTS`); 13 if there is none such."""
    wanted = plain(kind)
    wanted = _ALIASES.get(wanted, wanted)
    for one in KINDS:
        if plain(one) == plain(wanted):
            return one
    raise InvalidInputError(f"Unknown kind of index {kind!r}; known: {', '.join(KINDS)}")


def plain(kind: str) -> str:
    """Give what is the same in all ways to write a kind."""
    return kind.replace("_", "").replace("-", "").upper()


def metric(name: str) -> str:
    """Give a metric as it is known here; 13 if there is none such."""
    wanted = _METRIC_ALIASES.get(name.lower(), name.lower())
    if wanted not in METRICS:
        raise InvalidInputError(f"Unknown metric {name!r}; known: {', '.join(METRICS)}")
    return wanted


def parameters_of(kind: str) -> frozenset[str]:
    """Name the parameters of a kind, as the namespace interface names them."""
    if kind == FULL_TEXT:
        return _OF_TEXT
    if kind not in VECTOR:
        return frozenset()
    quantizer = kind.rpartition("_")[2]
    named = _OF_VECTORS | ({"num_bits"} if quantizer in _BITS else set())
    named |= {"num_sub_vectors"} if quantizer == "PQ" else set()
    return frozenset(named | (_OF_GRAPHS if "HNSW" in kind else set()))


def check(kind: str, given: Mapping[str, Any]) -> None:
    """Raise 13 for parameters that the kind has not, or that contradict each other."""
    wrong = sorted(set(given) - parameters_of(kind))
    if wrong:
        raise InvalidInputError(f"An index of kind {kind} has no {', '.join(wrong)}")
    if "num_partitions" in given and "target_partition_size" in given:
        raise InvalidInputError("Give num_partitions or target_partition_size, not both")
    bits = given.get("num_bits")
    allowed = _BITS.get(kind.rpartition("_")[2], ())
    if bits is not None and bits not in allowed:
        raise InvalidInputError(f"num_bits of {kind} is one of {', '.join(map(str, allowed))}, got {bits}")


def width(kind: pa.DataType) -> int | None:
    """Give the width of the vectors that a column of this type holds; None if it holds none."""
    found = getattr(kind, "list_size", None) or getattr(getattr(kind, "value_type", None), "list_size", None)
    return None if found is None else int(found)


def sub_vectors(column: str, vector_width: int, asked: int | None) -> int:
    """Choose into how many parts PQ cuts a vector; 13 if none fits."""
    if asked is not None:
        if vector_width % asked:
            raise InvalidInputError(f"num_sub_vectors {asked} does not divide the width {vector_width}")
        return asked
    for divisor in (16, 8):
        if vector_width % divisor == 0:
            return vector_width // divisor
    raise InvalidInputError(f"Column {column!r} has width {vector_width}: give num_sub_vectors, a divisor of it")
