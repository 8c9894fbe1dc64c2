"""Commits join small fragments of the manifest, so that there are never many, and leave large ones alone."""

from __future__ import annotations

import lance
import pyarrow as pa

from pennon import DirectoryNamespace
from tests.support import MODES, create_namespace, list_namespaces

LARGE = 2000


def test_a_large_fragment_is_not_rewritten_with_small_ones(tmp_path):
    with DirectoryNamespace(root=str(tmp_path), **MODES["v2"]) as namespace:
        create_namespace(namespace, "first")
        path = str(tmp_path / "__manifest")
        schema = lance.dataset(path).schema
        names = [f"n{number:04}" for number in range(LARGE)]
        nothing = [None] * LARGE
        columns = {"object_id": names, "object_type": ["namespace"] * LARGE}
        rows = pa.table([columns.get(name, nothing) for name in schema.names], schema=schema)
        lance.write_dataset(rows, path, mode="append")
        (large,) = [one.fragment_id for one in lance.dataset(path).get_fragments() if one.count_rows() == LARGE]
        for number in range(40):
            create_namespace(namespace, f"x{number:02}")
        found = {one.fragment_id: one.count_rows() for one in lance.dataset(path).get_fragments()}
        assert found[large] == LARGE
        assert len(found) < 20
        assert len(list_namespaces(namespace)) == LARGE + 41
