"""Where the reference client, pylance's DirectoryNamespace, does something else, and why that is wrong."""

from __future__ import annotations

reference_differs: dict[str, str] = {
    # tags and branches
    "test_tags_come_in_pages": "gives all tags at once, without a page token",
    "test_a_tag_of_a_missing_branch_raises_22": "creates the tag on the main branch instead",
    "test_a_tag_of_a_missing_version_raises_11[0]": "takes version 0 for the latest one",
    "test_a_tag_can_name_a_version_of_a_branch": "ignores the branch, and names a version of the main one",
    "test_branches_come_in_pages": "gives all branches at once, without a page token",
    "test_a_branch_from_a_missing_version_raises_11": "13 for a version that is not there",
    "test_a_branch_from_a_missing_branch_raises_22": "18 for a branch that is not there",
    "test_a_branch_that_others_come_from_raises_19": "13, though the table's state is at fault and not the request",
    # history
    "test_restoring_a_missing_version_raises_11": "an error without a code; version 0 is taken for the latest one",
    "test_restoring_in_a_missing_branch_raises_22": "4 for a branch that is not there",
    "test_a_committed_transaction_cannot_be_changed": "answers that all went well, and changes nothing",
    # indexes
    "test_vector_indexes_are_built_with_their_parameters[IVF_PQ]": "ignores num_sub_vectors",
    "test_vector_indexes_are_built_with_their_parameters[IVF_HNSW_FLAT]": "ignores m and ef_construction",
    "test_vector_indexes_are_built_with_their_parameters[IVF_HNSW_PQ]": "ignores num_sub_vectors",
    "test_vector_indexes_are_built_with_their_parameters[IVF_HNSW_SQ]": "ignores m and ef_construction",
    "test_training_parameters_of_vectors_reach_lance": "ignores sample_rate",
    "test_a_missing_column_raises_12[nested.nowhere]": "18 for some kinds of index",
    "test_a_missing_column_raises_12[text.inner]": "18 for some kinds of index",
    "test_a_missing_column_raises_12[Number]": "takes a column whose name differs in case",
    "test_statistics_tell_the_metric_of_vectors": "does not tell the metric",
    "test_an_index_of_a_branch_is_its_own": "ignores the branch, and changes the main one",
    "test_indexes_of_a_missing_branch_raise_22": "ignores the branch",
    **{
        f"test_what_an_index_cannot_be_raises_13[{case}]": "18 for bad input"
        for case in (
            "no vectors",
            "vectors in a tree",
            "struct in a tree",
            "numbers as text",
            "numbers as labels",
            "numbers as ngrams",
            "numbers as places",
            "hamming of floats",
            "tokenizer",
            "name of Lance's own",
        )
    },
    **{
        f"test_what_an_index_cannot_be_raises_13[{case}]": "ignores a parameter, and builds another index"
        for case in (
            "sub-vectors do not divide",
            "bits of PQ",
            "bits of SQ",
            "two sizes",
            "vector parameter of a tree",
            "metric of a tree",
            "text parameter of a tree",
            "graph parameter without a graph",
            "sub-vectors without PQ",
            "bits of flat",
            "empty name",
        )
    },
    "test_what_an_index_cannot_be_raises_13[language]": "an error without a code",
    # columns
    "test_rows_that_come_later_have_no_value_in_an_added_column[coalesce(some, 7)]": "the column must have no nulls",
    "test_rows_that_come_later_have_no_value_in_an_added_column['constant']": "the column must have no nulls",
    "test_rows_that_come_later_have_no_value_in_an_added_column[3]": "the column must have no nulls",
    "test_a_column_that_is_there_raises_20": "14, though nobody else is there",
    "test_bad_columns_raise_13": "18, or an error without a code; takes a name of Lance's own, which breaks the table",
    "test_columns_are_cast": "wants a text where the SDK's model has an object, so no request can say a type",
    "test_what_the_columns_do_not_allow_raises_20": "18; two nested columns may get the same name",
    "test_wrong_alterations_raise_13": "18, or an error without a code, or an empty name",
    "test_a_column_that_is_altered_twice_raises_13": "does one of the two",
    "test_changing_a_missing_column_raises_12": "18 when altering and dropping",
    "test_changing_a_path_that_is_none_raises_12_or_13": "18 when altering and dropping",
    "test_dropping_all_columns_raises_13": "18",
    "test_casting_a_column_that_has_an_index_raises_19": "cannot cast",
    "test_columns_of_a_branch_are_its_own": "ignores the branch, and changes the main one",
    "test_columns_of_a_missing_branch_raise_22": "ignores the branch",
    # metadata and statistics
    "test_schema_metadata_is_replaced_as_a_whole": "merges, where the specification says replace",
    "test_field_metadata_is_merged": "has no such operation",
    "test_field_metadata_is_replaced_if_asked": "has no such operation",
    "test_statistics_count_rows_that_are_there": "counts deleted rows",
    "test_statistics_of_an_empty_table": "cannot create a table without rows",
}
"""By the test's name, or by name and case as in `test_x[case]`: what the reference client does instead."""
