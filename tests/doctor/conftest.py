"""Catalogs that the doctor examines, on disks and in buckets."""

from __future__ import annotations

import itertools
import uuid
from typing import TYPE_CHECKING

import pytest

from pennon import LakeCatalog
from tests.doctor.patients import Patient, fill
from tests.servers import CountingS3
from tests.support import MODES, Root, wait_for_background_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_numbers = itertools.count(1)
KINDS = (*MODES, "managed")


@pytest.fixture(scope="session")
def s3() -> Iterator[CountingS3]:
    """Return a server that counts requests."""
    with CountingS3() as server:
        yield server


@pytest.fixture
def open_patient(tmp_path, request, open_namespace) -> Callable[..., Patient]:
    """Create a catalog with tables of each kind, on a disk or in a bucket."""

    def create(kind: str, store: str = "disk") -> Patient:
        if store == "disk":
            root = Root(str(tmp_path / f"root-{next(_numbers)}"))
        else:
            endpoint = request.getfixturevalue("s3").endpoint
            root = Root(endpoint.uri(f"doctor-{uuid.uuid4().hex}"), endpoint.storage_options())
        mode = "v2" if kind == "managed" else kind
        namespace = open_namespace(root, mode)
        if kind == "managed":
            namespace.enable_table_version_management()
        fill(namespace, kind)
        wait_for_background_work()
        return Patient(root, mode, namespace, LakeCatalog(namespace, progress=False))

    return create


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    """Return each kind of directory catalog."""
    return request.param


@pytest.fixture
def patient(open_patient, kind) -> Patient:
    """Create a healthy catalog of each kind on a disk."""
    return open_patient(kind)
