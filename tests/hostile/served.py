"""A served catalog for hostile clients: the fixtures' parts live beside the tests of Iceberg and of the server."""

from __future__ import annotations

from tests.iceberg.irc_servers import Irc, facade, self_signed
from tests.server.http_client import Client, table_path

__all__ = ["Client", "Irc", "facade", "self_signed", "table_path"]
