"""Make commands start fast, by not importing large libraries that they do not use.

Only the command line's own process does this, before it imports anything large. The library never does (docs/adr/0010).
Commands that start Spark do not, because Spark needs pandas.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pennon import sdk_imports

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_HIDDEN = "pandas"


def prepare() -> None:
    """Defer the import of the SDK's models, and prevent the import of pandas."""
    sdk_imports.defer()
    _hide_pandas()


class _Absent:
    """A finder that raises for pandas."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Raise ModuleNotFoundError for pandas, and leave other modules to the next finders."""
        del path, target
        if name == _HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}: the command line does not use it", name=name)


def _hide_pandas() -> None:
    # pyarrow.dataset, which Lance imports, imports pandas if it is installed, which takes more than a second.
    # (`sys.modules["pandas"] = None`, the usual way, does not work: pyarrow uses that None as the module.)
    if _HIDDEN not in sys.modules and not any(finder is _Absent for finder in sys.meta_path):
        sys.meta_path.insert(0, _Absent)
