"""Splitting what a micro-batch reads into tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.spark.reading.splits import FragmentSize, Split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pennon.spark.reading.scan import Scan
    from pennon.spark.streaming.stream_settings import StreamSettings


def split_fragments(wanted: Scan, fragments: Sequence[FragmentSize], settings: StreamSettings) -> list[Split]:
    """Return splits of whole fragments of a scan."""
    return replace(wanted, fragments=tuple(fragments)).splits(settings.parallelism, max_bytes=settings.split_bytes)


def split_window(
    wanted: Scan, fragments: Sequence[FragmentSize], skip: int, rows: int, settings: StreamSettings
) -> Iterator[Split]:
    """Yield splits of `rows` rows after the first `skip` rows of consecutive fragments."""
    whole: list[FragmentSize] = []
    first = 0
    for fragment in fragments:
        start, stop = max(skip - first, 0), min(skip + rows - first, fragment.rows)
        first += fragment.rows
        if stop <= start:
            continue
        if start == 0 and stop == fragment.rows:
            whole.append(fragment)
            continue
        yield from split_fragments(wanted, whole, settings)
        whole.clear()
        piece = replace(fragment, rows=stop - start, bytes=fragment.bytes * (stop - start) // fragment.rows)
        for split in split_fragments(wanted, [piece], settings):
            begin, end = split.start or 0, piece.rows if split.stop is None else split.stop
            yield Split(split.fragments, start + begin, start + end)
    yield from split_fragments(wanted, whole, settings)
