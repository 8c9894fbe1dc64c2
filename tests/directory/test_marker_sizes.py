"""The size of a marker encodes the minimum retention, and whether the marker is a claim."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pennon.directory.markers import marker
from pennon.directory.markers.marker import DELETED, PURGING, REVIVING, Marker, is_claim_size, minimum_retention_ms
from pennon.durations import parse_milliseconds

TIMES = st.one_of(st.integers(0, 1 << 50), st.integers(0, 400 * 86_400_000))
PROPERTIES = st.none() | st.dictionaries(st.text(max_size=50), st.text(max_size=300), max_size=8)


def dropped_marker(ttl_ms, **more):
    return Marker(DELETED, deletion_id="d" * 32, deleted_at_ms=1, ttl_ms=ttl_ms, **more).with_new_nonce()


@given(TIMES, PROPERTIES)
def test_size_never_encodes_more_than_the_retention(ttl_ms, properties):
    body = dropped_marker(ttl_ms, properties=properties).body()
    kept = minimum_retention_ms(len(body))
    assert kept <= ttl_ms
    assert kept * 2 > ttl_ms or ttl_ms > 369 * 86_400_000 or ttl_ms < 1000
    assert not is_claim_size(len(body))
    assert marker.parse_marker(body).ttl_ms == ttl_ms


@pytest.mark.parametrize("text", ["0", "1s", "59s", "1m", "15m", "59m", "1h", "12h", "23h", "1d", "7d", "2w", "369d"])
def test_size_encodes_whole_units_exactly(text):
    ttl_ms = parse_milliseconds(text, "it")
    assert minimum_retention_ms(len(dropped_marker(ttl_ms).body())) == ttl_ms


@given(st.sampled_from([REVIVING, PURGING]), PROPERTIES)
def test_size_of_a_claim_encodes_no_retention(state, properties):
    held = dropped_marker(parse_milliseconds("7d", "it"), properties=properties).with_lease(state, "create")
    assert minimum_retention_ms(len(held.body())) == 0
    assert is_claim_size(len(held.body()))


def test_size_of_a_first_format_marker_encodes_no_retention():
    assert minimum_retention_ms(len(json.dumps({"deleted_at_ms": 1 << 41, "ttl_ms": 1 << 30}))) == 0
