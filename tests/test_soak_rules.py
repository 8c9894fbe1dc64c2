"""The rules that leave cases to the soak run."""

from __future__ import annotations

import pytest

from tests import soak_rules
from tests.soak_rules import Rule, leave_to_the_soak


def test_a_rule_that_matches_no_test_is_an_error(request, monkeypatch):
    monkeypatch.setattr(soak_rules, "RULES", [Rule("no_such_directory/", (), "it matches nothing")])
    with pytest.raises(pytest.UsageError, match="no_such_directory"):
        leave_to_the_soak(request.session.items, all_collected=True)


def test_a_rule_may_match_nothing_if_only_some_tests_were_collected(request, monkeypatch):
    monkeypatch.setattr(soak_rules, "RULES", [Rule("no_such_directory/", (), "it matches nothing")])
    leave_to_the_soak(request.session.items, all_collected=False)
    assert not list(request.node.iter_markers("soak"))
