"""Operations that are not supported, with the reason."""

from __future__ import annotations

import pytest
from lance_namespace import CreateMaterializedViewRequest, CreateTableRequest, RefreshMaterializedViewRequest

from tests.support import describe_table, fails, list_tables
from tests.table.tables import numbers


def test_materialized_views_are_refused_with_the_reason(ours):
    numbers(ours)
    request = CreateMaterializedViewRequest(id=["view"], kind="query", source_query="?", output_schema="")
    with fails(0, "format that its client defines"):
        ours.create_materialized_view(request)
    with fails(0, "format that its client defines"):
        ours.refresh_materialized_view(RefreshMaterializedViewRequest(id=["t"]))
    assert list_tables(ours) == ["t"]


def test_an_empty_table_is_a_declared_one(ours):
    with pytest.warns(DeprecationWarning, match="declare_table"):
        made = ours.create_empty_table(CreateTableRequest(id=["t"]))
    assert made.location == describe_table(ours, "t").location
    assert describe_table(ours, "t", check_declared=True).is_only_declared
    with pytest.warns(DeprecationWarning, match="declare_table"), fails(5):
        ours.create_empty_table({"id": ["t"]})
    with pytest.warns(DeprecationWarning, match="declare_table"), fails(13):
        ours.create_empty_table({"id": ["u"], "mode": "overwrite"})
