"""Problems of a pipeline, with file, line and key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.yaml_documents.problems import FilePositions, FileProblem, InvalidFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.errors import LanceNamespaceError
    from pennon.yaml_documents.problems import Path


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


@dataclass
class FaultCollector:
    """Errors about values of a pipeline, collected so that all are reported at once."""

    positions: Positions
    faults: list[tuple[Path, LanceNamespaceError]] = field(default_factory=list)

    def report(self, path: Path, error: LanceNamespaceError) -> None:
        """Keep an error about the value at a path."""
        self.faults.append((path, error))

    def refuse(self) -> None:
        """Raise InvalidPipelineError if there are errors. A single one that is no bad input keeps its class."""
        for path, error in self.faults if len(self.faults) == 1 else ():
            if not isinstance(error, InvalidInputError):
                raise type(error)(f"{self.positions.locate(path)}: {error}") from error
        self.positions.refuse([self.positions.problem(path, str(error)) for path, error in self.faults])
