"""Entries of the root that cannot be used: what they are, why, and how to fix them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One entry of the root that was skipped."""

    entry: str
    reason: str
    fix: str
