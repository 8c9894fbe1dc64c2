"""Credentials of AWS: a role that is assumed with a policy for the directory of one table."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any

from pennon.config import EXPIRY
from pennon.errors import InvalidInputError, ServiceUnavailableError
from pennon.server.vending.cache import CredentialCache
from pennon.server.vending.directories import parse_directory

try:
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError
    from botocore.session import Session
except ImportError as missing:
    raise InvalidInputError("Vending credentials of AWS needs botocore: install pennon[sigv4]") from missing

if TYPE_CHECKING:
    from pennon.server.vending.settings import AwsRole

_SCHEMES = {"s3", "s3a"}
_CONNECT_SECONDS, _READ_SECONDS = 5, 10
_LONGEST_SESSION_NAME = 64
_ODD = re.compile(r"[^\w+=,.@-]", re.ASCII)
# Characters that mean something in a policy; names of directories may contain them.
_SPECIAL = re.compile(r"[*?$]")
_READS = ["s3:GetObject"]
_WRITES = ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]


class RoleVendor:
    """Assumes a role for each client and table. Threads share it."""

    def __init__(self, role: AwsRole) -> None:
        self._role = role
        self._lock = threading.Lock()
        self._cache = CredentialCache(role.duration_seconds / 2)
        self._sts: Any = None

    def vend(self, location: str, *, writes: bool, user: str) -> dict[str, str] | None:
        """Return the options for the table at a location, or None if it is not in S3.

        Raises ServiceUnavailableError if the role cannot be assumed.
        """
        directory = parse_directory(location, _SCHEMES)
        if directory is None:
            return None
        partition = self._role.role_arn.split(":")[1]
        policy = session_policy(partition, directory.bucket, directory.path, writes=writes)
        return self._cache.find_or_make((user, location, writes), lambda: self._assume(policy, user))

    def _assume(self, policy: dict[str, Any], user: str) -> dict[str, str]:
        try:
            answer = self._client().assume_role(
                RoleArn=self._role.role_arn,
                # The name is in AWS's own audit.
                RoleSessionName="pennon-" + _ODD.sub("_", user)[: _LONGEST_SESSION_NAME - 7],
                Policy=json.dumps(policy, separators=(",", ":")),
                DurationSeconds=self._role.duration_seconds,
            )
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            raise ServiceUnavailableError("Credentials for the table cannot be made; try again later") from error
        found = answer["Credentials"]
        return {
            "aws_access_key_id": found["AccessKeyId"],
            "aws_secret_access_key": found["SecretAccessKey"],
            "aws_session_token": found["SessionToken"],
            "aws_region": self._role.region,
            EXPIRY: str(int(found["Expiration"].timestamp() * 1000)),
        }

    def _client(self) -> Any:  # noqa: ANN401 - botocore has no types
        with self._lock:
            if self._sts is None:
                self._sts = Session().create_client(
                    "sts",
                    region_name=self._role.region,
                    endpoint_url=self._role.sts_endpoint,
                    config=Config(connect_timeout=_CONNECT_SECONDS, read_timeout=_READ_SECONDS),
                )
            return self._sts


def session_policy(partition: str, bucket: str, path: str, *, writes: bool) -> dict[str, Any]:
    """Return a policy that allows reading, or also writing, below one directory of a bucket."""
    arn, prefix = f"arn:{partition}:s3:::{_literal(bucket)}", _literal(path)
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": _READS + (_WRITES if writes else []),
                "Resource": f"{arn}/{prefix}/*",
            },
            {
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": arn,
                "Condition": {"StringLike": {"s3:prefix": [f"{prefix}/*", f"{prefix}/"]}},
            },
        ],
    }


def _literal(text: str) -> str:
    """Return a text in which no character has a meaning of its own in a policy."""
    return _SPECIAL.sub(lambda found: f"${{{found[0]}}}", text)
