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
    "test_a_branch_that_others_come_from_raises_19": "13, though nothing is wrong with the request but the table's state",
    # history
    "test_restoring_a_missing_version_raises_11": "an error without a code; version 0 is taken for the latest one",
    "test_restoring_in_a_missing_branch_raises_22": "4 for a branch that is not there",
    "test_a_committed_transaction_cannot_be_changed": "answers that all went well, and changes nothing",
}
"""By the test's name, or by name and case as in `test_x[case]`: what the reference client does instead."""
