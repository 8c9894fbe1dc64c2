"""The commands `run` and `test`, which run a pipeline and its checks (docs/guides/pipelines.md)."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pennon.cli import secrets
from pennon.cli.arguments import DryRun
from pennon.cli.commands import command, new_app
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.output import Note
from pennon.cli.pipeline_views import audit_view, plan_view, report_view
from pennon.cli.session import Session
from pennon.cli.settings import Connection, parse_pairs
from pennon.cli.spark_start import start_spark
from pennon.cli.status_line import StatusLine, show_status
from pennon.progress import open_bar

if TYPE_CHECKING:
    from rich.progress import Progress

    from pennon.spark import Lake
    from pennon.spark.address import Address
    from pennon.spark.pipeline import Pipeline, RunReport
    from pennon.spark.pipeline.observer import Observer

app = new_app()

PipelineFile = Annotated[Path, typer.Argument(metavar="PIPELINE", help="The pipeline's YAML file.")]
Var = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME=VALUE", help="A variable of the pipeline; may be repeated."),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="NAME",
        help="Only this target, or the targets that are written from this step; may be repeated.",
    ),
]
StartingFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--from", metavar="NAME", help="Only the targets that depend on this source or step; may be repeated."
    ),
]
ReportFile = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write the report to a file, as JSON.")
]
NoCode = Annotated[bool, typer.Option("--no-code", help="Reject pipelines that can run code or read files by path.")]
Master = Annotated[str | None, typer.Option("--master", metavar="URL", help="Spark's master. The default is local[*].")]
SparkConf = Annotated[
    list[str] | None, typer.Option("--spark-conf", metavar="KEY=VALUE", help="A Spark setting; may be repeated.")
]


@command(
    app,
    "run",
    examples=[
        "pennon run pipeline.yaml --dry-run",
        "pennon run pipeline.yaml --var day=2026-01-31",
        "pennon run pipeline.yaml --run-id night",
    ],
    spark=True,
)
def run(
    session: Session,
    file: PipelineFile,
    *,
    run_id: Annotated[
        str | None,
        typer.Option("--run-id", metavar="ID", help="The name of a new run, or of an interrupted run to continue."),
    ] = None,
    var: Var = None,
    only: Only = None,
    starting_from: StartingFrom = None,
    dry_run: DryRun = False,
    report: ReportFile = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Take over the run from a process that still seems to be working on it.")
    ] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Delete what the run has staged, instead of continuing it.")
    ] = False,
    state: Annotated[
        str | None,
        typer.Option(
            "--state", metavar="URI", help="Where the state of runs is stored. The default is the catalog's root."
        ),
    ] = None,
    no_code: NoCode = False,
    master: Master = None,
    spark_conf: SparkConf = None,
) -> int:
    """Run a pipeline: write its tables, check them, and publish them together.

    --run-id continues an interrupted run. Finished work is not repeated, and nothing is published twice.
    """
    if discard and run_id is None:
        raise CommandFailure("--discard needs --run-id, the run whose staged data to delete")
    _require_writable(report)
    with _reporting_problems(session), show_status(f"Checking {file.name}") as status:
        from pennon.pipeline_runs.run_state import new_run_id, validate_run_id
        from pennon.spark.pipeline.scrubbing import change_texts

        pipeline, address = _load_pipeline(session, file, var, only, starting_from)
        named = validate_run_id(run_id or new_run_id())
        if discard:
            return _discard_run(session, pipeline, address, named, take_over=take_over, state=state)
        settings = _spark_settings(pipeline, spark_conf)
        if dry_run or not pipeline.is_begun(address, named, state=state):
            # What needs no Spark is reported before it starts. A resumed run reads the versions that it began with.
            plan = pipeline.plan(address, allow_code=not no_code, spark_settings=settings)
            if dry_run:
                status.clear()
                shown = change_texts(plan, lambda text: secrets.scrub(text, session.hidden))
                session.output.show(shown.document(), lambda: plan_view(shown))
                return ExitCode.DONE
        with _start_lake(
            session,
            f"pennon run {pipeline.name}",
            address,
            status,
            master=master or pipeline.definition.spark.master,
            settings=settings,
        ) as lake:
            status.clear()
            if not session.output.is_json:
                _print_line(f"run {named} of pipeline {pipeline.name}")
            done = _run_pipeline(pipeline, lake, named, take_over=take_over, state=state, allow_code=not no_code)
        done = change_texts(done, lambda text: secrets.scrub(text, session.hidden))
    if report is not None:
        done.save(report)
    session.output.show(done.document(), lambda: report_view(done))
    return ExitCode.DONE if done.succeeded else ExitCode.CHECKS_FAILED


@command(app, "test", examples=["pennon test pipeline.yaml"], spark=True)
def check_published(
    session: Session,
    file: PipelineFile,
    *,
    var: Var = None,
    only: Only = None,
    starting_from: StartingFrom = None,
    report: ReportFile = None,
    no_code: NoCode = False,
    master: Master = None,
    spark_conf: SparkConf = None,
) -> int:
    """Run the checks of a pipeline over its published tables. Nothing is written.

    Checks of steps, and checks with the scope 'new', are about data that a run is going to publish. They do not run.
    """
    _require_writable(report)
    with _reporting_problems(session), show_status(f"Checking {file.name}") as status:
        from pennon.spark.pipeline.scrubbing import change_texts

        pipeline, address = _load_pipeline(session, file, var, only, starting_from)
        pipeline.require_testable(address, allow_code=not no_code)
        settings = _spark_settings(pipeline, spark_conf)
        with _start_lake(
            session,
            f"pennon test {pipeline.name}",
            address,
            status,
            master=master or pipeline.definition.spark.master,
            settings=settings,
        ) as lake:
            status.clear()
            with _show_progress() as observer:
                done = pipeline.test(lake, observer=observer, allow_code=not no_code)
        done = change_texts(done, lambda text: secrets.scrub(text, session.hidden))
    if report is not None:
        done.save(report)
    session.output.show(done.document(), lambda: audit_view(done))
    return ExitCode.DONE if done.passed else ExitCode.CHECKS_FAILED


@contextmanager
def _reporting_problems(session: Session) -> Iterator[None]:
    """End the command with one line for each problem if the pipeline is invalid."""
    try:
        yield
    except Exception as error:
        # Imported late, so that the status line comes first.
        from pennon.yaml_documents.problems import InvalidFileError

        if not isinstance(error, InvalidFileError):
            raise
        for problem in error.problems:
            _print_line(secrets.scrub(problem.format(error.file), session.hidden))
        raise SystemExit(ExitCode.BAD_INPUT) from error


def _load_pipeline(
    session: Session,
    file: Path,
    var: Sequence[str] | None,
    only: Sequence[str] | None,
    starting_from: Sequence[str] | None,
) -> "tuple[Pipeline, Address]":
    """Return the selected part of a pipeline, and the address of its catalog."""
    from pennon.spark.pipeline import Pipeline

    pipeline = Pipeline.from_yaml(file, parse_pairs(var or [], "--var"))
    session.hidden |= pipeline.secrets
    address = _find_catalog(session, pipeline)
    return pipeline.select(only or (), starting_from=starting_from or ()), address


def _spark_settings(pipeline: "Pipeline", given: Sequence[str] | None) -> dict[str, str]:
    return {**pipeline.definition.spark.conf, **parse_pairs(given or [], "--spark-conf")}


@contextmanager
def _start_lake(
    session: Session,
    app_name: str,
    address: "Address",
    status: StatusLine,
    *,
    master: str | None,
    settings: Mapping[str, str],
) -> "Iterator[Lake]":
    with start_spark(app_name, status, master=master, settings=settings, verbose=session.debug) as spark:
        from pennon.spark import attach

        yield attach(spark, impl=address.impl, **dict(address.properties))


def _run_pipeline(
    pipeline: "Pipeline", lake: "Lake", run_id: str, *, take_over: bool, state: str | None, allow_code: bool
) -> "RunReport":
    try:
        with _show_progress() as observer:
            return pipeline.run(
                lake, run_id=run_id, take_over=take_over, state=state, observer=observer, allow_code=allow_code
            )
    except KeyboardInterrupt:
        _print_line("interrupted: nothing was published, and the staged data was removed")
        raise
    except Exception:
        if _is_recorded(pipeline, lake, run_id, state):
            then = f"continue it with --run-id {run_id}, or add --discard to delete its staged data"
            _print_line(f"the run did not finish; {then}")
        raise


def _is_recorded(pipeline: "Pipeline", lake: "Lake", run_id: str, state: str | None) -> bool:
    """Return False if a run has ended before it was recorded: then there is nothing to continue."""
    from pennon.errors import LanceNamespaceError

    try:
        return pipeline.is_begun(lake.address, run_id, state=state)
    except LanceNamespaceError:
        return True


def _discard_run(
    session: Session, pipeline: "Pipeline", address: "Address", run_id: str, *, take_over: bool, state: str | None
) -> int:
    there = pipeline.discard(address, run_id, take_over=take_over, state=state)
    text = "the staged data was removed" if there else "nothing to remove"
    document = {"pipeline": pipeline.name, "run_id": run_id, "discarded": there}
    session.output.show(document, lambda: [Note(f"run {run_id} of pipeline {pipeline.name}: {text}")])
    return ExitCode.DONE


# The catalog


def _find_catalog(session: Session, pipeline: "Pipeline") -> "Address":
    """Return the address of the catalog.

    Options override the pipeline's `catalog`, which overrides the environment and the settings file.
    """
    from pennon.spark.address import Address

    own = pipeline.definition.catalog
    if own.root is None and not {"root", "uri"} & own.properties.keys():
        connection = session.connection()
        properties = {
            **connection.properties,
            **own.properties,
            **parse_pairs(session.options.properties, "--property"),
        }
        if connection.found is not None:
            rest = replace(connection.found, keys=connection.found.keys - own.properties.keys())
            rest.require_no_foreign_credential(properties, os.environ)
    else:
        given = parse_pairs(session.options.properties, "--property")
        root = {} if session.options.root is None else {"root": session.options.root}
        properties = {**own.all_properties(), **given, **root}
        connection = Connection(session.options.impl or own.impl, properties)
    session.hidden |= secrets.collect_secrets(properties)
    return Address.of(connection.impl, properties)


def _require_writable(report: Path | None) -> None:
    if report is not None and (report.is_dir() or not report.absolute().parent.is_dir()):
        raise CommandFailure(
            f"The report cannot be written to {str(report)!r}: it is a directory, or its directory does not exist"
        )


# Progress and messages


@contextmanager
def _show_progress() -> Iterator["Observer | None"]:
    """Yield an observer that shows a run on a terminal, or None."""
    with open_bar() as bar:
        yield None if bar is None else _create_observer(bar)


def _create_observer(bar: "Progress") -> "Observer":
    from pennon.spark.pipeline.observer import Observer

    task = bar.add_task("analyzing the pipeline", total=None, note="")

    class Bar(Observer):
        def planned(self, work: Sequence[str]) -> None:
            bar.update(task, total=len(work))

        def begun(self, work: str) -> None:
            bar.update(task, description=work)

        def done(self, work: str, *, reused: bool) -> None:
            bar.advance(task)
            bar.console.print(f"{work}: {'already done' if reused else 'done'}", style="dim")

    return Bar()


def _print_line(text: str) -> None:
    from pennon.cli.terminal_text import format_line

    sys.stderr.write(format_line(text) + "\n")
