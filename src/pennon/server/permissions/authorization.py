"""Check what a request needs, before anything is read or changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pennon.server.permissions.rights import Guard, Need, principal_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

ATTEMPT_KEY = "pennon.attempt"
"""The key of an ASGI scope that has what the request attempts."""


@dataclass
class Attempt:
    """What a request attempts, for the audit."""

    operation: str | None = None
    """None before the operation is known."""
    changes: bool = False
    """Whether it changes something if it is allowed."""
    needs: list[Need] = field(default_factory=list)
    is_denied: bool = False


def authorize(scope: Mapping[str, Any], guard: Guard, needs: Iterable[Need], *, operation: str, changes: bool) -> None:
    """Raise the guard's error unless the principal of a request has all rights that it needs."""
    found = scope.get(ATTEMPT_KEY)
    attempt = found if isinstance(found, Attempt) else Attempt()
    attempt.operation, attempt.changes, attempt.needs = operation, changes, list(needs)
    # Until every need is met, this is a denial.
    attempt.is_denied = True
    principal = principal_of(scope)
    for need in attempt.needs:
        guard.require(principal, need.right, need.identifier, kind=need.kind)
    attempt.is_denied = False
