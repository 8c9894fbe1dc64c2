"""Declaring a table at a location: the marker inside of its directory, and the one that tells listings to look."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.errors import TableAlreadyExistsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.store import Store


class Reservation:
    """The markers of one declaration."""

    def __init__(self, store: Store, location: str, *, contested: bool = False) -> None:
        """Prepare to declare a location; a contested one is a caller's choice, which others may make as well."""
        self._store = store
        self._location = location
        self._path = layout.inside(location, layout.RESERVED_MARKER)
        self._body = layout.MARKER_BODY
        if contested:
            # No two have the same body, so that a store's answer can tell one's own marker from another's.
            self._body += b" " + uuid.uuid4().hex.encode()
        self._e_tag: str | None = None

    def announce(self) -> None:
        """Write the marker for listings. It comes first: alone it costs a look, the other alone would mislead."""
        self._store.put(layout.declared(self._location), layout.MARKER_BODY)

    def make(self) -> None:
        """Write the marker inside of the directory; whoever comes second to a location gets 5."""
        self._e_tag = self._store.create(self._path, self._body)
        if self._e_tag is None:
            raise TableAlreadyExistsError(f"Something was declared at {self._location!r} already")

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Take the markers away again if the declaration fails after they were written."""
        try:
            yield
        except BaseException:
            if self._e_tag is not None and self._store.delete_if(self._path, self._e_tag):
                self._store.delete(layout.declared(self._location))
                self._store.prune(self._location)
            raise
