"""AWS Signature Version 4, by botocore (the extra `sigv4`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, UnauthenticatedError

try:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    from botocore.session import Session
except ImportError as missing:
    raise InvalidInputError("'rest.sigv4-enabled' needs botocore: install pennon[sigv4]") from missing

if TYPE_CHECKING:
    from pennon.iceberg.settings import IcebergSettings

_SIGNED = {"content-type", "host"}


class Signer:
    """Signs each request with the keys that were given, or those that AWS tools find on this machine."""

    def __init__(self, settings: IcebergSettings) -> None:
        session = Session()
        region = settings.signing_region or session.get_config_variable("region")
        if not region:
            raise InvalidInputError("'rest.sigv4-enabled' needs 'rest.signing-region'")
        if settings.access_key_id and settings.secret_access_key:
            keys = Credentials(settings.access_key_id, settings.secret_access_key, settings.session_token)
        else:
            keys = session.get_credentials()
        if keys is None:
            raise UnauthenticatedError("No AWS keys were given or found to sign requests with")
        self._auth = SigV4Auth(keys, settings.signing_name or "execute-api", region)

    def headers(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> dict[str, str]:
        """Sign a request."""
        signed = {name: value for name, value in headers.items() if name.lower() in _SIGNED}
        request = AWSRequest(method=method, url=url, data=body or b"", headers=signed)
        self._auth.add_auth(request)
        return {name: str(value) for name, value in request.headers.items() if name not in signed}

    def renew(self, refused: dict[str, str]) -> bool:
        """Keys are renewed by botocore itself."""
        return False

    def secret(self) -> str | None:
        """No secret is sent: signatures tell nothing."""
        return None
