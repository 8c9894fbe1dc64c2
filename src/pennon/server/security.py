"""What secures a server: the policy, the guard, the audit and the credentials for clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.server.permissions.audit import AuditLog
from pennon.server.permissions.guard import choose_guard
from pennon.server.permissions.policy_file import PolicyFile
from pennon.server.vending.settings import load_settings
from pennon.server.vending.vendor import Vending, make_vending

if TYPE_CHECKING:
    from pathlib import Path

    from pennon.server.permissions.rights import Guard


@dataclass(frozen=True)
class Security:
    """The parts; each may be missing."""

    policy: PolicyFile | None
    guard: Guard
    audit: AuditLog | None
    vending: Vending | None

    @classmethod
    def open(cls, policy: Path | None, audit_log: str | None, vending: Path | None) -> Security:
        """Open the files that are given. Raises InvalidInputError if one of them is not valid."""
        source = None if policy is None else PolicyFile.open(policy)
        return cls(
            source,
            choose_guard(source),
            None if audit_log is None else AuditLog.open(audit_log),
            None if vending is None else make_vending(load_settings(vending)),
        )
