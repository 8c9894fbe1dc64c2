"""Compare Pennon's directory namespace with pylance's own, in one run.

Run it as `python benchmarks/catalog.py`; `--help` lists its options.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import operations
from lance_namespace import CreateNamespaceRequest, DeclareTableRequest, DropNamespaceRequest, LanceNamespace
from operations import MANIFEST_OPERATIONS, V1_OPERATIONS, Operation, Subject
from plot import draw
from progress import stage
from report import show
from results import COMPATIBILITY, OURS, REFERENCE, V1, V2, Growth, Measurement, Results, document
from rich.console import Console
from seeding import footprint, write_manifest, write_tables
from targets import FAIL, judge
from timing import Plan, compare, error_label

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Factory = Callable[..., LanceNamespace]

RESULTS = Path(__file__).parent / "results"
SECTIONS = ("manifest", "v1", "files")


@dataclass(frozen=True)
class Mode:
    """The contents and properties of a root, and the operations that are timed on it."""

    name: str
    properties: Mapping[str, str]
    parent: tuple[str, ...]
    operations: tuple[Operation, ...]
    unit: str = "entries"

    def fill(self, root: Path, entries: int) -> None:
        """Seed a root with this number of entries."""
        root.mkdir()
        if self.name == V1:
            write_tables(root, entries)
            return
        write_manifest(root, entries, nested=bool(self.parent))
        if not self.parent:
            write_tables(root, entries // 2)


def _switches(*, manifest: str, listing: str) -> dict[str, str]:
    return {"manifest_enabled": manifest, "dir_listing_enabled": listing}


MODES = {
    V2: Mode(V2, _switches(manifest="true", listing="false"), ("ns",), MANIFEST_OPERATIONS),
    COMPATIBILITY: Mode(COMPATIBILITY, _switches(manifest="true", listing="true"), (), MANIFEST_OPERATIONS),
    V1: Mode(V1, _switches(manifest="false", listing="true"), (), V1_OPERATIONS, unit="tables"),
}


@dataclass(frozen=True)
class Case:
    """One mode at one size, and how often each operation is repeated there."""

    mode: Mode
    entries: int
    plan: Plan

    @property
    def title(self) -> str:
        """The title of the case, for output."""
        return f"{self.mode.name}, {self.entries:,} {self.mode.unit}"


@dataclass(frozen=True)
class Sizes:
    """The cases of each section of a run, and the number of mutations."""

    sections: Mapping[str, Sequence[Case]]
    growth_entries: int
    growth_mutations: int


FULL = Sizes(
    sections={
        "manifest": [
            Case(MODES[V2], 1_000, Plan(blocks=10, per_block=3)),
            Case(MODES[V2], 10_000, Plan(blocks=10, per_block=2)),
            Case(MODES[V2], 100_000, Plan(blocks=5, per_block=3)),
            Case(MODES[COMPATIBILITY], 1_000, Plan(blocks=10, per_block=3)),
        ],
        "v1": [Case(MODES[V1], tables, Plan(blocks=10, per_block=2)) for tables in (100, 1_000, 3_000)],
    },
    growth_entries=1_000,
    growth_mutations=1_000,
)
QUICK = Sizes(
    sections={
        "manifest": [
            Case(MODES[V2], 100, Plan(blocks=2, per_block=2)),
            Case(MODES[V2], 1_000, Plan(blocks=2, per_block=3)),
            Case(MODES[COMPATIBILITY], 100, Plan(blocks=2, per_block=2)),
        ],
        "v1": [Case(MODES[V1], 50, Plan(blocks=2, per_block=3))],
    },
    growth_entries=100,
    growth_mutations=100,
)


def pennon(**properties: str) -> LanceNamespace:
    """Open Pennon's directory namespace."""
    from pennon import DirectoryNamespace

    namespace: LanceNamespace = DirectoryNamespace(**properties)
    return namespace


def reference(**properties: str) -> LanceNamespace:
    """Open pylance's own directory namespace."""
    from lance.namespace import DirectoryNamespace

    return DirectoryNamespace(**properties)


IMPLEMENTATIONS: Mapping[str, Factory] = {OURS: pennon, REFERENCE: reference}


def main(arguments: Sequence[str] | None = None, *, implementations: Mapping[str, Factory] = IMPLEMENTATIONS) -> int:
    """Run the benchmark, print and store the results, and return 1 if a strict run missed a target."""
    options = _parse(arguments)
    progress = _console(stderr=True)
    chosen = [options.only] if options.only else SECTIONS
    results = run(progress, QUICK if options.quick else FULL, chosen, implementations)
    targets = judge(results)
    show(_console(), results, targets)
    # Only a full run uses the plain name, so that a partial run never replaces its results.
    stem = "-".join(filter(None, ["catalog", options.only, "quick" if options.quick else None]))
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document(results, targets), indent=2)
    (options.out / f"{stem}.json").write_text(text + "\n", encoding="utf-8")
    draw(results, options.out / f"{stem}.png")
    progress.print(f"written: {options.out / stem}.json and .png", highlight=False)
    return 1 if options.strict and any(target.verdict == FAIL for target in targets) else 0


