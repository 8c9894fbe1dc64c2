"""Where the reference client, pylance's DirectoryNamespace, does something else, and why that is wrong."""

from __future__ import annotations

_INTERNAL = "answers 18, an internal error, to a request that is wrong"
_COLUMN = "answers 13 or 18; the specification has 12 for a column that is not there (and allows 13)"
_IGNORED = "ignores a part of the request"

reference_differs: dict[str, str] = {
    "test_a_bad_filter_is_refused": _INTERNAL,
    "test_a_filter_that_fails_on_the_rows_is_refused": _INTERNAL,
    "test_limit_and_offset": "fails on a k of more than 32 bits",
    "test_no_results_are_asked_for_and_none_are_given": "gives all rows for k=0, which is the number of results",
    "test_an_unknown_column_is_told": _COLUMN,
    "test_an_alias_for_an_unknown_column_is_told": _COLUMN,
    "test_columns_that_make_no_sense_are_refused[no row]": _INTERNAL,
    "test_names_and_aliases_together_are_refused": _IGNORED + ": one of two that exclude each other",
    "test_an_unknown_branch_is_told": _IGNORED + ": the branch",
    "test_offset_skips_the_nearest_and_leaves_as_many_as_were_asked_for": "skips among k rows, and gives fewer than k",
    "test_a_bad_vector_query_is_refused[distance of floats]": _INTERNAL,
    "test_a_bad_vector_query_is_refused[probes]": _IGNORED + ": the bounds of the number of probes",
    "test_a_bad_vector_query_is_refused[lengths]": _IGNORED + ": all vectors but the first",
    "test_an_unknown_vector_column_is_told": _COLUMN,
    "test_the_only_column_with_vectors_needs_no_name": "knows no other column than `vector` unless one is named",
    "test_several_vectors_have_an_answer_each": _IGNORED + ": all vectors but the first",
    "test_a_bad_text_query_is_refused[no clause]": _INTERNAL,
    "test_a_bad_text_query_is_refused[no text]": _INTERNAL,
    "test_a_bad_text_query_is_refused[no match]": _INTERNAL,
    "test_a_bad_text_query_is_refused[large fuzziness]": "raises an error that is not of the interface",
    "test_a_bad_text_query_is_refused[large slop]": "raises an error that is not of the interface",
    "test_a_bad_vector_query_is_refused[empty]": "takes it for none",
    "test_two_text_queries_at_once_are_refused": _IGNORED + ": one of two that exclude each other",
    "test_an_unknown_text_column_is_told": _COLUMN,
    "test_text_without_an_index_needs_a_column": _INTERNAL,
    "test_a_hybrid_query_ranks_by_both": "knows no hybrid queries (18)",
    "test_a_hybrid_query_has_columns_filter_offset_and_row_ids": "knows no hybrid queries (18)",
    "test_plans_of_a_hybrid_query_are_both_told": "knows no hybrid queries",
    "test_a_bad_filter_is_refused[]": "takes an empty filter for none",
    "test_rows_that_do_not_fit_are_refused": "answers 18 to an insert, 20 to a merge of the same rows",
    "test_nulls_where_none_may_be_are_refused": _INTERNAL,
    "test_a_bad_merge_is_refused[bad timeout]": _IGNORED + ": the timeout",
    "test_merge_by_an_unknown_column_is_told": _COLUMN,
    "test_merged_rows_that_do_not_fit_are_refused": "answers 13 to rows without the column to match by",
    "test_a_bad_update_is_refused[fails on the rows]": _INTERNAL,
    "test_update_of_an_unknown_column_is_told": _COLUMN,
    "test_a_bad_delete_is_refused[id / 0 = 1]": _INTERNAL,
    "test_a_bad_predicate_is_refused": _INTERNAL,
    "test_blobs_come_back_as_bytes": "gives where in Lance's files a blob lies, not the blob",
    "test_expressions_of_an_update_are_about_the_row_as_it_was": "sets columns one after the other, in random order",
    "test_plans_of_bad_queries_are_refused": "raises errors that are not of the interface",
}
"""By the test's name, or by name and case as in `test_x[case]`: what the reference client does instead."""
