"""Build the cases of operations, on a catalog that has one table `t` of 300 rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operation_calls import Case

if TYPE_CHECKING:
    from collections.abc import Callable

    from operation_calls import Subject

MISSING = "missing table"
T = ["t"]


def case(label: str, operation: str, *data: bytes, **fields: Any) -> Case:
    """Return a case of one call that only shows success or the error."""

    def do(subject: Subject) -> None:
        subject.ask(operation, *data, **fields)

    return Case(label, do)


def told(label: str, do: Callable[[Subject], object]) -> Case:
    """Return a case that shows the result of the call."""
    return Case(label, lambda subject: str(do(subject)))


def steps(label: str, *asked: Callable[[Subject], object]) -> Case:
    """Return a case of several calls."""

    def do(subject: Subject) -> None:
        for one in asked:
            one(subject)

    return Case(label, do)


def ask(operation: str, *data: bytes, **fields: Any) -> Callable[[Subject], Any]:
    """Return a step that calls an operation."""
    return lambda subject: subject.ask(operation, *data, **fields)


def pages(operation: str, of: str) -> Callable[[Subject], str]:
    """Return a step that shows how many entries a page of one contains."""

    def do(subject: Subject) -> str:
        answer = subject.ask(operation, id=T, limit=1)
        return f"{len(getattr(answer, of))} of a page of 1"

    return do


def usual(operation: str, **fields: Any) -> list[Case]:
    """Return the usual cases: success, and a missing table."""
    return [case("", operation, id=T, **fields), case(MISSING, operation, id=["nowhere"], **fields)]
