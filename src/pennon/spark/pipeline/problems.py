"""Problems of a pipeline, with file, line and key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.yaml_documents.problems import FilePositions, FileProblem, InvalidFileError

if TYPE_CHECKING:
    from collections.abc import Sequence


class InvalidPipelineError(InvalidFileError):
    """The pipeline is invalid; `problems` has everything that was found, sorted by line."""


@dataclass(frozen=True)
class Positions(FilePositions):
    """Where the values of a pipeline are: its file, and the line of each path."""

    file: str = "pipeline"

    def refuse(self, problems: Sequence[FileProblem]) -> None:
        """Raise InvalidPipelineError if there are problems."""
        if problems:
            raise InvalidPipelineError(self.file, problems)
