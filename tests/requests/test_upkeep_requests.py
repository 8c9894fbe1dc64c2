"""What the upkeep of the manifest adds to the price of mutations."""

from __future__ import annotations

import lance
import pytest
from lance.namespace import DirectoryNamespace as ReferenceNamespace

from tests.requests.request_budgets import UPKEEP_CALLS, UPKEEP_TOTAL, UPKEEP_VERSIONS
from tests.support import MODES, create_namespace, list_namespaces

pytestmark = pytest.mark.s3


@pytest.mark.parametrize("mode", list(UPKEEP_TOTAL))
def test_mutations_with_their_upkeep_keep_to_an_amortised_budget(mode, s3, s3_root, open_namespace):
    ns = open_namespace(s3_root, mode)

    with s3.count() as count:
        for number in range(UPKEEP_CALLS):
            create_namespace(ns, f"n{number:03}")
        ns.close()

    assert count.total <= UPKEEP_TOTAL[mode] * UPKEEP_CALLS, f"{count.total / UPKEEP_CALLS:.1f} requests per call"
    assert list_namespaces(open_namespace(s3_root, mode)) == [f"n{number:03}" for number in range(UPKEEP_CALLS)]


@pytest.mark.soak
@pytest.mark.interop
def test_upkeep_leaves_fewer_versions_than_the_reference_client(s3_root, open_namespace):
    ours = open_namespace(s3_root, "v2")
    for number in range(UPKEEP_CALLS):
        create_namespace(ours, f"n{number:03}")
    ours.close()
    other = s3_root.uri + "-reference"
    theirs = ReferenceNamespace(**{**s3_root.properties, "root": other}, **MODES["v2"])
    for number in range(UPKEEP_CALLS):
        create_namespace(theirs, f"n{number:03}")

    versions = len(lance.dataset(s3_root.uri + "/__manifest", storage_options=s3_root.options).versions())
    reference = len(lance.dataset(other + "/__manifest", storage_options=s3_root.options).versions())

    assert versions <= UPKEEP_VERSIONS < reference
