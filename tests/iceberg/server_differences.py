"""What single servers cannot do: tests that do not hold there, each with the reason."""

from __future__ import annotations

_KEEPS_ENTRY = "SeaweedFS deletes the data with the entry, so deregistering is refused and a name stays taken"
_NO_ROOT = "Nessie chooses the place of every table: nothing is below a root of the client's"
_LATEST_ONLY = "Nessie shows the latest snapshot alone; older versions are found by their files"

DIFFERS: dict[str, dict[str, str]] = {
    "seaweed": dict.fromkeys(
        (
            "test_deregister_keeps_the_data_and_register_brings_it_back",
            "test_a_deregistered_table_is_whole_without_the_catalog",
            "test_lost_answers_to_everything_else",
            "test_dropping_one_of_two_names_keeps_the_data_of_the_other",
            "test_a_check_that_fails_shows_nothing",
        ),
        _KEEPS_ENTRY,
    ),
    "nessie": {
        **dict.fromkeys(
            (
                "test_deregister_keeps_the_data_and_register_brings_it_back",
                "test_a_dropped_table_can_be_restored_until_it_is_purged",
                "test_purge_deletes_dropped_tables_after_their_retention",
                "test_status_details_and_dry_runs_of_dropped_tables",
                "test_dropping_one_of_two_names_keeps_the_data_of_the_other",
                "test_the_entry_is_what_the_specification_says",
                "test_a_table_is_adopted_where_it_was_written",
                "test_a_declared_table_is_filled_by_what_was_written",
                "test_what_cannot_be_adopted_changes_nothing",
                "test_of_many_that_adopt_one_name_exactly_one_wins",
                "test_new_tables_and_changes_are_shown_together impl",
                "test_a_check_that_fails_shows_nothing impl",
                "test_what_a_dead_client_declared_is_filled_by_the_next_one impl",
                "test_a_lost_answer_adopts_once",
                "test_tables_that_the_files_decide_about_are_refused storage",
            ),
            _NO_ROOT,
        ),
        **dict.fromkeys(
            (
                "test_versions_are_snapshots",
                "test_old_versions_are_deleted_but_never_the_latest",
                "test_snapshots_do_not_pile_up",
            ),
            _LATEST_ONLY,
        ),
    },
}
"""Tests, those of one way of managing versions with its name behind."""