def run(console: Console, sizes: Sizes, chosen: Sequence[str], implementations: Mapping[str, Factory]) -> Results:
    """Measure the chosen sections on temporary roots, which are deleted afterwards."""
    results = Results()
    for section in chosen:
        for case in sizes.sections.get(section, ()):
            measure_operations(console, results, case, implementations)
    if "files" in chosen:
        measure_growth(console, results, sizes, implementations)
    return results


def measure_operations(console: Console, results: Results, case: Case, implementations: Mapping[str, Factory]) -> None:
    """Time every operation of one case."""
    mode, entries = case.mode, case.entries
    with (
        stage(console, case.title, len(mode.operations) + 1) as announce,
        _subjects(mode, entries, implementations, announce) as subjects,
    ):
        for operation in mode.operations:
            announce(operation.name)
            timings = compare(operation, subjects, case.plan)
            results.measurements.append(Measurement(mode.name, operation.name, entries, timings))
        results.notes.extend(_disagreements(case.title, subjects))


def measure_growth(console: Console, results: Results, sizes: Sizes, implementations: Mapping[str, Factory]) -> None:
    """Count the files in the manifest directory of each implementation after many mutations."""
    mode, entries, mutations = MODES[V2], sizes.growth_entries, sizes.growth_mutations
    with (
        stage(console, f"files after {mutations:,} mutations", len(implementations) + 1) as announce,
        _roots(mode, entries, list(implementations), announce) as roots,
    ):
        for name, factory in implementations.items():
            announce(name)
            namespace = factory(root=str(roots[name]), **mode.properties)
            try:
                results.growth[name] = grow(namespace, roots[name] / "__manifest", entries, mutations)
            except Exception as error:  # noqa: BLE001 - whatever an implementation raises is a result here
                results.notes.append(f"{name}: a mutation failed, error {error_label(error)}: {error}")


def grow(namespace: LanceNamespace, manifest: Path, entries: int, mutations: int) -> Growth:
    """Mutate and close a namespace; count its manifest's files before, after the mutations, and after closing."""
    before = footprint(manifest)
    start = time.perf_counter()
    mutate(namespace, mutations)
    seconds = time.perf_counter() - start
    after = footprint(manifest)
    operations.close(namespace)
    return Growth(entries, mutations, seconds, before, after, footprint(manifest))


def mutate(namespace: LanceNamespace, mutations: int) -> None:
    """Create namespaces, declare half as many tables, and drop half of the namespaces."""
    half, quarter = mutations // 2, mutations // 4
    for index in range(half):
        namespace.create_namespace(CreateNamespaceRequest(id=[f"a{index:06}"]))
    for index in range(quarter):
        namespace.declare_table(DeclareTableRequest(id=["ns", f"d{index:06}"]))
    for index in range(quarter):
        namespace.drop_namespace(DropNamespaceRequest(id=[f"a{index:06}"]))


@contextmanager
def _roots(
    mode: Mode, entries: int, names: Sequence[str], announce: Callable[[str], None]
) -> Iterator[dict[str, Path]]:
    """Provide each implementation with its own copy of one seeded root while the block runs."""
    announce("seeding")
    with tempfile.TemporaryDirectory(prefix="pennon-benchmark-", ignore_cleanup_errors=True) as directory:
        seeded = Path(directory, "seeded")
        mode.fill(seeded, entries)
        roots = {name: Path(directory, name) for name in names}
        for root in roots.values():
            shutil.copytree(seeded, root)
        yield roots


@contextmanager
def _subjects(
    mode: Mode, entries: int, implementations: Mapping[str, Factory], announce: Callable[[str], None]
) -> Iterator[list[Subject]]:
    """Open every implementation on its own root, and close it at the end of the block."""
    with _roots(mode, entries, list(implementations), announce) as roots:
        subjects = [_subject(mode, entries, name, implementations[name], roots[name]) for name in roots]
        try:
            yield subjects
        finally:
            for subject in subjects:
                operations.close(subject.namespace)


def _subject(mode: Mode, entries: int, name: str, factory: Factory, root: Path) -> Subject:
    def open_namespace() -> LanceNamespace:
        return factory(root=str(root), **mode.properties)

    return Subject(
        name=name,
        open=open_namespace,
        namespace=open_namespace(),
        parent=list(mode.parent),
        seeded_tables=entries if mode.name == V1 else entries // 2,
        seeded_namespaces=entries - entries // 2 - 1,
    )


def _disagreements(title: str, subjects: Sequence[Subject]) -> Iterator[str]:
    """Yield a note for each operation that listed different names: such times cannot be compared."""
    first = subjects[0]
    for other in subjects[1:]:
        for operation in sorted(first.listed.keys() & other.listed.keys()):
            ours, theirs = first.listed[operation], other.listed[operation]
            if ours != theirs:
                counts = f"{first.name} {len(ours)}, {other.name} {len(theirs)}"
                yield f"{title}: {operation} returns different names ({counts})"


def _console(*, stderr: bool = False) -> Console:
    """Return a console that does not wrap lines in a pipe."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=160)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare Pennon's directory namespace with pylance's own.")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a smoke test of a few seconds")
    parser.add_argument("--only", choices=SECTIONS, help="measure only one section")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results (%(default)s)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
