"""Where the reference client, pylance's DirectoryNamespace, does something else, and why that is wrong."""

from __future__ import annotations

reference_differs: dict[str, str] = {}
"""By the test's name, or by name and case as in `test_x[case]`: what the reference client does instead."""
