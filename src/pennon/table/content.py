"""What identifies the content of a version: a table that is created again in the same place has the same numbers."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lance import LanceDataset

# Lance shows the machine's own time, and zones differ by quarters of an hour: the rest is the same everywhere.
_ZONE_MINUTES = 15


def content_of(dataset: LanceDataset) -> str:
    """Return what identifies the content of an open version, in any process; nothing is requested.

    Names of data files are random, so no file of a table is one of the table that was there before. Branches may share
    files with a branch of the same name that was there before; the moment of the commit tells those apart.
    """
    made: Any = dataset.get_version()
    moment = made["timestamp"]
    ids = sorted(dataset.fragment_ids())
    ends = [dataset.get_fragment(number) for number in {*ids[:1], *ids[-1:]}]
    files = sorted(file.path for fragment in ends if fragment is not None for file in fragment.metadata.files)
    parts = [moment.minute % _ZONE_MINUTES, moment.second, moment.microsecond, made["metadata"], files]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
