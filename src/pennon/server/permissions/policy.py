"""A policy: who may do what, and why."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pennon.identifiers import ROOT, Identifier, format_identifier
from pennon.server.permissions.policy_model import GROUP, PATTERNS, PolicyDocument
from pennon.server.permissions.rights import Kind, Principal, Right
from pennon.yaml_documents.models import find_problems
from pennon.yaml_documents.nodes import NodeReader, compose
from pennon.yaml_documents.problems import FilePositions, FileProblem, InvalidFileError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.server.permissions.policy_model import IssuerEntry, KeyEntry
    from pennon.server.permissions.roles import Role

_SEE = frozenset({Right.SEE})
_NONE: frozenset[Right] = frozenset()


@dataclass(frozen=True)
class Grant:
    """A role of one user or group on one object."""

    subject: str
    role: Role
    kind: Kind
    identifier: Identifier
    place: str
    """The file and the line, for explanations."""

    def covers(self, identifier: Identifier, kind: Kind) -> bool:
        """Return True if the grant is on the object, or on a namespace that holds it."""
        if self.kind == "table":
            return kind == "table" and identifier == self.identifier
        if kind == "table" and identifier == self.identifier:
            return False
        return identifier[: len(self.identifier)] == self.identifier

    def describe(self) -> str:
        """Return the grant as a sentence without its end."""
        what = "the whole catalog" if self.identifier == ROOT else f"{self.kind} {format_identifier(self.identifier)}"
        return f"{self.place} grants {self.role.value} on {what} to {self.subject}"


@dataclass(frozen=True)
class Policy:
    """The content of a valid policy file. Everything that is not granted is denied."""

    keys: tuple[KeyEntry, ...] = ()
    issuers: tuple[IssuerEntry, ...] = ()
    groups_of: dict[str, frozenset[str]] = field(default_factory=dict)
    """The groups of each user that the file names as a member."""
    grants: tuple[Grant, ...] = ()
    _by_subject: dict[str, _Grants] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_subject: dict[str, _Grants] = defaultdict(_Grants)
        for grant in self.grants:
            by_subject[grant.subject].add(grant)
        object.__setattr__(self, "_by_subject", dict(by_subject))

    def rights(self, principal: Principal, identifier: Identifier, kind: Kind) -> frozenset[Right]:
        """Return what a principal may do with an object, whether it exists or not.

        The namespaces above an object with a grant can be seen. The root can be seen by everybody.
        """
        found = _SEE if kind == "namespace" and identifier == ROOT else _NONE
        for subject in self.subjects(principal):
            grants = self._by_subject.get(subject)
            if grants is not None:
                found |= grants.rights(identifier, kind)
        return found

    def subjects(self, principal: Principal) -> Iterator[str]:
        """Yield the names under which a principal can have grants: its own, and those of its groups."""
        yield principal.name
        for group in sorted(principal.groups | self.groups_of.get(principal.name, frozenset())):
            yield GROUP + group

    def explain(self, principal: Principal, right: Right, identifier: Identifier, kind: Kind) -> list[Grant]:
        """Return the grants that allow something, or none."""
        subjects = set(self.subjects(principal))
        return [
            grant
            for grant in self.grants
            if grant.subject in subjects and right in grant.role.rights and grant.covers(identifier, kind)
        ]

    def related(self, principal: Principal, identifier: Identifier, kind: Kind) -> list[Grant]:
        """Return all grants of a principal that cover an object or something below it."""
        subjects = set(self.subjects(principal))
        depth = len(identifier)
        return [
            grant
            for grant in self.grants
            if grant.subject in subjects
            and (grant.covers(identifier, kind) or (kind == "namespace" and grant.identifier[:depth] == identifier))
        ]


@dataclass
class _Grants:
    """The grants of one user or group, by object."""

    namespaces: dict[Identifier, frozenset[Right]] = field(default_factory=dict)
    tables: dict[Identifier, frozenset[Right]] = field(default_factory=dict)
    above: set[Identifier] = field(default_factory=set)
    """The namespaces that hold an object with a grant."""

    def add(self, grant: Grant) -> None:
        """Add a grant."""
        place = self.tables if grant.kind == "table" else self.namespaces
        place[grant.identifier] = place.get(grant.identifier, _NONE) | grant.role.rights
        self.above.update(grant.identifier[:depth] for depth in range(len(grant.identifier)))

    def rights(self, identifier: Identifier, kind: Kind) -> frozenset[Right]:
        """Return the rights on an object."""
        is_table = kind == "table"
        found = self.tables.get(identifier, _NONE) if is_table else _NONE
        for depth in range(len(identifier) + (not is_table)):
            found |= self.namespaces.get(identifier[:depth], _NONE)
        return found | _SEE if not is_table and identifier in self.above else found


def parse_policy(content: bytes | str, file: str) -> Policy:
    """Return the policy in a text. Raises InvalidFileError with all problems."""
    reader = NodeReader(file)
    values = reader.mapping(compose(content, file))
    positions = FilePositions(file, reader.lines)
    try:
        document = PolicyDocument.model_validate(values)
    except ValidationError as error:
        found = find_problems(error, PolicyDocument, positions, _without_hashes(values), PATTERNS)
        raise InvalidFileError(file, [*reader.problems, *found]) from None
    problems = [*reader.problems, *_find_problems(document, positions)]
    if problems:
        raise InvalidFileError(file, problems)
    groups_of: dict[str, frozenset[str]] = defaultdict(frozenset)
    for group, members in document.groups.items():
        for member in members:
            groups_of[member] |= {group}
    return Policy(document.keys, document.issuers, dict(groups_of), tuple(_grants(document, positions)))


def _without_hashes(values: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a file for messages. Somebody may have written a key where its hash belongs."""
    keys = values.get("keys")
    if not isinstance(keys, list):
        return values
    return {**values, "keys": [{**one, "hash": "***"} if isinstance(one, dict) else "***" for one in keys]}


