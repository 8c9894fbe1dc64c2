"""Running pipelines: `run` (docs/guides/pipelines.md)."""

import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pennon.cli import secrets
from pennon.cli.arguments import DryRun
from pennon.cli.commands import command, new_app
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.output import Note
from pennon.cli.pipeline_views import plan_view, report_view
from pennon.cli.session import Session
from pennon.cli.settings import Connection, pairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pennon.spark.address import Address
    from pennon.spark.pipeline import Pipeline, RunReport

app = new_app()

_TERMINATED = 128 + signal.SIGTERM
# An address of a gateway in the environment: spark-submit has started this process, and decides where it runs.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


@command(app, "run", spark=True)
def run(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="PIPELINE", help="The pipeline's YAML file.")],
    *,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="ID", help="Name the run, or go on with one of this name.")
    ] = None,
    var: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="NAME=VALUE", help="A variable of the pipeline; may be repeated."),
    ] = None,
    dry_run: DryRun = False,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write the report into a file, as JSON.")
    ] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Take the run from a process that still seems to be at work on it.")
    ] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Remove what the run has staged instead of going on with it.")
    ] = False,
    state: Annotated[
        str | None, typer.Option("--state", metavar="URI", help="Where runs are noted, if not in the catalog's root.")
    ] = None,
    no_code: Annotated[
        bool,
        typer.Option("--no-code", help="Refuse a pipeline that may run programs or read files by their path."),
    ] = False,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Where Spark runs; local[*] unless told otherwise.")
    ] = None,
    spark_conf: Annotated[
        list[str] | None, typer.Option("--spark-conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
    ] = None,
) -> int:
    """Run a pipeline: write its tables, check them, and show them all at once.

    A run that was cut off goes on with --run-id; what was finished is not done again, and nothing is published twice.
    """
    from pennon.spark.pipeline import InvalidPipelineError, Pipeline, RunReport
    from pennon.spark.pipeline.state import checked_run_id, new_run_id

    if discard and run_id is None:
        raise CommandFailure("--discard needs --run-id: the run whose staged data is to be removed")
    _require_writable(report)
    try:
        pipeline = Pipeline.from_yaml(file, pairs(var or [], "--var"))
        session.hidden |= pipeline.secrets
        named = checked_run_id(run_id or new_run_id())
        address = _address(session, pipeline)
        if dry_run:
            plan = pipeline.plan(address, allow_code=not no_code)
            session.output.show(_scrubbed(session, plan.document()), lambda: plan_view(plan))
            return ExitCode.DONE
        if discard:
            return _discarded(session, pipeline, address, named, take_over=take_over, state=state)
        if no_code:
            pipeline.plan(address, allow_code=False)
        settings = {**pipeline.definition.spark.conf, **pairs(spark_conf or [], "--spark-conf")}
        with _spark(pipeline, master or pipeline.definition.spark.master, settings) as spark:
            done = _ran(
                session, pipeline, spark, address, named, take_over=take_over, state=state, allow_code=not no_code
            )
    except InvalidPipelineError as error:
        for problem in error.problems:
            _say(secrets.scrubbed(problem.shown(error.file), session.hidden))
        return ExitCode.BAD_INPUT
    done = RunReport.of(_scrubbed(session, done.document()))
    document = done.document()
    if report is not None:
        done.save(report)
    session.output.show(document, lambda: report_view(done))
    return ExitCode.DONE if done.succeeded else ExitCode.CHECKS_FAILED


def _ran(
    session: Session,
    pipeline: "Pipeline",
    spark: "SparkSession",
    address: "Address",
    run_id: str,
    *,
    take_over: bool,
    state: str | None,
    allow_code: bool,
) -> "RunReport":
    from pennon.spark import attach

    if not session.output.is_json:
        _say(f"run {run_id} of pipeline {pipeline.name}")
    lake = attach(spark, impl=address.impl, **dict(address.properties))
    try:
        with _progress() as observer:
            return pipeline.run(
                lake, run_id=run_id, take_over=take_over, state=state, observer=observer, allow_code=allow_code
            )
    except KeyboardInterrupt:
        _say("interrupted: nothing was published, and what was staged is removed")
        raise
    except Exception:
        _say(
            f"the run did not come to its end; --run-id {run_id} goes on with it, and with --discard removes its traces"
        )
        raise


