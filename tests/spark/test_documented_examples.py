"""Examples of the documentation run as they are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pennon.errors import InvalidInputError

TOP = Path(__file__).parents[2]


def find_block(page, language, begins):
    """Return the one code block of a page that contains a line which begins with a text."""
    text = (TOP / page).read_text(encoding="utf-8")
    blocks = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    (found,) = [one for one in blocks if any(line.startswith(begins) for line in one.splitlines())]
    return found


def test_readme_quickstart_continues_with_spark(spark, root, capsys):
    first = find_block("README.md", "python", "lake = pennon.open")
    second = find_block("README.md", "python", "lake = attach")
    names = {}
    for block in (first, second):
        assert '"/data/catalog"' in block
        exec(block.replace('"/data/catalog"', repr(root)), names)  # noqa: S102 - what a reader would run
    printed = capsys.readouterr().out
    assert "[{'order': 1}, {'order': 2}]" in printed
    assert [tuple(row) for row in names["lake"].table("sales.orders").collect()] == [
        *[(1, 9.5), (2, 20.0), (3, 3.25)],
        (4, 7.25),
    ]
    assert re.search(r"\|\s*4\|\s*40\.0\|", printed)


def test_merge_of_the_sql_guide_runs(lake):
    events = "SELECT * FROM VALUES (1, 'a', DATE '2024-01-01'), (2, 'b', current_date()), (3, 'c', current_date())"
    changes = "SELECT * FROM VALUES (2, 'B', false), (3, 'C', true), (4, 'd', false)"
    lake.sql("CREATE NAMESPACE prod")
    lake.sql(f"CREATE TABLE prod.events AS {events} AS t(id, name, day)")
    lake.sql(f"CREATE TABLE prod.changes AS {changes} AS t(id, name, gone)")
    done = lake.sql(find_block("docs/guides/spark-sql.md", "sql", "MERGE INTO")).first()
    assert (done.version, done.inserted, done.updated, done.deleted) == (2, 1, 2, 1)
    rows = sorted((row.id, row.name) for row in lake.table("prod.events").collect())
    assert rows == [(1, None), (2, "B"), (4, "d")]


def test_columns_that_only_the_source_has_are_named_with_those_of_the_table(lake):
    lake.sql("CREATE TABLE t AS SELECT 1 AS id, 'a' AS name, 2 AS day")
    merge = "MERGE INTO t USING (SELECT 1 AS id, true AS gone) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    with pytest.raises(InvalidInputError, match=r"no column 'gone'.*it has id, name, day"):
        lake.sql(merge)
