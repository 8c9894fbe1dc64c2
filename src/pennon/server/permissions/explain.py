"""Why a principal may or may not do something."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.identifiers import format_identifier
from pennon.server.lance.operations import OPERATIONS
from pennon.server.permissions.rights import Kind, Principal, Right
from pennon.server.permissions.roles import Role

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.server.permissions.policy import Policy


@dataclass(frozen=True)
class Explanation:
    """An answer of the policy."""

    right: Right
    allowed: bool
    visible: bool
    """Whether the principal may know of the object."""
    reasons: tuple[str, ...]


def explain(policy: Policy, principal: Principal, action: str, identifier: Identifier, *, kind: Kind) -> Explanation:
    """Return whether a policy allows an action, and why. Raises InvalidInputError for an unknown action."""
    right = parse_action(action)
    rights = policy.rights(principal, identifier, kind)
    visible = Right.SEE in rights
    if right in rights:
        grants = policy.explain(principal, right, identifier, kind)
        reasons = [grant.describe() for grant in grants] or [_seen_from_below(policy, principal, identifier)]
    else:
        needed = ", ".join(role.value for role in Role if right in role.rights)
        subjects = ", ".join(policy.subjects(principal))
        what = format_identifier(identifier)
        reasons = [f"no grant to {subjects} has the right {right.value!r} on {what}: it needs a role of {needed}"]
        related = policy.related(principal, identifier, kind)
        reasons += [f"{grant.describe()}, which is not enough" for grant in related if grant.covers(identifier, kind)]
        if not visible:
            reasons.append(f"{what} is not visible: requests are answered as if it did not exist")
    return Explanation(right, right in rights, visible, tuple(reasons))


def parse_action(action: str) -> Right:
    """Return the right that an action names, or that an operation needs on its table or namespace.

    Raises InvalidInputError if there is none.
    """
    known = [right.value for right in Right]
    if action.strip().lower() in known:
        return Right(action.strip().lower())
    operation = next((one for one in OPERATIONS if one.id.lower() == action.strip().lower()), None)
    if operation is not None and "{id}" in operation.path:
        # A request may need rights on several objects: the first one is its own.
        example = operation.request.model_construct(id=["namespace", "table"])
        return next(need.right for need in operation.needs(example))
    raise InvalidInputError(f"Unknown action {action!r}; known: {', '.join(known)}, and names such as 'QueryTable'")


def _seen_from_below(policy: Policy, principal: Principal, identifier: Identifier) -> str:
    below = policy.related(principal, identifier, "namespace")
    if not below:
        return "everybody who is authenticated can see the root namespace"
    return f"{below[0].describe()}, which makes the namespaces above it visible"
