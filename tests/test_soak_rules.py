"""The rules for soak cases."""

from __future__ import annotations

import pytest

from tests import soak_rules
from tests.soak_rules import Rule, mark_soak_cases


def test_rule_that_matches_no_test_raises_usage_error(request, monkeypatch):
    monkeypatch.setattr(soak_rules, "RULES", [Rule("no_such_directory/", (), "it matches nothing")])
    with pytest.raises(pytest.UsageError, match="no_such_directory"):
        mark_soak_cases(request.session.items, all_collected=True)


def test_rule_may_match_nothing_in_a_partial_collection(request, monkeypatch):
    monkeypatch.setattr(soak_rules, "RULES", [Rule("no_such_directory/", (), "it matches nothing")])
    mark_soak_cases(request.session.items, all_collected=False)
    assert not list(request.node.iter_markers("soak"))
