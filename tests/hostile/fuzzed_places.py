"""Places for fuzzed catalogs: copies of one template, on a disk or in a bucket."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from typing import TYPE_CHECKING

import lance
import obstore
from obstore.store import S3Store

from tests.hostile.hostile_support import fingerprint
from tests.support import Root

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import S3Endpoint

_numbers = itertools.count()


class DiskPlace:
    """A directory that holds the root and, beside it, files that are none of the catalog's."""

    has_links = True

    def __init__(self, template: Path, work: Path) -> None:
        self._template = template
        self._work = work
        self.root = Root(str(work / "root"))
        self.outside = str(work / "outside")

    def reset(self) -> None:
        """Copy the template."""
        shutil.rmtree(self._work, ignore_errors=True)
        shutil.copytree(self._template, self._work)

    def write(self, path: str, body: bytes) -> None:
        """Write a file of the root, unless something is in its way."""
        target = os.path.join(self.root.uri, path)
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "xb") as file:
                file.write(body)
        except (FileExistsError, NotADirectoryError):
            return

    def link(self, path: str, target: str) -> None:
        """Create a symbolic link in the root, unless the name exists."""
        link = os.path.join(self.root.uri, path)
        try:
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(target, link)
        except (FileExistsError, NotADirectoryError):
            return

    def untouchable(self) -> list[object]:
        """Describe all files that no operation may change: beside the root, plain files in it, a nested catalog."""
        return [fingerprint(path) for path in (self.outside, f"{self.root.uri}/raw", f"{self.root.uri}/nested")]

    def dataset(self, path: str) -> lance.LanceDataset:
        """Open a table of the root with plain Lance."""
        return lance.dataset(f"{self.root.uri}/{path}")


class BucketPlace:
    """The same in a bucket; each copy has a prefix of its own."""

    has_links = False

    def __init__(self, template: Path, endpoint: S3Endpoint) -> None:
        self._files = {
            path.relative_to(template).as_posix(): path.read_bytes() for path in template.rglob("*") if path.is_file()
        }
        self._endpoint = endpoint
        self.reset()

    def reset(self) -> None:
        """Copy the template to a new prefix."""
        prefix = f"fuzzed/{next(_numbers)}"
        self._store = S3Store(self._endpoint.bucket, prefix=prefix, config=self._endpoint.storage_options())
        for path, body in self._files.items():
            obstore.put(self._store, path, body)
        self.root = Root(self._endpoint.uri(f"{prefix}/root"), self._endpoint.storage_options())
        self.outside = f"{prefix}/outside"

    def write(self, path: str, body: bytes) -> None:
        """Write an object of the root."""
        obstore.put(self._store, f"root/{path}", body)

    def link(self, path: str, target: str) -> None:
        """Do nothing: a bucket has no links."""

    def untouchable(self) -> list[object]:
        """Describe all objects that no operation may change."""
        return [
            {
                entry["path"]: hashlib.sha256(obstore.get(self._store, entry["path"]).bytes()).hexdigest()
                for batch in obstore.list(self._store, prefix=prefix)
                for entry in batch
            }
            for prefix in ("outside", "root/raw", "root/nested")
        ]

    def dataset(self, path: str) -> lance.LanceDataset:
        """Open a table of the root with plain Lance."""
        return lance.dataset(f"{self.root.uri}/{path}", storage_options=self.root.options)


Place = DiskPlace | BucketPlace
