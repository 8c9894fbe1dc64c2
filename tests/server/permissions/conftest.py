"""A server with a policy, and clients of its users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pennon import DirectoryNamespace
from tests.iceberg.irc_servers import facade
from tests.server.http_client import Client, LanceClient
from tests.server.permissions.policies import write_policy
from tests.support import create_namespace, create_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROLES = ("reader", "writer", "owner", "admin")
USERS = ["nobody", "ann", "bob", *ROLES, "root"]
RULES = """
grants:
  - {role: reader, namespace: m, to: reader}
  - {role: writer, namespace: m, to: writer}
  - {role: owner, namespace: m, to: owner}
  - {role: admin, namespace: m, to: admin}
  - {role: admin, namespace: /, to: root}
  - {role: owner, namespace: anns, to: ann}
  - {role: owner, namespace: bobs, to: bob}
  - {role: reader, table: shared.deep.one, to: [ann, bob]}
  - {role: writer, table: shared.deep.two, to: bob}
"""


@dataclass(frozen=True)
class SecuredServer:
    """A running server with a policy."""

    root: Path
    audit: Path
    lance: dict[str, LanceClient]
    """Clients of the Lance protocol, by user."""
    iceberg: dict[str, Client]


@pytest.fixture(scope="session")
def secured(tmp_path_factory) -> Iterator[SecuredServer]:
    """Serve a catalog that manages versions, with a policy."""
    directory = tmp_path_factory.mktemp("secured")
    written = write_policy(directory / "policy.yaml", USERS, RULES)
    audit = directory / "audit.jsonl"
    arguments = ("--policy", str(written.file), "--audit-log", str(audit))
    with facade(directory, managed=True, arguments=arguments) as server:
        with DirectoryNamespace(root=str(server.root)) as catalog:
            for names in (["m"], ["anns"], ["bobs"], ["shared"], ["shared", "deep"], ["shared", "hidden"]):
                create_namespace(catalog, *names)
            for names in (
                ["anns", "hers"],
                ["bobs", "his_table"],
                ["shared", "deep", "one"],
                ["shared", "deep", "two"],
            ):
                create_table(catalog, *names)
            for number in range(30):
                create_namespace(catalog, "shared", "deep", f"n{number:02}")
                create_table(catalog, "shared", "deep", f"m{number:02}")
        tokens = {user: f"Bearer {key}" for user, key in written.keys.items()}
        yield SecuredServer(
            server.root,
            audit,
            {user: LanceClient(server.lance, Authorization=token) for user, token in tokens.items()},
            {user: Client(server.uri, Authorization=token) for user, token in tokens.items()},
        )


@pytest.fixture
def secured_catalog(secured) -> Iterator[DirectoryNamespace]:
    """Open the catalog of the server past it."""
    with DirectoryNamespace(root=str(secured.root)) as namespace:
        yield namespace
