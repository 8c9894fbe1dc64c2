"""Policies for tests, with the keys of their users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.server.permissions.keys import create_key

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class WrittenPolicy:
    """A policy file, and the key of each of its users."""

    file: Path
    keys: dict[str, str]


def write_policy(file: Path, users: list[str], rest: str) -> WrittenPolicy:
    """Write a policy with a new key for each user; `rest` has the other sections."""
    made = {user: create_key() for user in users}
    lines = "\n".join(f"  {key.line(user)}" for user, key in made.items())
    file.write_text(f"keys:\n{lines}\n{rest}")
    return WrittenPolicy(file, {user: key.text for user, key in made.items()})
