"""Maintenance jobs on Spark for a table, a namespace, a pattern or the catalog: `pennon jobs compact 'prod.*'`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pennon.cli.arguments import DryRun, Yes
from pennon.cli.commands import command, format_examples, new_app
from pennon.cli.completion import complete_address
from pennon.cli.consent import require_consent
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.job_results import open_lake, show_result
from pennon.cli.session import Session
from pennon.cli.settings import parse_pairs

if TYPE_CHECKING:
    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector

app = new_app()

Tables = Annotated[
    str | None,
    typer.Argument(
        metavar="TABLES",
        help="A table, a namespace, or a pattern such as 'prod.*' or '**.events'. The default is all tables.",
        autocompletion=complete_address,
    ),
]
SomeTables = Annotated[
    str,
    typer.Argument(
        metavar="TABLES",
        help="A table, a namespace, or a pattern such as 'prod.*' or '**.events'.",
        autocompletion=complete_address,
    ),
]
JobId = Annotated[
    str | None,
    typer.Option("--job-id", metavar="ID", help="A name for this run. A run with the same name skips finished tables."),
]
State = Annotated[
    Path | None, typer.Option("--state", metavar="FILE", help="The file that records which tables are finished.")
]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's master. The default is all cores of this machine."),
]
Remote = Annotated[str | None, typer.Option("--remote", metavar="URL", help="A Spark Connect server.")]


@app.callback(
    epilog=format_examples(
        [
            "pennon jobs stats",
            "pennon jobs compact 'prod.*'",
            "pennon jobs cleanup prod.events --older-than 14d --dry-run",
        ]
    )
)
def jobs() -> None:
    """Run maintenance jobs on Spark. Each shows a row per table. A table that fails does not stop the others."""


@command(app, "stats", examples=["pennon jobs stats 'prod.*'"], spark=True)
def stats(
    session: Session,
    tables: Tables = None,
    *,
    small_file_bytes: Annotated[
        int, typer.Option("--small-file-bytes", min=1, help="Files below this size count as small.")
    ] = 16 * 1024 * 1024,
    master: Master = None,
    remote: Remote = None,
) -> ExitCode:
    """Show rows, bytes, fragments, versions and indexes of tables."""
    with open_lake(session, "stats", tables, master=master, remote=remote) as (attached, which):
        from pennon.spark import jobs as run

        results = run.stats(attached, which, small_file_bytes=small_file_bytes)
        return show_result(
            session, "stats", results, ["rows", "bytes", "fragments", "small_file_ratio", "versions", "indexes"]
        )


@command(app, "verify", examples=["pennon jobs verify prod.events"], spark=True)
def verify(
    session: Session,
    tables: Tables = None,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Also read every row.")] = False,
    remove_orphans: Annotated[
        bool, typer.Option("--remove-orphans", help="Delete old files that no version refers to.")
    ] = False,
    orphan_age: Annotated[
        str,
        typer.Option(
            "--orphan-age", metavar="TIME", help="The age of files that --remove-orphans deletes; at least a day."
        ),
    ] = "7d",
    dry_run: DryRun = False,
    yes: Yes = False,
    job_id: JobId = None,
    state: State = None,
    master: Master = None,
    remote: Remote = None,
) -> ExitCode:
    """Check that tables open and have all their files. Find files that no version refers to."""
    if remove_orphans and not dry_run:
        require_consent(f"Delete files older than {orphan_age} that no version refers to?", yes=yes)
    with open_lake(session, "verify", tables, master=master, remote=remote) as (attached, which):
        from pennon.spark import jobs as run

        results = run.verify(
            attached,
            which,
            deep=deep,
            remove_orphans=remove_orphans,
            orphan_age=orphan_age,
            dry_run=dry_run,
            job_id=job_id,
            state=state,
        )
        columns = ["versions", "files", "bytes", "missing_files", "orphans", "orphans_removed"]
        return show_result(session, "verify", results, columns, dry_run=dry_run)


@command(app, "compact", examples=["pennon jobs compact 'prod.*'"], spark=True)
def compact(
    session: Session,
    tables: Tables = None,
    *,
    target_rows: Annotated[
        int | None,
        typer.Option(
            "--target-rows", min=1, help="Rows per fragment. The default is the table's setting, or a million."
        ),
    ] = None,
    max_bytes_per_file: Annotated[
        int | None, typer.Option("--max-bytes-per-file", min=1, help="The largest size of a data file.")
    ] = None,
    deletions: Annotated[
        float | None,
        typer.Option(
            "--deletions",
            min=0,
            max=1,
            help="Rewrite fragments with at least this fraction of deleted rows. The default is 0.1.",
        ),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads per task.")] = 1,
    defer_index_remap: Annotated[
        bool, typer.Option("--defer-index-remap", help="Update indexes later, with jobs index --optimize.")
    ] = False,
    dry_run: DryRun = False,
    job_id: JobId = None,
    state: State = None,
    master: Master = None,
    remote: Remote = None,
) -> ExitCode:
    """Merge small fragments, and remove deleted rows from the files."""
    with open_lake(session, "compact", tables, master=master, remote=remote) as (attached, which):
        from pennon.spark import jobs as run

        results = run.compact(
            attached,
            which,
            target_rows_per_fragment=target_rows,
            max_bytes_per_file=max_bytes_per_file,
            materialize_deletions_threshold=deletions,
            num_threads=threads,
            defer_index_remap=defer_index_remap or None,
            dry_run=dry_run,
            job_id=job_id,
            state=state,
        )
        columns = ["fragments_before", "fragments_after", "bytes_rewritten", "version_after", "seconds"]
        return show_result(session, "compact", results, columns, dry_run=dry_run)


@command(app, "cleanup", examples=["pennon jobs cleanup 'prod.*' --dry-run"], spark=True)
def cleanup(
    session: Session,
    tables: Tables = None,
    *,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="For example 90s, 12h or 14d. The default is two weeks."),
    ] = None,
    retain: Annotated[
        int | None, typer.Option("--retain", min=1, help="Keep at least this many of the newest versions.")
    ] = None,
    rate_limit: Annotated[
        int | None, typer.Option("--rate-limit", min=1, help="The most deletions per second.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    job_id: JobId = None,
    state: State = None,
    master: Master = None,
    remote: Remote = None,
) -> ExitCode:
    """Delete old versions and the files that only they use. Tagged versions are kept."""
    if not dry_run:
        require_consent("Delete old versions permanently?", yes=yes)
    with open_lake(session, "cleanup", tables, master=master, remote=remote) as (attached, which):
        from pennon.spark import jobs as run

        results = run.cleanup(
            attached,
            which,
            older_than=older_than,
            retain_versions=retain,
            delete_rate_limit=rate_limit,
            dry_run=dry_run,
            job_id=job_id,
            state=state,
        )
        columns = ["versions_removed", "versions_left", "bytes_removed", "seconds"]
        return show_result(session, "cleanup", results, columns, dry_run=dry_run)


@command(app, "index", examples=["pennon jobs index prod.events --column vector --type ivf_pq"], spark=True)
def index(
    session: Session,
    tables: SomeTables,
    *,
    column: Annotated[str | None, typer.Option("--column", "-c", metavar="NAME", help="The column to index.")] = None,
    kind: Annotated[
        str,
        typer.Option(
            "--type", "-t", metavar="KIND", help="The type of the index: btree, bitmap, fts, ivf_pq and others."
        ),
    ] = "btree",
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The name of the index. The default is COLUMN_idx.")
    ] = None,
    metric: Annotated[
        str,
        typer.Option("--metric", metavar="NAME", help="The distance of a vector index: l2, cosine, dot or hamming."),
    ] = "l2",
    partitions: Annotated[int | None, typer.Option("--partitions", min=1, help="Partitions of a vector index.")] = None,
    sub_vectors: Annotated[
        int | None, typer.Option("--sub-vectors", min=1, help="Sub-vectors of product quantization.")
    ] = None,
    params: Annotated[
        list[str] | None, typer.Option("--param", metavar="KEY=VALUE", help="Another option of Lance; may be repeated.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing index.")] = False,
    optimize: Annotated[
        bool, typer.Option("--optimize", help="Instead, add new rows to the existing indexes.")
    ] = False,
    dry_run: DryRun = False,
    job_id: JobId = None,
    state: State = None,
    master: Master = None,
    remote: Remote = None,
) -> ExitCode:
    """Build an index on a column, or add new rows to the existing indexes."""
    if optimize == (column is not None):
        raise CommandFailure("Use --column to build an index, or --optimize to update the existing indexes")
    from pennon.table.index_kinds import parse_kind, parse_metric, parse_parameter

    parse_kind(kind)
    parse_metric(metric)

    def check(address: "Address", which: "TableSelector") -> None:
        from pennon.spark.jobs.index import require_column

        if column is not None:
            require_column(address, which, column)

    with open_lake(session, "index", tables, check, master=master, remote=remote) as (attached, which):
        from pennon.spark import jobs as run

        common: dict[str, Any] = {"dry_run": dry_run, "job_id": job_id, "state": state}
        if column is None:
            names = None if name is None else [name]
            results = run.optimize_indexes(attached, which, names=names, **common)
        else:
            results = run.index(
                attached,
                which,
                column,
                kind,
                name=name,
                metric=metric,
                num_partitions=partitions,
                num_sub_vectors=sub_vectors,
                params={key: parse_parameter(text) for key, text in parse_pairs(params or (), "--param").items()},
                replace=replace,
                **common,
            )
        return show_result(
            session, "index", results, ["index", "rows", "bytes", "version_after", "seconds"], dry_run=dry_run
        )


@command(app, "backfill", examples=["pennon jobs backfill prod.events --set 'total=price * amount'"], spark=True)
def backfill(
    session: Session,
    tables: SomeTables,
    *,
    expressions: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="COLUMN=SQL", help="Fill a column with an expression; may be repeated."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="PATH", help="Fill columns from files that Spark can read.")
    ] = None,
    file_format: Annotated[str, typer.Option("--format", metavar="NAME", help="The format of --from.")] = "parquet",
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="A,B", help="The columns that match rows of --from with rows of the table."),
    ] = None,
    dry_run: DryRun = False,
    job_id: JobId = None,
    state: State = None,
    master: Master = None,
    remote: Remote = None,
) -> ExitCode:
    """Fill new or existing columns, from files or with expressions."""
    if bool(expressions) == (source is not None) or (source is not None) != (on is not None):
        raise CommandFailure("Use either --set, or --from and --on")
    values = parse_pairs(expressions or (), "--set")
    keys = [key.strip() for key in (on or "").split(",")] if source is not None else []

    def check(address: "Address", which: "TableSelector") -> None:
        from pennon.errors import TableNotFoundError
        from pennon.spark.jobs.backfill import require_fitting_columns
        from pennon.spark.pipeline.sources import find_missing_path

        if source is not None and find_missing_path(file_format, [source], {}) is not None:
            raise TableNotFoundError(f"--from: there is nothing at {source!r}")
        require_fitting_columns(address, which, on=keys, expressions=values)

    with open_lake(session, "backfill", tables, check, master=master, remote=remote) as (attached, which):
        from pennon.spark import jobs as run

        results = run.backfill(
            attached,
            which,
            None if source is None else attached.spark.read.format(file_format).load(source),
            on=keys or None,
            expressions=values or None,
            dry_run=dry_run,
            job_id=job_id,
            state=state,
        )
        columns = ["columns", "rows_filled", "fragments", "version_after", "seconds"]
        return show_result(session, "backfill", results, columns, dry_run=dry_run)
