"""The two files that declare a table at a location.

`.lance-reserved` inside the directory declares the table. `.declared` at the root tells listings which directories
they must look into.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.errors import TableAlreadyExistsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.directory.manifest import Manifest
    from pennon.store import Store


class Reservation:
    """The files of one declaration."""

    def __init__(self, store: Store, location: str, *, contested: bool = False) -> None:
        """Prepare to declare a location. It is contested if a caller chose it, because others may choose it too."""
        self._store = store
        self._location = location
        self._path = layout.inside(location, layout.RESERVED_MARKER)
        self._body = layout.MARKER_BODY
        if contested:
            # A unique body lets the store's e-tag tell our own file from another client's.
            self._body += b" " + uuid.uuid4().hex.encode()
        self._e_tag: str | None = None

    def announce(self) -> None:
        """Write the file for listings. It comes first: alone it costs one look, the other alone would mislead."""
        self._store.put(layout.declared_marker(self._location), layout.MARKER_BODY)

    def try_commit(self) -> bool:
        """Write the file inside the directory; False if another client has done so."""
        self._e_tag = self._store.create(self._path, self._body)
        return self._e_tag is not None

    def commit(self) -> None:
        """Write the file inside the directory. Raises TableAlreadyExistsError if another client has done so."""
        if not self.try_commit():
            raise TableAlreadyExistsError(f"The location {self._location!r} is already declared")

    @contextmanager
    def undo_on_error(self, manifest: Manifest | None = None) -> Iterator[None]:
        """Delete both files if the block raises after they were written, unless `manifest` may refer to them."""
        try:
            yield
        except BaseException as error:
            is_kept = self._e_tag is None or (manifest is not None and manifest.may_refer_to(self._location, error))
            if not is_kept and self._store.delete_if(self._path, str(self._e_tag)):
                self._store.delete(layout.declared_marker(self._location))
                self._store.prune(self._location)
            raise
