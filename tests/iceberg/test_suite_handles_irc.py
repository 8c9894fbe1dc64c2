"""Operations inside tables, by the suite tests/table/test_handles.py, on Apache's fixture."""

from __future__ import annotations

from tests.iceberg.borrowed import borrow_tests

# These name tables without their namespace, open a directory namespace themselves, or restore a table, which our own
# server does itself.
WITHOUT = frozenset(
    {
        "test_a_hidden_table_is_not_found_until_it_is_restored",
        "test_a_shared_handle_does_not_move_when_it_is_written_through",
        "test_a_tag_that_moves_is_followed",
        "test_commits_of_another_process_are_seen",
    }
)

globals().update(borrow_tests("table", "test_handles", "namespace", "ours", "other", without=WITHOUT))
