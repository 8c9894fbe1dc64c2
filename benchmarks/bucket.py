"""A bucket for benchmarks: SeaweedFS, as near or as far as the benchmark asks."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import S3Endpoint

EACH_WAY = 0.010
"""The seconds that the proxy adds to a request, and again to its response."""


@contextmanager
def open_bucket(each_way: float = EACH_WAY) -> Iterator[S3Endpoint]:
    """Start SeaweedFS behind a proxy that adds a delay each way, and stop both at the end of the block."""
    sys.path.append(str(Path(__file__).parent.parent))  # the servers of the tests
    from tests.servers import SeaweedS3
    from tests.slow_proxy import SlowProxy

    with SeaweedS3() as server, SlowProxy(server.endpoint, delay=each_way) as proxy:
        yield proxy.endpoint
