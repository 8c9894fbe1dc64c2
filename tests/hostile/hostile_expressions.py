"""Expressions that grow with a number, and a program that has Lance evaluate those that are just allowed."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = {
    "sum of numbers": lambda n: "a = " + "+".join(["1"] * n),
    "sum of columns": lambda n: "1 = " + "+".join(["a"] * n),
    "comparisons": lambda n: "a = 1" + " = true" * n,
    "concatenation": lambda n: "'x' = " + "||".join(["s"] * n),
    "casts behind": lambda n: "a" + "::bigint" * n + " = 1",
    "is null": lambda n: "a" + " IS NULL" * n,
    "not": lambda n: "NOT " * n + "(a = 1)",
    "minus": lambda n: "1 = " + "- " * n + "a",
    "and": lambda n: " AND ".join(["a >= 0"] * n),
    "or": lambda n: " OR ".join(f"a = {number}" for number in range(n)),
    "or of and": lambda n: " OR ".join(f"(a = {number} AND s = 'x{number}')" for number in range(n)),
    "between": lambda n: " AND ".join(["a BETWEEN 0 AND 5"] * n),
    "between of between": lambda n: "a BETWEEN 0 AND 5" + " BETWEEN false AND true" * n,
    "nested between": lambda n: "(" * n + "a > 1" + ") BETWEEN false AND true" * n,
    "sums in brackets": lambda n: "(" * 20 + "a" + ("+a" * n + ")") * 20 + " = 1",
    "terms over a sum": lambda n: " AND ".join(["1 = " + "+".join(["a"] * 100)] + ["a >= 0"] * n),
    "numbers in a list": lambda n: f"a IN ({','.join(map(str, range(n)))})",
    "brackets": lambda n: "(" * n + "a = 1" + ")" * n,
    "casts": lambda n: "CAST(" * n + "a" + " AS BIGINT)" * n + " = 1",
    "functions": lambda n: "abs(" * n + "a" + ")" * n + " = 1",
    "coalesce": lambda n: "coalesce(" * n + "a" + ", 1)" * n + " = 1",
    "nested not": lambda n: "NOT (" * n + "a = 1" + " AND a = 2)" * n,
    "case": lambda n: "CASE WHEN a = 1 THEN 1 ELSE " * n + "0" + " END" * n + " = 1",
    "casts around a mistake": lambda n: "CAST(" * n + "a b" + " AS BIGINT)" * n + " = 1",
    "substring around a mistake": lambda n: "substring(" * n + "s b" + " from 1)" * n + " = 1",
    "position around a mistake": lambda n: "position(" * n + "s b" + " in s)" * n + " = 1",
    "interval before a mistake": lambda n: "interval " * n + "(a b",
    "arrays around a mistake": lambda n: "array[" * n + "a b" + "]" * n + " = 1",
}
"""By what grows in them."""


_WIDE = 50_000


def largest(make: Callable[[int], str], find_excess: Callable[[str], str | None]) -> int:
    """Return the largest number whose expression is allowed."""
    low, high = 1, 2
    while find_excess(make(high)) is None:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if find_excess(make(middle)) is None else (low, middle)
    return low


def main(path: str) -> None:
    """Have Lance evaluate the largest expressions in every way; only its errors may come of it."""
    import lance

    from pennon.table.expression_limits import find_excess

    def evaluate() -> None:
        for name, make in ROWS.items():
            text = make(largest(make, find_excess))
            print(name, len(text), flush=True)
            dataset = lance.dataset(path)
            ways = [
                lambda: dataset.scanner(filter=text).to_table(),  # noqa: B023 - called in this iteration
                lambda: dataset.delete(f"({text}) AND a < 0"),  # noqa: B023
                lambda: dataset.scanner(columns={"x": text, "a": "a"}).to_table(),  # noqa: B023
                lambda: dataset.count_rows(text),  # noqa: B023
                lambda: dataset.update({"a": "a"}, f"({text}) AND a < 0"),  # noqa: B023
            ]
            # Wide expressions are slow, and do not need more stack.
            for run in ways[: 1 if len(text) > _WIDE else None]:
                with contextlib.suppress(ValueError, OSError):
                    run()
        print("done", flush=True)

    # The stack of a thread is as small as that of a worker of the server.
    thread = threading.Thread(target=evaluate)
    thread.start()
    thread.join()


if __name__ == "__main__":
    main(sys.argv[1])
