"""Every operation keeps to its budget of store requests, and needs fewer than pylance's own client."""

from __future__ import annotations

import obstore
import pytest
from lance.namespace import DirectoryNamespace as ReferenceNamespace
from obstore.store import S3Store

from tests.requests.request_budgets import BUDGETS, CHILD, COMPARED, OPERATIONS, ROOT, cases, warm_up
from tests.support import MODES, Root, create_namespace, create_table, describe_table, table_exists

pytestmark = pytest.mark.s3

WRITING = {"PUT", "POST", "DELETE", "PATCH"}


def count_requests(s3, ns, mode, operation, place):
    """Count the requests of one operation by a warm client."""
    steps = OPERATIONS[operation]
    parent = warm_up(ns, mode, place)
    steps.prepare(ns, parent)
    with s3.count() as count:
        steps.call(ns, parent)
    return count


@pytest.mark.parametrize(
    ("budget", "mode", "limit"),
    [
        pytest.param(budget, mode, limit, id=f"{budget.operation}-{budget.place}-{mode}")
        for budget, mode, limit in cases()
    ],
)
def test_operation_keeps_to_its_budget(budget, mode, limit, *, s3, s3_root, open_namespace):
    count = count_requests(s3, open_namespace(s3_root, mode), mode, budget.operation, budget.place)

    assert count.total <= limit, count.summary()
    if OPERATIONS[budget.operation].reads:
        assert not [str(request) for request in count.requests if request.method in WRITING]


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: f"{budget.operation}-{budget.place}")
def test_budgets_stay_below_the_recorded_figures_of_the_reference(budget):
    limits = [limit for limit in (budget.v1, budget.v2, budget.compatibility) if limit is not None]

    assert budget.reference is None or max(limits) < budget.reference


@pytest.mark.interop
@pytest.mark.parametrize("place", [ROOT, CHILD])
@pytest.mark.parametrize("mode", ["v2", "compatibility"])
@pytest.mark.parametrize("operation", COMPARED)
def test_operation_needs_fewer_requests_than_the_reference(operation, mode, place, *, s3, s3_root, open_namespace):
    ours = count_requests(s3, open_namespace(s3_root, mode), mode, operation, place)
    other_root = Root(s3_root.uri + "-reference", s3_root.options)
    theirs = count_requests(s3, ReferenceNamespace(**other_root.properties, **MODES[mode]), mode, operation, place)

    assert ours.total < theirs.total, f"{ours.summary()}\nThe reference made {theirs.summary()}"


@pytest.mark.parametrize("operation", ["table_exists", "describe_table"])
@pytest.mark.parametrize("place", [ROOT, CHILD])
def test_warm_exists_and_describe_in_v2_make_at_most_one_request(operation, place, s3, s3_root, open_namespace):
    count = count_requests(s3, open_namespace(s3_root, "v2"), "v2", operation, place)

    assert count.total <= 1, count.summary()


@pytest.mark.parametrize("warm_reads", [2, 20])
def test_warm_reads_cost_the_same_after_many_reads(warm_reads, s3, s3_root, open_namespace):
    ns = open_namespace(s3_root, "v2")
    create_table(ns, "x")

    with s3.count() as count:
        for _ in range(warm_reads):
            describe_table(ns, "x")

    assert count.total <= warm_reads, count.summary()


def test_a_read_after_a_commit_of_another_client_reads_only_what_changed(s3, s3_root, open_namespace):
    ours, other = open_namespace(s3_root, "v2"), open_namespace(s3_root, "v2")
    for number in range(10):
        create_table(other, f"t{number}")
    table_exists(ours, "t0")
    create_table(other, "new")

    with s3.count() as count:
        table_exists(ours, "new")

    # The version check, the new version's manifest, and the one new fragment.
    assert count.total <= 4, count.summary()


def test_a_new_client_reads_the_catalog_once(s3, s3_root, open_namespace):
    writer = open_namespace(s3_root, "v2")
    for number in range(10):
        create_namespace(writer, f"n{number}")
    writer.close()
    ns = open_namespace(s3_root, "v2")

    with s3.count() as count:
        answers = [ns.namespace_exists({"id": [f"n{number}"]}) for number in range(10)]

    assert len(answers) == 10
    # Open (2), each of ten fragments once, and a version check for each of the nine later reads.
    assert count.total <= 2 + 10 + 9, count.summary()


@pytest.mark.parametrize("mode", ["v1", "compatibility"])
def test_a_table_of_many_files_is_found_by_one_request_more_at_most(mode, s3, s3_root, open_namespace):
    ns = open_namespace(s3_root, mode)
    create_table(ns, "small")
    create_table(ns, "large")
    store = S3Store(s3.endpoint.bucket, config=s3.endpoint.storage_options())
    prefix = s3_root.uri.partition("://")[2].partition("/")[2]
    for number in range(1100):
        # Names that sort before and after those of the versions.
        obstore.put(store, f"{prefix}/large.lance/{'_deletions' if number % 2 else 'data'}/{number:05}", b"x")

    with s3.count() as small:
        describe_table(ns, "small", check_declared=True)
    with s3.count() as large:
        answer = describe_table(ns, "large", check_declared=True)

    assert answer.is_only_declared is False
    assert large.total <= small.total + 1, large.summary()
