"""Pages of listings: limits, tokens, and changes between two pages."""

from __future__ import annotations

import pytest

from pennon.testing import Paging
from pennon.testing.paging import ALL, KINDS, Listing
from tests.contract.disk import OnDisk
from tests.support import create_table, fails


class TestPaging(OnDisk, Paging):
    @pytest.fixture(
        params=[*(("v1", kind) for kind in KINDS[:2]), *((m, k) for m in ("v2", "compatibility") for k in KINDS)],
        ids="-".join,
    )
    def listing(self, request, root, open_namespace):
        mode, kind = request.param
        return Listing(open_namespace(root, mode), kind)

    def test_the_plain_last_name_is_a_token(self, seven):
        assert seven.page(limit=2, token="n3")[0] == ["n4", "n5"]
        assert seven.page(token="n3") == (ALL[4:], None)
        seven.remove("n3")
        assert seven.page(limit=2, token="n3")[0] == ["n4", "n5"]
        assert seven.page(limit=1, token="a")[0] == ["n0"]
        assert seven.page(limit=1, token="n6") == seven.page(token="z") == ([], None)

    def test_invalid_token_is_rejected(self, seven):
        for token in ("p1.%%%", "p1.é", "p1.gICA", "p1."):
            with fails(13, naming=token):
                seven.page(limit=2, token=token)


def test_tokens_are_valid_for_other_clients(root, mode, open_namespace):
    ns, other = open_namespace(root, mode), open_namespace(root, mode)
    for number in range(4):
        create_table(ns, f"t{number}")
    token = ns.list_tables({"limit": 2}).page_token
    assert other.list_tables({"page_token": token}).tables == ["t2", "t3"]
