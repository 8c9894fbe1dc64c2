"""Compare warm clients that are 20 ms away from their bucket: Pennon, and pylance's own directory namespace.

Run it as `python benchmarks/remote.py`; `--help` lists its options. The bucket is SeaweedFS behind a proxy that adds
10 ms each way. Both clients do the same on roots of their own, in alternating blocks; the median of the calls counts.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import operations
from bucket import open_bucket
from catalog import IMPLEMENTATIONS, MODES
from figures import MS, Figure, Goal, Section, run_section, share
from lance_namespace import InsertIntoTableRequest
from operations import DATA, Operation, Subject
from plot import draw_bars
from progress import stage
from results import COMPATIBILITY, OURS, REFERENCE, V1, V2
from timing import Plan, compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operations import Call
    from rich.console import Console

FULL, QUICK = Plan(blocks=5, per_block=2), Plan(blocks=1, per_block=2, warm_up=1)
GOALS = {
    (V1, "create_table"): share(160, 170),
    (V1, "drop_table"): share(80, 50),
    (COMPATIBILITY, "table_exists"): share(28, 23),
    (COMPATIBILITY, "describe_table"): share(28, 23),
    (COMPATIBILITY, "create_namespace"): share(95, 242),
    (COMPATIBILITY, "declare_table"): share(150, 380),
    (COMPATIBILITY, "create_table"): share(210, 448),
    (COMPATIBILITY, "insert_into_table"): share(140, 208),
    (COMPATIBILITY, "drop_table"): share(150, 306),
    (V2, "table_exists"): share(28, 67),
    (V2, "describe_table"): share(28, 67),
    (V2, "create_namespace"): share(95, 224),
    (V2, "declare_table"): share(125, 363),
    (V2, "create_table"): share(190, 435),
    (V2, "insert_into_table"): share(135, 247),
    (V2, "drop_table"): share(95, 306),
}

ONE_ROUND_TRIP = share(28, 23)
"""The goal of list_tables in compatibility mode, as a share of the reference's table_exists, which is one round trip.

What the reference takes for list_tables depends on how many commits its manifest has seen.
"""


def insert_into_table(subject: Subject, _index: int) -> Call:
    """Append three rows to the first table, which is open after the first call."""
    return partial(subject.namespace.insert_into_table, InsertIntoTableRequest(id=subject.created(0)), DATA)


OPERATIONS = (
    Operation("create_namespace", operations.create_namespace),
    Operation("declare_table", operations.declare_table),
    Operation("create_table", operations.create_table),
    Operation("table_exists", operations.table_exists),
    Operation("describe_table", operations.describe_table),
    Operation("list_tables", operations.list_tables),
    Operation("insert_into_table", insert_into_table),
    Operation("drop_table", operations.drop_table),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the section."""
    return run_section("remote", "Warm clients, 20 ms from the bucket", measure, draw_bars, arguments)


def measure(console: Console, quick: bool) -> Section:  # noqa: FBT001 - the signature of all sections
    """Time every operation in every mode."""
    section = Section()
    with open_bucket() as endpoint:
        for mode in (V1, COMPATIBILITY, V2):
            subjects = [
                _open(mode, name, {"root": endpoint.uri(f"{mode}-{name}"), **endpoint.properties()})
                for name in IMPLEMENTATIONS
            ]
            timed = [one for one in OPERATIONS if mode != V1 or one.name != "create_namespace"]
            with stage(console, f"remote, {mode}", len(timed)) as announce:
                for operation in timed:
                    announce(operation.name)
                    timings = compare(operation, subjects, QUICK if quick else FULL)
                    errors = [
                        f"{mode} {operation.name}, {name}: error {one.error}"
                        for name, one in timings.items()
                        if one.error
                    ]
                    section.figures.append(
                        Figure(
                            mode,
                            operation.name,
                            MS,
                            timings[OURS].median,
                            timings[REFERENCE].median,
                            _goal(mode, operation.name, section),
                            remark="; ".join(errors),
                        )
                    )
            for subject in subjects:
                operations.close(subject.namespace)
    return section


def _goal(mode: str, operation: str, section: Section) -> Goal | None:
    """Return the goal of an operation, if it has one."""
    if (mode, operation) != (COMPATIBILITY, "list_tables"):
        return GOALS.get((mode, operation))
    asked = next(one for one in section.figures if (one.client, one.operation) == (mode, "table_exists"))
    return Goal(ONE_ROUND_TRIP.bound * (asked.reference or 0.0), relative=False)


def _open(mode: str, name: str, properties: dict[str, str]) -> Subject:
    """Open one implementation on an empty root of its own."""
    open_namespace = partial(IMPLEMENTATIONS[name], **properties, **MODES[mode].properties)
    return Subject(name, open_namespace, open_namespace(), parent=[], seeded_tables=0, seeded_namespaces=0)


if __name__ == "__main__":
    sys.exit(main())