def _grants(document: PolicyDocument, positions: FilePositions) -> Iterator[Grant]:
    for number, entry in enumerate(document.grants):
        place = f"{positions.file}:{positions.find_line(('grants', number))}"
        for subject in entry.to:
            if entry.table is not None:
                yield Grant(subject, entry.role, "table", entry.table, place)
            elif entry.namespace is not None:
                yield Grant(subject, entry.role, "namespace", entry.namespace, place)


def _find_problems(document: PolicyDocument, positions: FilePositions) -> Iterator[FileProblem]:
    yield from _find_repeated(positions, "keys", "id", [key.id for key in document.keys])
    yield from _find_repeated(positions, "issuers", "name", [issuer.name for issuer in document.issuers])
    yield from _find_repeated(positions, "issuers", "issuer", [issuer.issuer for issuer in document.issuers])
    issuers = {issuer.name for issuer in document.issuers}
    for group, members in document.groups.items():
        for number, member in enumerate(members):
            path = ("groups", group, number)
            if member.startswith(GROUP):
                yield positions.problem(path, f"a group cannot have another one as a member: {member!r}")
            elif (fault := _find_user_fault(member, issuers)) is not None:
                yield positions.problem(path, fault)
    for number, grant in enumerate(document.grants):
        for place, subject in enumerate(grant.to):
            fault = _find_subject_fault(subject, issuers, set(document.groups))
            if fault is not None:
                yield positions.problem(("grants", number, "to", place), fault)


def _find_repeated(positions: FilePositions, section: str, key: str, values: list[str]) -> Iterator[FileProblem]:
    for number, value in enumerate(values):
        if value in values[:number]:
            yield positions.problem((section, number, key), f"{value!r} is not the first one with this {key}")


def _find_subject_fault(subject: str, issuers: set[str], groups: set[str]) -> str | None:
    if not subject.startswith(GROUP):
        return _find_user_fault(subject, issuers)
    group = subject.removeprefix(GROUP)
    if ":" in group:
        return _find_user_fault(group, issuers)
    return None if group in groups else f"there is no group {group!r}{suggest(group, sorted(groups))}"


def _find_user_fault(user: str, issuers: set[str]) -> str | None:
    issuer, colon, name = user.partition(":")
    if not colon:
        return None
    if not name:
        return f"{user!r} names nobody"
    return None if issuer in issuers else f"there is no issuer {issuer!r}{suggest(issuer, sorted(issuers))}"
