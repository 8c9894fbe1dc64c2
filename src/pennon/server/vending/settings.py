"""The file that says which credentials clients get. docs/guides/secure.md describes it."""

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import Self

from pennon.yaml_documents.models import find_problems
from pennon.yaml_documents.nodes import NodeReader, compose, read_file
from pennon.yaml_documents.problems import FilePositions, InvalidFileError

if TYPE_CHECKING:
    from pathlib import Path

Options = dict[str, str]
_ACCOUNT = r"^[a-z0-9]{3,24}$"
_ARN = r"^arn:[a-z-]+:iam::[0-9]{12}:role/[0-9A-Za-z_+=,.@/-]+$"


_PATTERNS = {_ARN: "the ARN of a role", _ACCOUNT: "the name of an account"}
_KINDS = ("aws_role", "azure_account", "google_boundary", "fixed")


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AwsRole(_Model):
    """A role that the server assumes for each client, with a policy for one table."""

    role_arn: str = Field(pattern=_ARN)
    region: str
    duration_seconds: int = Field(3600, ge=900, le=43200)
    sts_endpoint: str | None = None


class AzureAccount(_Model):
    """An account whose key signs for each client, for one table. The key is in the environment."""

    account_name: str = Field(pattern=_ACCOUNT)
    duration_seconds: int = Field(3600, ge=60, le=86400)
    allow_http: bool = False
    """Whether the signatures are good without TLS, which emulators need."""


class GoogleBoundary(_Model):
    """The server's own token of Google Cloud, exchanged for one with an access boundary."""

    token_endpoint: str | None = None
    """Where tokens are exchanged, if not at Google's."""


class FixedPair(_Model):
    """Two sets of credentials that clients share: one for readers, one for writers. Not limited to a table."""

    read: Annotated[Options, Field(min_length=1, repr=False)]
    write: Annotated[Options, Field(min_length=1, repr=False)]
    duration_seconds: int = Field(3600, ge=1, le=86400)
    """After this time, clients ask again."""


class VendingSettings(_Model):
    """What clients get."""

    aws_role: AwsRole | None = None
    azure_account: AzureAccount | None = None
    google_boundary: GoogleBoundary | None = None
    fixed: FixedPair | None = None
    options: Options = {}
    """Options without secrets that every client gets, such as the region or the endpoint."""

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if sum(getattr(self, name) is not None for name in _KINDS) != 1:
            raise ValueError(f"must have exactly one of {', '.join(map(repr, _KINDS))}")
        return self


def load_settings(file: "Path") -> VendingSettings:
    """Return the settings in a file. Raises InvalidInputError with all problems, which show no value."""
    name = str(file)
    reader = NodeReader(name)
    values = reader.mapping(compose(read_file(file, "the settings of vending"), name))
    try:
        found = VendingSettings.model_validate(values)
    except ValidationError as error:
        positions = FilePositions(name, reader.lines)
        problems = find_problems(error, VendingSettings, positions, "***", _PATTERNS)
        raise InvalidFileError(name, [*reader.problems, *problems]) from None
    if reader.problems:
        raise InvalidFileError(name, reader.problems)
    return found
