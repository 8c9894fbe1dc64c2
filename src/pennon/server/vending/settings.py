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
_ARN = r"^arn:[a-z-]+:iam::[0-9]{12}:role/[0-9A-Za-z_+=,.@/-]+$"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AwsRole(_Model):
    """A role that the server assumes for each client, with a policy for one table."""

    role_arn: str = Field(pattern=_ARN)
    region: str
    duration_seconds: int = Field(3600, ge=900, le=43200)
    sts_endpoint: str | None = None


class FixedPair(_Model):
    """Two sets of credentials that clients share: one for readers, one for writers. Not limited to a table."""

    read: Annotated[Options, Field(min_length=1, repr=False)]
    write: Annotated[Options, Field(min_length=1, repr=False)]
    duration_seconds: int = Field(3600, ge=1, le=86400)
    """After this time, clients ask again."""


class VendingSettings(_Model):
    """What clients get."""

    aws_role: AwsRole | None = None
    fixed: FixedPair | None = None
    options: Options = {}
    """Options without secrets that every client gets, such as the region or the endpoint."""

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.aws_role is None) == (self.fixed is None):
            raise ValueError("must have either 'aws_role' or 'fixed'")
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
        problems = find_problems(error, VendingSettings, positions, "***", {_ARN: "the ARN of a role"})
        raise InvalidFileError(name, [*reader.problems, *problems]) from None
    if reader.problems:
        raise InvalidFileError(name, reader.problems)
    return found
