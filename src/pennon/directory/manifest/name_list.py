"""Long sorted lists of names that stay columns: a name becomes a Python text when it is asked for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray


class NameList(Sequence[str]):
    """Names at some positions of a column, without those that were removed, and with those that were added since."""

    def __init__(self, positions: NDArray[Any], decode: Callable[[NDArray[Any]], list[str]]) -> None:
        self._positions = positions.astype(np.uint32)
        self._decode = decode
        self._added: list[str] = []
        self._before: list[int] = []
        """For each added name, the number of names of the column before it."""

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._positions) + len(self._added)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Return a name, or the names of a slice without a step."""
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return self._names_between(start, max(start, stop))
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(index)
        return self._names_between(number, number + 1)[0]

    def __iter__(self) -> Iterator[str]:
        """Iterate over all names."""
        return iter(self[:])

    def add(self, name: str) -> None:
        """Insert a name."""
        place = bisect_left(self._added, name)
        self._added.insert(place, name)
        self._before.insert(place, self._column_place(name))

    def remove(self, name: str) -> None:
        """Remove a name, if it is in the list."""
        place = bisect_left(self._added, name)
        if place < len(self._added) and self._added[place] == name:
            del self._added[place], self._before[place]
            return
        place = self._column_place(name)
        if place < len(self._positions) and self._column_name(place) == name:
            self._positions = np.delete(self._positions, place)
            self._before = [before - 1 if before > place else before for before in self._before]

    def _names_between(self, start: int, stop: int) -> list[str]:
        first, last = self._count_added(start), self._count_added(stop)
        names = self._decode(self._positions[start - first : stop - last])
        return sorted(names + self._added[first:last]) if first < last else names

    def _count_added(self, index: int) -> int:
        """Return how many of the first names, up to an index, were added."""
        return bisect_left(range(len(self._added)), index, key=lambda place: self._before[place] + place)

    def _column_place(self, name: str) -> int:
        return bisect_left(range(len(self._positions)), name, key=self._column_name)

    def _column_name(self, place: int) -> str:
        return self._decode(self._positions[place : place + 1])[0]


def select_names(names: Sequence[str], after: str, limit: int | None) -> Sequence[str]:
    """Return the part of a sorted list after a name, with at most so many names."""
    if not after and limit is None:
        return names
    start = bisect_right(names, after) if after else 0
    return names[start : None if limit is None else start + limit]
