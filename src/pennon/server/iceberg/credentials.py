"""Storage credentials in the answers of the Iceberg protocol."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.errors import ServiceUnavailableError
from pennon.iceberg.vended_options import format_options
from pennon.identifiers import format_identifier
from pennon.server.permissions.rights import principal_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from pennon.identifiers import Identifier
    from pennon.server.permissions.rights import Guard
    from pennon.server.vending.vendor import Vending

DELEGATION = "x-iceberg-access-delegation"
"""The header with which clients ask for credentials."""
_VENDED = "vended-credentials"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableCredentials:
    """Adds the credentials of the client to the answers that describe a table."""

    vending: Vending | None
    guard: Guard

    def config(self, request: Request, identifier: Identifier, location: str) -> dict[str, str]:
        """Return what the client needs to open the files at a location, or nothing.

        Raises ServiceUnavailableError if no credentials can be made.
        """
        if self.vending is None:
            return {}
        options = self.vending.options(self.guard, principal_of(request.scope), identifier, location)
        return {} if options is None else format_options(options)

    def of_answer(self, request: Request, identifier: Identifier, location: str, *, is_new: bool) -> dict[str, Any]:
        """Return the fields of LoadTable's answer with the credentials, if the client asks for them.

        Raises ServiceUnavailableError if no credentials can be made. Not for a new table: its client asks again.
        """
        asked = {part.strip().lower() for part in request.headers.get(DELEGATION, "").split(",")}
        if _VENDED not in asked:
            return {"config": {}}
        try:
            config = self.config(request, identifier, location)
        except ServiceUnavailableError as error:
            if not is_new:
                raise
            _log.warning("no credentials for table %s: %s", format_identifier(identifier), error)
            config = {}
        return {"config": config, **({"storage-credentials": listed(location, config)} if config else {})}


def listed(location: str, config: dict[str, str]) -> list[dict[str, Any]]:
    """Return credentials as the protocol lists them."""
    return [{"prefix": location, "config": config}] if config else []
