"""Every operation keeps to its budget of dependent requests: those that it makes one after the other.

A proxy holds each request for so long that requests which do not wait for each other overlap. A busy machine can only
make a chain look longer than it is, so a chain that is too long is measured again.
"""

from __future__ import annotations

import time

import pytest

from tests.requests.request_budgets import BUDGETS, DEPTHS, OPERATIONS, depth_cases, warm_up
from tests.slow_proxy import SlowProxy, longest_chain
from tests.support import Root

pytestmark = pytest.mark.s3

EACH_WAY = 0.02
ATTEMPTS = 5


@pytest.fixture(scope="module")
def proxy(s3):
    with SlowProxy(s3.endpoint, delay=0.0) as proxy:
        yield proxy


def find_longest_chain(proxy, ns, mode, operation, place):
    """Return the longest chain of requests of one operation by a warm client."""
    steps = OPERATIONS[operation]
    parent = warm_up(ns, mode, place)
    steps.prepare(ns, parent)
    proxy.clear()
    proxy.set_delay(EACH_WAY)
    try:
        steps.call(ns, parent)
        returned = time.monotonic()
    finally:
        proxy.set_delay(0.0)
    return longest_chain(request for request in proxy.requests() if request.end <= returned)


@pytest.mark.parametrize(
    ("operation", "place", "mode", "limit"), [pytest.param(*case, id="-".join(case[:3])) for case in depth_cases()]
)
def test_operation_keeps_to_its_depth(operation, place, mode, limit, *, proxy, s3_root, open_namespace):
    chains = []
    for attempt in range(ATTEMPTS):
        root = Root(f"{s3_root.uri}-{attempt}", proxy.endpoint.storage_options())
        chains.append(find_longest_chain(proxy, open_namespace(root, mode), mode, operation, place))
        if len(chains[-1]) <= limit:
            break

    shortest = min(chains, key=len)
    assert len(shortest) <= limit, "\n".join(map(str, shortest))


def test_every_budget_of_requests_has_a_depth():
    budgets = {(budget.operation, budget.place): budget for budget in BUDGETS}

    assert [(depth.operation, depth.place) for depth in DEPTHS] == list(budgets)
    for depth in DEPTHS:
        requests = budgets[depth.operation, depth.place]
        for mode in ("v1", "v2", "compatibility"):
            most, longest = getattr(requests, mode), getattr(depth, mode)
            assert (most is None) == (longest is None)
            assert most is None or longest <= most
