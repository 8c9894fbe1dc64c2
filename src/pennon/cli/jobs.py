"""Jobs on Spark over a table, a namespace, a pattern or the whole catalog: `pennon jobs compact 'prod.*'`."""

from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

from pennon.cli.arguments import DryRun, Yes
from pennon.cli.commands import command, new_app
from pennon.cli.completion import complete_address
from pennon.cli.consent import require_consent
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.job_results import lake, show, which
from pennon.cli.session import Session
from pennon.cli.settings import pairs

app = new_app()

Tables = Annotated[
    str | None,
    typer.Argument(
        metavar="TABLES",
        help="A table, a namespace, or a pattern such as 'prod.*' or '**.events'; all tables, otherwise.",
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
    typer.Option("--job-id", metavar="ID", help="A name for this run: run again, it leaves out what is done."),
]
State = Annotated[
    Path | None, typer.Option("--state", metavar="FILE", help="Where a run notes which tables it has finished.")
]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark's master; all cores of this machine, otherwise.")
]
Remote = Annotated[str | None, typer.Option("--remote", metavar="URL", help="A Spark Connect server.")]


@app.callback()
def jobs() -> None:
    """Run maintenance jobs on Spark. Each shows a row per table; one that fails does not stop the others."""


@command(app, "stats", spark=True)
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
    with lake(session, "stats", master=master, remote=remote) as attached:
        from pennon.spark import jobs as run

        frame = run.stats(attached, which(tables), small_file_bytes=small_file_bytes)
        return show(session, "stats", frame, ["rows", "bytes", "fragments", "small_file_ratio", "versions", "indexes"])


@command(app, "verify", spark=True)
def verify(
    session: Session,
    tables: Tables = None,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Read every row, too.")] = False,
    remove_orphans: Annotated[
        bool, typer.Option("--remove-orphans", help="Delete files that no version names and that are old enough.")
    ] = False,
    orphan_age: Annotated[
        str, typer.Option("--orphan-age", metavar="TIME", help="How old is old enough; at least a day.")
    ] = "7d",
    dry_run: DryRun = False,
    yes: Yes = False,
    job_id: JobId = None,
    state: State = None,
    master: Master = None,
    remote: Remote = None,
) -> ExitCode:
    """Check that every table opens, that its files are there, and find files that nothing names."""
    if remove_orphans and not dry_run:
        require_consent(f"Delete files older than {orphan_age} that no version names?", yes=yes)
    with lake(session, "verify", master=master, remote=remote) as attached:
        from pennon.spark import jobs as run

        frame = run.verify(
            attached,
            which(tables),
            deep=deep,
            remove_orphans=remove_orphans,
            orphan_age=orphan_age,
            dry_run=dry_run,
            job_id=job_id,
            state=state,
        )
        columns = ["versions", "files", "bytes", "missing_files", "orphans", "orphans_removed"]
        return show(session, "verify", frame, columns, dry_run=dry_run)


@command(app, "compact", spark=True)
def compact(
    session: Session,
    tables: Tables = None,
    *,
    target_rows: Annotated[
        int | None, typer.Option("--target-rows", min=1, help="Rows of a fragment; a million, unless the table says.")
    ] = None,
    max_bytes_per_file: Annotated[int | None, typer.Option("--max-bytes-per-file", min=1)] = None,
    deletions: Annotated[
        float | None,
        typer.Option("--deletions", min=0, max=1, help="Rewrite fragments with this part of rows deleted; 0.1."),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads of a task.")] = 1,
    defer_index_remap: Annotated[
        bool, typer.Option("--defer-index-remap", help="Leave indexes to a later optimization.")
    ] = False,
    dry_run: DryRun = False,
    job_id: JobId = None,
    state: State = None,
    master: Master = None,
    remote: Remote = None,
) -> ExitCode:
    """Make large fragments of small ones, and take deleted rows out of the files."""
    with lake(session, "compact", master=master, remote=remote) as attached:
        from pennon.spark import jobs as run

        frame = run.compact(
            attached,
            which(tables),
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
        return show(session, "compact", frame, columns, dry_run=dry_run)


@command(app, "cleanup", spark=True)
def cleanup(
    session: Session,
    tables: Tables = None,
    *,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="TIME", help="Such as 90s, 12h, 14d; two weeks, otherwise.")
    ] = None,
    retain: Annotated[int | None, typer.Option("--retain", min=1, help="Keep so many of the newest versions.")] = None,
    rate_limit: Annotated[int | None, typer.Option("--rate-limit", min=1, help="Deletions per second.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    job_id: JobId = None,
    state: State = None,
    master: Master = None,
    remote: Remote = None,
) -> ExitCode:
    """Delete old versions and the files that only they need; tagged ones stay."""
    if not dry_run:
        require_consent("Delete old versions for good?", yes=yes)
    with lake(session, "cleanup", master=master, remote=remote) as attached:
        from pennon.spark import jobs as run

        frame = run.cleanup(
            attached,
            which(tables),
            older_than=older_than,
            retain_versions=retain,
            delete_rate_limit=rate_limit,
            dry_run=dry_run,
            job_id=job_id,
            state=state,
        )
        columns = ["versions_removed", "versions_left", "bytes_removed", "seconds"]
        return show(session, "cleanup", frame, columns, dry_run=dry_run)


@command(app, "index", spark=True)
def index(
    session: Session,
    tables: SomeTables,
    *,
    column: Annotated[str | None, typer.Option("--column", "-c", metavar="NAME", help="The column to index.")] = None,
    kind: Annotated[
        str, typer.Option("--type", "-t", metavar="KIND", help="btree, bitmap, fts, ivf_pq and others.")
    ] = "btree",
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="COLUMN_idx, otherwise.")] = None,
    metric: Annotated[str, typer.Option("--metric", metavar="NAME", help="l2, cosine, dot or hamming.")] = "l2",
    partitions: Annotated[int | None, typer.Option("--partitions", min=1)] = None,
    sub_vectors: Annotated[int | None, typer.Option("--sub-vectors", min=1)] = None,
    params: Annotated[
        list[str] | None, typer.Option("--param", metavar="KEY=VALUE", help="A further option of Lance; repeatable.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Build it anew if it is there.")] = False,
    optimize: Annotated[
        bool, typer.Option("--optimize", help="Bring new rows into the indexes that are there instead.")
    ] = False,
    dry_run: DryRun = False,
    job_id: JobId = None,
    state: State = None,
    master: Master = None,
    remote: Remote = None,
) -> ExitCode:
    """Build an index on a column, or bring new rows into the indexes that are there."""
    if optimize == (column is not None):
        raise CommandFailure("Give --column to build an index, or --optimize for those that are there")
    with lake(session, "index", master=master, remote=remote) as attached:
        from pennon.spark import jobs as run

        common: dict[str, Any] = {"dry_run": dry_run, "job_id": job_id, "state": state}
        if column is None:
            names = None if name is None else [name]
            frame = run.optimize_indexes(attached, which(tables), names=names, **common)
        else:
            frame = run.index(
                attached,
                which(tables),
                column,
                kind,
                name=name,
                metric=metric,
                num_partitions=partitions,
                num_sub_vectors=sub_vectors,
                params={key: _value(text) for key, text in pairs(params or (), "--param").items()},
                replace=replace,
                **common,
            )
        return show(session, "index", frame, ["index", "rows", "bytes", "version_after", "seconds"], dry_run=dry_run)


