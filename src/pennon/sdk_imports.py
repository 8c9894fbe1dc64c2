"""Defer the import of the SDK's models in processes that do not need them.

`lance_namespace` re-exports hundreds of pydantic models, which take two seconds to import. Many processes need only its
error classes, which are in a small module. Pennon's own processes and Spark's Python workers defer the rest. The
library never does so in other programs (docs/adr/0010).
"""

from __future__ import annotations

import importlib.util
import sys
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_DEFERRED = ("lance_namespace", "lance_namespace_urllib3_client", "lance_namespace_urllib3_client.models")


def defer() -> None:
    """Make the SDK's packages run their `__init__` on first use."""
    for name in _DEFERRED:
        _defer(name)


def _defer(name: str) -> None:
    """Put a package into `sys.modules` whose `__init__` runs when one of its names is first used.

    The module object is the package's own, and its submodules are imported in the ordinary way. So every import, in any
    order, gets the same classes.
    """
    parent, _, _ = name.rpartition(".")
    if name in sys.modules or (parent and parent not in sys.modules):
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    module.__getattr__ = _make_getattr(module, spec)  # type: ignore[method-assign]
    sys.modules[name] = module
    if parent:
        setattr(sys.modules[parent], name.rpartition(".")[2], module)


def _make_getattr(module: ModuleType, spec: ModuleSpec) -> Callable[[str], Any]:
    lock = RLock()

    def get_attribute(name: str) -> Any:  # noqa: ANN401 - any name of the package
        if name.startswith("__"):
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        with lock:
            if vars(module).pop("__getattr__", None) is not None and spec.loader is not None:
                spec.loader.exec_module(module)
        return getattr(module, name)

    return get_attribute
