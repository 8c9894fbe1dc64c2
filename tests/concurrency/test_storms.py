"""Storms of drop, undrop, re-creation, overwriting and purge by eight processes that are killed and stopped at random.

Afterwards every live table opens and has all rows of one write that the logs allow, every dropped one can be restored,
no name is blocked, and a purge leaves nothing.
"""

from __future__ import annotations

import logging
import random
from collections import defaultdict

import pytest

from tests.concurrency.aftermath import find_faults, leftovers
from tests.concurrency.storm import Place, Storm
from tests.concurrency.workers import open_client
from tests.support import Root, list_tables

_log = logging.getLogger(__name__)
pytestmark = pytest.mark.concurrency

MODES = ["v1", "v2", "compatibility"]


def rage(places, tmp_path, rounds, *, kills, stops):
    """Run a storm and check everything that it leaves."""
    logs = tmp_path / "logs"
    logs.mkdir()
    storm = Storm(places, logs, random.randrange(1 << 32))
    _log.info("storm of the seed %d", storm.seed)
    storm.rage(rounds, kills=kills, stops=stops)
    calls = storm.calls()
    told = f"storm of the seed {storm.seed}: {storm.rounds} calls, {storm.kills} kills"
    _log.info(told)
    wrong = [
        text
        for index, place in enumerate(places)
        for text in aftermath(place, [call for call in calls if call.place == index])
    ]
    assert not wrong, "\n".join([told, *wrong])


def aftermath(place, calls):
    """As a new client, compare the state with the logs, use each name, purge all, and look for leftovers."""
    by_name = defaultdict(list)
    for call in calls:
        by_name[call.name].append(call)
    with open_client(place.root, place.mode) as ns:
        for name, history in by_name.items():
            yield from find_faults(place, ns, name, history, alone=name.startswith("own_"))
        # The S3 server lists a directory for a while after its files were deleted.
        assert place.root.options or list_tables(ns) == []
    yield from leftovers(place, calls)


def roots_on_disk(tmp_path, count):
    return [Root(str(tmp_path / f"root_{number}")) for number in range(count)]


def test_storm_on_disk(tmp_path):
    roots = roots_on_disk(tmp_path, len(MODES))
    places = [Place(root, mode) for root, mode in zip(roots, MODES, strict=True)]
    rage(places, tmp_path, 300, kills=5, stops=5)


@pytest.mark.s3
def test_storm_in_a_bucket(bucket, tmp_path):
    places = [Place(Root(f"{bucket.uri}/{mode}", bucket.options), mode) for mode in MODES]
    rage(places, tmp_path, 120, kills=3, stops=3)


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_long_storm_on_disk(tmp_path, mode):
    rage([Place(root, mode) for root in roots_on_disk(tmp_path, 1)], tmp_path, 3000, kills=60, stops=60)


@pytest.mark.soak
@pytest.mark.s3
@pytest.mark.parametrize("mode", MODES)
def test_long_storm_in_a_bucket(bucket, tmp_path, mode):
    rage([Place(bucket, mode)], tmp_path, 2000, kills=40, stops=40)
