"""Kinds of indexes and their parameters. This module does not import Lance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

SCALAR_KINDS = ("BTREE", "BITMAP", "LABEL_LIST", "NGRAM", "ZONEMAP", "BLOOMFILTER", "RTREE", "INVERTED")
VECTOR_KINDS = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ")
KINDS = (*SCALAR_KINDS, *VECTOR_KINDS)
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


def parse_kind(kind: str) -> str:
    """Return the kind that a text names (`BTree`, `ivf-pq`, `FTS`). Raises InvalidInputError if there is none."""
    normalized = normalize_kind(_ALIASES.get(normalize_kind(kind), kind))
    for one in KINDS:
        if normalize_kind(one) == normalized:
            return one
    raise InvalidInputError(f"Unknown kind of index {kind!r}; known: {', '.join(KINDS)}")


def normalize_kind(kind: str) -> str:
    """Return a kind without its separators, in upper case, for comparison."""
    return kind.replace("_", "").replace("-", "").upper()


def parse_metric(name: str) -> str:
    """Return the metric that a text names. Raises InvalidInputError if there is none."""
    wanted = _METRIC_ALIASES.get(name.lower(), name.lower())
    if wanted not in METRICS:
        raise InvalidInputError(f"Unknown metric {name!r}; known: {', '.join(METRICS)}")
    return wanted


def list_parameters(kind: str) -> frozenset[str]:
    """Return the parameters of a kind, with the names of the namespace interface."""
    if kind == FULL_TEXT:
        return _OF_TEXT
    if kind not in VECTOR_KINDS:
        return frozenset()
    quantizer = kind.rpartition("_")[2]
    named = _OF_VECTORS | ({"num_bits"} if quantizer in _BITS else set())
    named |= {"num_sub_vectors"} if quantizer == "PQ" else set()
    return frozenset(named | (_OF_GRAPHS if "HNSW" in kind else set()))


def check_parameters(kind: str, given: Mapping[str, Any]) -> None:
    """Raise InvalidInputError for parameters that the kind does not have, or that contradict each other."""
    wrong = sorted(set(given) - list_parameters(kind))
    if wrong:
        raise InvalidInputError(f"An index of kind {kind} has no {', '.join(wrong)}")
    if "num_partitions" in given and "target_partition_size" in given:
        raise InvalidInputError("Set num_partitions or target_partition_size, not both")
    bits = given.get("num_bits")
    allowed = _BITS.get(kind.rpartition("_")[2], ())
    if bits is not None and bits not in allowed:
        raise InvalidInputError(f"num_bits of {kind} is one of {', '.join(map(str, allowed))}, got {bits}")


def parse_parameter(text: str) -> bool | float | str:
    """Return the value of a parameter that is given as text: true, false, a number, or else the text."""
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_vector_width(kind: pa.DataType) -> int | None:
    """Return the width of the vectors in a column of this type, or None if it has none."""
    found = getattr(kind, "list_size", None) or getattr(getattr(kind, "value_type", None), "list_size", None)
    return None if found is None else int(found)


def choose_sub_vectors(column: str, vector_width: int, asked: int | None) -> int:
    """Return into how many parts PQ divides a vector. Raises InvalidInputError if the width cannot be divided."""
    if asked is not None:
        if vector_width % asked:
            raise InvalidInputError(f"num_sub_vectors {asked} does not divide the width {vector_width}")
        return asked
    for divisor in (16, 8):
        if vector_width % divisor == 0:
            return vector_width // divisor
    raise InvalidInputError(f"Column {column!r} has width {vector_width}: set num_sub_vectors to a divisor of it")