@command(app, "backfill", spark=True)
def backfill(
    session: Session,
    tables: SomeTables,
    *,
    expressions: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="COLUMN=SQL", help="Fill a column by an expression; may be repeated."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="PATH", help="Fill columns from files that Spark reads.")
    ] = None,
    file_format: Annotated[str, typer.Option("--format", metavar="NAME", help="The format of --from.")] = "parquet",
    on: Annotated[
        str | None, typer.Option("--on", metavar="A,B", help="The columns by which rows of --from find theirs.")
    ] = None,
    dry_run: DryRun = False,
    job_id: JobId = None,
    state: State = None,
    master: Master = None,
    remote: Remote = None,
) -> ExitCode:
    """Fill columns, new or there already, from files by key or by expressions."""
    if bool(expressions) == (source is not None) or (source is not None) != (on is not None):
        raise CommandFailure("Give --set, or --from and --on")
    values = pairs(expressions or (), "--set")
    with lake(session, "backfill", master=master, remote=remote) as attached:
        from pennon.spark import jobs as run

        frame = run.backfill(
            attached,
            which(tables),
            None if source is None else attached.spark.read.format(file_format).load(source),
            on=None if on is None else [key.strip() for key in on.split(",")],
            expressions=values or None,
            dry_run=dry_run,
            job_id=job_id,
            state=state,
        )
        columns = ["columns", "rows_filled", "fragments", "version_after", "seconds"]
        return show(session, "backfill", frame, columns, dry_run=dry_run)


@command(app, "migrate", spark=True)
def migrate(
    session: Session, tables: Tables = None, *, dry_run: DryRun = False, master: Master = None, remote: Remote = None
) -> ExitCode:
    """Bring root tables into the manifest (V1 to V2), after a look at each."""
    with lake(session, "migrate", master=master, remote=remote) as attached:
        from pennon.spark import jobs as run

        frame = run.migrate(attached, which(tables), dry_run=dry_run)
        return show(session, "migrate", frame, ["location", "rows", "seconds"], dry_run=dry_run)


@command(app, "purge", spark=True)
def purge(
    session: Session,
    tables: Tables = None,
    *,
    before: Annotated[
        datetime | None, typer.Option("--before", help="Of those that are due, only what was dropped before (UTC).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also before its time, and if it is protected.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    master: Master = None,
    remote: Remote = None,
) -> ExitCode:
    """Delete dropped tables for good."""
    if not dry_run:
        require_consent("Delete dropped tables for good?", yes=yes)
    with lake(session, "purge", master=master, remote=remote) as attached:
        from pennon.spark import jobs as run

        moment = None if before is None else before.replace(tzinfo=before.tzinfo or timezone.utc)
        frame = run.purge(attached, which(tables), deleted_before=moment, force=force, dry_run=dry_run)
        return show(session, "purge", frame, ["files_removed", "bytes_removed", "seconds"], dry_run=dry_run)


def _value(text: str) -> Any:
    """Read a number, true or false as what it is; everything else is text."""
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
