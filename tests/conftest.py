"""Fixtures shared by all tests: roots on every kind of store, namespaces in every mode."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from pennon import DirectoryNamespace
from tests.soak_rules import mark_soak_cases
from tests.support import MODES, Root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_numbers = itertools.count()
# A busy machine makes any example slow.
hypothesis.settings.register_profile("pennon", deadline=None)
hypothesis.settings.load_profile("pennon")

# Processes that tests start import the helpers as this one does.
_REPOSITORY = str(Path(__file__).parent.parent)
os.environ["PYTHONPATH"] = os.pathsep.join([_REPOSITORY, *filter(None, [os.environ.get("PYTHONPATH")])])

# For the sessions of all tests, and of the processes that they start.
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark" / "settings"))

# A shell ignores Ctrl-C in background jobs, and processes that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(config, items) -> None:
    """Mark cases that other cases cover as soak."""
    mark_soak_cases(items, all_collected=config.args_source is pytest.Config.ArgsSource.TESTPATHS)


@pytest.fixture(params=list(MODES))
def mode(request) -> str:
    """Return one of the three modes."""
    return request.param


@pytest.fixture(params=["local", "memory"])
def root(request, tmp_path) -> Iterator[Root]:
    """Return an empty root on local disk and in memory."""
    if request.param == "local":
        yield Root(str(tmp_path / "root"))
        return
    name = f"memory://test-{next(_numbers)}-{uuid.uuid4().hex}"
    yield Root(name)
    with DirectoryNamespace(root=name) as namespace:
        shutil.rmtree(Path(namespace._store.identity()), ignore_errors=True)


@pytest.fixture
def open_namespace() -> Iterator[Callable[..., DirectoryNamespace]]:
    """Open namespaces that are closed at the end of the test."""
    opened: list[DirectoryNamespace] = []

    def open_one(root: Root | str, mode: str = "compatibility", **properties: str) -> DirectoryNamespace:
        where = root if isinstance(root, Root) else Root(str(root))
        namespace = DirectoryNamespace(**where.properties, **MODES[mode], **properties)
        opened.append(namespace)
        return namespace

    yield open_one
    for namespace in opened:
        namespace.close()


@pytest.fixture
def namespace(root, mode, open_namespace) -> DirectoryNamespace:
    """Open an empty root in each mode on each store."""
    return open_namespace(root, mode)


@pytest.fixture
def managed(tmp_path, open_namespace) -> DirectoryNamespace:
    """Open an empty root whose catalog manages the versions of its tables."""
    namespace = open_namespace(tmp_path / "root", "v2")
    namespace.enable_table_version_management()
    return namespace
