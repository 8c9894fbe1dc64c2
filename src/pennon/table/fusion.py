"""Putting the rows of several searches together."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa

RELEVANCE = "_relevance_score"
_ROW_ID, _DISTANCE, _SCORE, _QUERY = "_rowid", "_distance", "_score", "query_index"
_FLATTENING = 60
"""The constant of reciprocal rank fusion, with the value that its authors and LanceDB use."""


def fused(vector: pa.Table, text: pa.Table) -> pa.Table:
    """Rank the rows of two searches by reciprocal rank fusion, best first; a row of both counts twice.

    What only one search tells of a row, its distance or its score, is null for rows of the other one alone.
    """
    points: dict[int, float] = defaultdict(float)
    for found in (vector, text):
        for rank, row in enumerate(found[_ROW_ID].to_pylist()):
            points[row] += 1 / (rank + 1 + _FLATTENING)
    scores = dict(zip(text[_ROW_ID].to_pylist(), text[_SCORE].to_pylist(), strict=True))
    distances = dict(zip(vector[_ROW_ID].to_pylist(), vector[_DISTANCE].to_pylist(), strict=True))
    rows = pa.concat_tables([vector.drop_columns([_DISTANCE]), text.drop_columns([_SCORE]).select(_plain(vector))])
    place = {row: number for number, row in reversed(list(enumerate(rows[_ROW_ID].to_pylist())))}
    ranked = sorted(points, key=lambda row: (-points[row], row))
    answer = rows.take(pa.array([place[row] for row in ranked], pa.int64()))
    for name, values in ((_DISTANCE, distances), (_SCORE, scores), (RELEVANCE, points)):
        answer = answer.append_column(name, pa.array([values.get(row) for row in ranked], pa.float32()))
    return answer


def without_first(found: pa.Table, offset: int) -> pa.Table:
    """Leave out the best rows of each of several vectors."""
    rank: dict[int, int] = defaultdict(int)
    kept = []
    for query in found[_QUERY].to_pylist():
        kept.append(rank[query] >= offset)
        rank[query] += 1
    return found.filter(pa.array(kept, pa.bool_()))


def _plain(vector: pa.Table) -> list[str]:
    return [name for name in vector.column_names if name != _DISTANCE]
