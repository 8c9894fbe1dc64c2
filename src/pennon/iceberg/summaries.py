"""The summary of a snapshot that is a version of a Lance table."""

from __future__ import annotations

STAGED, SCHEME = "lance.staged-manifest", "lance.naming-scheme"
"""Which file the version was made of, and how its manifests are named."""
OPERATION = "operation"
_VERSION, _SIZE = "lance.version", "lance.manifest-size"
OURS = frozenset({STAGED, SCHEME, _VERSION, _SIZE})


def summary_of(version: int, scheme: str, staged: str, size: int | None) -> dict[str, str]:
    """Return the summary of a version. `staged` is the name of its staged file."""
    summary = {OPERATION: "overwrite", _VERSION: str(version), SCHEME: scheme, STAGED: staged}
    return summary if size is None else {**summary, _SIZE: str(size)}
