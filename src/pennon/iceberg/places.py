"""Where tables are: the root, their directories, the stores behind them, and the options that open them."""

from __future__ import annotations

import re
import uuid
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

from pennon.config import EXPIRY
from pennon.errors import InvalidInputError
from pennon.iceberg.vended_options import parse_options
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.store import Amount, open_store
from pennon.store.root import make_root_absolute

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.iceberg.entry import Entry
    from pennon.iceberg.settings import IcebergSettings
    from pennon.store import Store

METADATA_FOLDER = "__iceberg"
_ODD = re.compile(r"[^0-9A-Za-z_.-]+")
_NEW = re.compile(r"[0-9a-f]{32}_[0-9A-Za-z_.-]+")
_LONGEST_NAME = 100
_MOST_STORES = 64


class Places:
    """The stores that tables lie in."""

    def __init__(self, settings: IcebergSettings) -> None:
        self._settings = settings
        self._lock = Lock()
        self._stores: OrderedDict[tuple[object, ...], Store] = OrderedDict()
        self.root = None if settings.root is None else open_store(make_root_absolute(settings.root), self._given)

    @property
    def _given(self) -> dict[str, str]:
        return dict(self._settings.storage_options)

    def options(self, entry: Entry | None, server: Mapping[str, str]) -> dict[str, str]:
        """Return the storage options for a table. The user's settings override those of the server."""
        if entry is None or not self._settings.vends_credentials or not is_remote(entry.location):
            return self._given
        handed = {**server, **entry.config}
        for credential in entry.credentials:
            if isinstance(credential, dict) and entry.location.startswith(str(credential.get("prefix") or "")):
                config = credential.get("config")
                handed.update(
                    {str(key): str(value) for key, value in config.items()} if isinstance(config, dict) else {}
                )
        return {**parse_options(handed), **self._given}

    def store(self, location: str, options: dict[str, str]) -> Store:
        """Open the store whose root is a table's directory."""
        options = {key: value for key, value in options.items() if key != EXPIRY}
        key = (location, *sorted(options.items()))
        with self._lock:
            if key not in self._stores:
                self._stores[key] = open_store(check_location(location), options)
                while len(self._stores) > _MOST_STORES:
                    # Another thread may still use it, so it is not closed here.
                    self._stores.popitem(last=False)
            self._stores.move_to_end(key)
            return self._stores[key]

    def new(self, identifier: Identifier) -> str | None:
        """Return a new directory below the root, or None if there is no root."""
        if self.root is None:
            return None
        return self.root.uri(f"{uuid.uuid4().hex}{name_ending(identifier)}")

    def is_new_name(self, path: str) -> bool:
        """Return True if a path below the root may come from `new`."""
        return _NEW.fullmatch(path) is not None

    def below_root(self, location: str) -> str | None:
        """Return the path of a location below the root, or None if it is elsewhere or the root itself."""
        path = None if self.root is None else self.root.relative(location.rstrip("/"))
        if path is None or any(part in {"", ".", ".."} for part in path.split("/")):
            return None
        return None if path.split("/")[0] == METADATA_FOLDER else path

    def metadata_path(self, location: str) -> str | None:
        """Return where a server may keep its own files about a table, which is never inside the table."""
        path = self.below_root(location)
        if path is None or self.root is None:
            return None
        return self.root.uri(f"{METADATA_FOLDER}/{path}")

    def delete(self, path: str) -> Amount:
        """Delete a table's directory below the root, and the server's files about it. Returns what was deleted."""
        if self.root is None:
            return Amount()
        return self.root.delete_tree(path) + self.root.delete_tree(f"{METADATA_FOLDER}/{path}")

    def close(self) -> None:
        """Close all stores."""
        with self._lock:
            stores, self._stores = list(self._stores.values()), OrderedDict()
        for store in [*stores, *([] if self.root is None else [self.root])]:
            store.close()


def name_ending(identifier: Identifier) -> str:
    """Return the ending of the directories of new tables with this name."""
    return "_" + _ODD.sub("_", object_id(identifier))[-_LONGEST_NAME:]


def check_location(location: str, identifier: Identifier | None = None) -> str:
    """Return a location in canonical form. Raises InvalidInputError if it is not the address of a directory."""
    of = "" if identifier is None else f" of {format_identifier(identifier)}"
    text = str(location or "").strip()
    if not text or "\0" in text or ".." in text.split("/") or "?" in text or "#" in text:
        raise InvalidInputError(f"Bad location {location!r}{of}")
    body = text.partition("://")[2] if "://" in text else text.removeprefix("file:")
    if not body.strip("/") or ("://" not in text and not body.startswith("/")):
        raise InvalidInputError(f"The location {location!r}{of} is not a complete address of a directory")
    # Java writes `file:/x` for `file:///x`.
    return f"file://{body}" if text.startswith("file:/") and "://" not in text else text.rstrip("/")


def is_remote(location: str) -> bool:
    """Return True if a location is in an object store."""
    return "://" in location and not location.startswith("file:")