def _discarded(
    session: Session, pipeline: "Pipeline", address: "Address", run_id: str, *, take_over: bool, state: str | None
) -> int:
    there = pipeline.discard(address, run_id, take_over=take_over, state=state)
    text = "what it had staged is removed" if there else "there was nothing to remove"
    document = {"pipeline": pipeline.name, "run_id": run_id, "discarded": there}
    session.output.show(document, lambda: [Note(f"run {run_id} of pipeline {pipeline.name}: {text}")])
    return ExitCode.DONE


# Where it runs


def _address(session: Session, pipeline: "Pipeline") -> "Address":
    """Find the catalog: options win over the pipeline's own `catalog`, which wins over environment and settings."""
    from pennon.spark.address import Address

    own = pipeline.definition.catalog
    if own.root is None and not {"root", "uri"} & own.properties.keys():
        connection = session.connection()
        properties = {**connection.properties, **own.properties, **pairs(session.options.properties, "--property")}
        if connection.found is not None:
            rest = replace(connection.found, keys=connection.found.keys - own.properties.keys())
            rest.require_no_foreign_credential(properties, os.environ)
    else:
        given = pairs(session.options.properties, "--property")
        root = {} if session.options.root is None else {"root": session.options.root}
        properties = {**own.all_properties(), **given, **root}
        connection = Connection(session.options.impl or own.impl, properties)
    session.hidden |= secrets.values(properties)
    return Address.of(connection.impl, properties)


@contextmanager
def _spark(pipeline: "Pipeline", master: str | None, settings: dict[str, str]) -> Iterator["SparkSession"]:
    """Start Spark for the run and stop it at the end, also if somebody terminates this process.

    A session that this process has already is used and left as it is.
    """
    from pyspark.sql import SparkSession

    from pennon.spark.session import new_session

    if master is None and _SUBMITTED not in os.environ:
        master = "local[*]"
    # Spark's own log would stand between the lines of ours, and tells every error a second time.
    quiet = {"spark.log.level": "ERROR"}
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    with _terminable():
        mine = SparkSession.getActiveSession() is None
        spark = new_session(f"pennon run {pipeline.name}", master=master, **{**quiet, **settings})
        try:
            yield spark
        finally:
            if mine:
                spark.stop()


class _Terminated(KeyboardInterrupt):
    """Somebody asked this process to end."""


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end the run as Ctrl-C does: cleanly."""

    def end(*_: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except _Terminated:
        raise SystemExit(_TERMINATED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _require_writable(report: Path | None) -> None:
    if report is not None and (report.is_dir() or not report.absolute().parent.is_dir()):
        raise CommandFailure(f"The report cannot be written to {str(report)!r}: no such directory, or it is one")


# What is shown on the way


class _Bar:
    """Shows how far a run has come."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task: Any = None

    def planned(self, work: Sequence[str]) -> None:
        """Begin with an empty bar."""
        self._task = self._bar.add_task("", total=len(work))

    def begun(self, work: str) -> None:
        """Say what is done now."""
        self._bar.update(self._task, description=work)

    def done(self, work: str, *, reused: bool) -> None:
        """Fill the bar, and leave a line."""
        self._bar.advance(self._task)
        self._bar.console.print(f"{work}: {'was done before' if reused else 'done'}", style="dim")


@contextmanager
def _progress() -> Iterator[_Bar | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True, markup=False, highlight=False)
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Bar(bar)


def _say(text: str) -> None:
    from pennon.cli.terminal_text import one_line

    sys.stderr.write(one_line(text) + "\n")


def _scrubbed(session: Session, document: Any) -> Any:
    """Take secrets out of all texts of a document."""
    if isinstance(document, str):
        return secrets.scrubbed(document, session.hidden)
    if isinstance(document, dict):
        return {key: _scrubbed(session, value) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [_scrubbed(session, value) for value in document]
    return document
