"""What makes a command start fast: parts of large libraries that no command here uses are not imported.

Only a process that is the command line's own does this, before it imports anything large; the library never does
(docs/adr/0010). Commands that start Spark leave it out: they need pandas.
"""

from __future__ import annotations

import importlib.util
import sys
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# `lance_namespace` re-exports hundreds of pydantic models, which take two seconds to build. What a command needs of it
# are its error classes, in a small module of their own.
_DEFERRED = ("lance_namespace", "lance_namespace_urllib3_client", "lance_namespace_urllib3_client.models")
_HIDDEN = "pandas"


def prepare() -> None:
    """Let the SDK's packages run their own code when somebody asks for it, and keep pandas out of this process."""
    for name in _DEFERRED:
        _defer(name)
    _hide_pandas()


def _defer(name: str) -> None:
    """Put a package into `sys.modules` whose `__init__` runs when one of its own names is asked for.

    The module object is the package's own from the beginning, and its submodules are imported in the ordinary way. So
    whoever imports what, in whichever order, gets the same classes.
    """
    parent, _, _ = name.rpartition(".")
    if name in sys.modules or (parent and parent not in sys.modules):
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    module.__getattr__ = _executing(module, spec)  # type: ignore[method-assign]
    sys.modules[name] = module
    if parent:
        setattr(sys.modules[parent], name.rpartition(".")[2], module)


def _executing(module: ModuleType, spec: ModuleSpec) -> Callable[[str], Any]:
    lock = RLock()

    def ask(name: str) -> Any:  # noqa: ANN401 - whatever the package has under that name
        if name.startswith("__"):
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        with lock:
            if vars(module).pop("__getattr__", None) is not None and spec.loader is not None:
                spec.loader.exec_module(module)
        return getattr(module, name)

    return ask


class _Absent:
    """A finder that finds nothing, for certain."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Refuse pandas, and leave everything else to the finders behind this one."""
        del path, target
        if name == _HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}: the command line does without it", name=name)


def _hide_pandas() -> None:
    # pyarrow.dataset, which Lance imports, imports pandas wherever it is installed: over a second, for nothing.
    # (`sys.modules["pandas"] = None`, the usual way, does not do: pyarrow takes that None for the module.)
    if _HIDDEN not in sys.modules and not any(finder is _Absent for finder in sys.meta_path):
        sys.meta_path.insert(0, _Absent)
