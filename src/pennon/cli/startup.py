"""What makes a command start fast: parts of large libraries that no command here uses are not imported.

Only a process that is the command line's own does this, before it imports anything large; the library never does
(docs/adr/0010). Commands that start Spark leave it out: they need pandas.
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
    """Let the SDK's packages run their own code when somebody asks for it, and keep pandas out of this process."""
    sdk_imports.defer()
    _hide_pandas()


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
