"""The command `run`, which runs a pipeline (docs/guides/pipelines.md)."""

import os
import sys
from collections.abc import Iterator, Sequence
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
from pennon.cli.pipeline_views import plan_view, report_view
from pennon.cli.session import Session
from pennon.cli.settings import Connection, parse_pairs
from pennon.cli.spark_start import start_spark
from pennon.progress import open_bar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress

    from pennon.spark.address import Address
    from pennon.spark.pipeline import Pipeline, RunReport
    from pennon.spark.pipeline.observer import Observer

app = new_app()


@command(app, "run", spark=True)
def run(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="PIPELINE", help="The pipeline's YAML file.")],
    *,
    run_id: Annotated[
        str | None,
        typer.Option("--run-id", metavar="ID", help="The name of a new run, or of an interrupted run to continue."),
    ] = None,
    var: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="NAME=VALUE", help="A variable of the pipeline; may be repeated."),
    ] = None,
    dry_run: DryRun = False,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write the report to a file, as JSON.")
    ] = None,
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
    no_code: Annotated[
        bool,
        typer.Option("--no-code", help="Reject pipelines that can run code or read files by path."),
    ] = False,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Spark's master. The default is local[*].")
    ] = None,
    spark_conf: Annotated[
        list[str] | None, typer.Option("--spark-conf", metavar="KEY=VALUE", help="A Spark setting; may be repeated.")
    ] = None,
) -> int:
    """Run a pipeline: write its tables, check them, and publish them together.

    --run-id continues an interrupted run. Finished work is not repeated, and nothing is published twice.
    """
    from pennon.spark.pipeline import InvalidPipelineError, Pipeline
    from pennon.spark.pipeline.run_state import new_run_id, validate_run_id
    from pennon.spark.pipeline.scrubbing import change_texts

    def hide(text: str) -> str:
        return secrets.scrub(text, session.hidden)

    if discard and run_id is None:
        raise CommandFailure("--discard needs --run-id, the run whose staged data to delete")
    _require_writable(report)
    try:
        pipeline = Pipeline.from_yaml(file, parse_pairs(var or [], "--var"))
        session.hidden |= pipeline.secrets
        named = validate_run_id(run_id or new_run_id())
        address = _find_catalog(session, pipeline)
        if dry_run:
            plan = change_texts(pipeline.plan(address, allow_code=not no_code), hide)
            session.output.show(plan.document(), lambda: plan_view(plan))
            return ExitCode.DONE
        if discard:
            return _discard_run(session, pipeline, address, named, take_over=take_over, state=state)
        settings = {**pipeline.definition.spark.conf, **parse_pairs(spark_conf or [], "--spark-conf")}
        master = master or pipeline.definition.spark.master
        if run_id is None or not pipeline.is_begun(address, named, state=state):
            # What needs no Spark is reported before it starts. A resumed run reads the versions that it began with.
            pipeline.plan(address, allow_code=not no_code)
        app = f"pennon run {pipeline.name}"
        with start_spark(app, master=master, settings=settings, verbose=session.debug) as spark:
            done = _run_pipeline(
                session, pipeline, spark, address, named, take_over=take_over, state=state, allow_code=not no_code
            )
    except InvalidPipelineError as error:
        for problem in error.problems:
            _print_line(hide(problem.format(error.file)))
        return ExitCode.BAD_INPUT
    done = change_texts(done, hide)
    document = done.document()
    if report is not None:
        done.save(report)
    session.output.show(document, lambda: report_view(done))
    return ExitCode.DONE if done.succeeded else ExitCode.CHECKS_FAILED


def _run_pipeline(
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
    from pennon.spark.pipeline import InvalidPipelineError

    if not session.output.is_json:
        _print_line(f"run {run_id} of pipeline {pipeline.name}")
    lake = attach(spark, impl=address.impl, **dict(address.properties))
    try:
        with _show_progress() as observer:
            return pipeline.run(
                lake, run_id=run_id, take_over=take_over, state=state, observer=observer, allow_code=allow_code
            )
    except KeyboardInterrupt:
        _print_line("interrupted: nothing was published, and the staged data was removed")
        raise
    except InvalidPipelineError:
        raise
    except Exception:
        _print_line(
            f"the run did not finish; continue it with --run-id {run_id}, or add --discard to delete its staged data"
        )
        raise


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

    task = bar.add_task("", total=None, note="")

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
