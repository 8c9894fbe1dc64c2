"""How cases of operations are put together, on a catalog that has one table `t` of 300 rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operation_calls import Case

if TYPE_CHECKING:
    from collections.abc import Callable

    from operation_calls import Subject

MISSING = "missing table"
T = ["t"]


def case(label: str, operation: str, *data: bytes, **fields: Any) -> Case:
    """Ask once, and tell nothing but whether it worked."""

    def do(subject: Subject) -> None:
        subject.ask(operation, *data, **fields)

    return Case(label, do)


def told(label: str, do: Callable[[Subject], object]) -> Case:
    """Ask, and tell what came of it."""
    return Case(label, lambda subject: str(do(subject)))


def steps(label: str, *asked: Callable[[Subject], object]) -> Case:
    """Ask several times; the last one counts."""

    def do(subject: Subject) -> None:
        for one in asked:
            one(subject)

    return Case(label, do)


def ask(operation: str, *data: bytes, **fields: Any) -> Callable[[Subject], Any]:
    """Give a step."""
    return lambda subject: subject.ask(operation, *data, **fields)


def pages(operation: str, of: str) -> Callable[[Subject], str]:
    """Tell how much of a list comes in a page of one."""

    def do(subject: Subject) -> str:
        answer = subject.ask(operation, id=T, limit=1)
        return f"{len(getattr(answer, of))} of a page of 1"

    return do


def usual(operation: str, **fields: Any) -> list[Case]:
    """Give the usual cases: it works, and the table is not there."""
    return [case("", operation, id=T, **fields), case(MISSING, operation, id=["nowhere"], **fields)]
