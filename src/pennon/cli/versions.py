"""The commands `versions`, `tag`, `restore` and `manage-versions`."""

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import typer

from pennon.cli.arguments import Branch, DryRun, Page, TableArgument
from pennon.cli.commands import command, new_app
from pennon.cli.failures import CommandFailure
from pennon.cli.output import Block, Column, Note, Table
from pennon.cli.session import Session
from pennon.cli.values import format_time

app = new_app()

_SHOWN = 20
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@command(app, "versions", examples=["pennon versions prod.events --long"])
def versions(
    session: Session,
    table: TableArgument,
    *,
    long: Annotated[bool, typer.Option("--long", "-l", help="Open each version, and show its rows.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", min=0, help=f"How many; 0 for all. The default is {_SHOWN} on a terminal, and all in JSON."
        ),
    ] = None,
    page: Page = None,
    branch: Branch = None,
) -> None:
    """List the versions of a table, the newest first."""
    most = limit or None if limit is not None or session.output.is_json else _SHOWN
    with session.lake() as lake:
        import lance_namespace as sdk

        from pennon.cli.table_access import translate_failures
        from pennon.progress import show_progress

        with translate_failures("versions", table):
            opened = lake[table].at(branch=branch)
            request = sdk.ListTableVersionsRequest(
                id=list(opened.identifier), page_token=page, limit=most, descending=True, branch=branch
            )
            listed = lake.namespace.list_table_versions(request)
            tags: dict[int, list[str]] = {}
            for one in opened.tags() if listed.versions else ():
                if one.branch == branch:
                    tags.setdefault(one.version, []).append(one.name)
            rows: dict[int, int] = {}
            if long:
                with show_progress("opening versions", len(listed.versions)) as advance:
                    for record in listed.versions:
                        rows[record.version] = opened.at(record.version, branch=branch).count()
                        advance(1)

    def document(record: Any) -> dict[str, Any]:
        when = None if record.timestamp_millis is None else _EPOCH + timedelta(milliseconds=record.timestamp_millis)
        content = {"version": record.version, "committed_at": when, "tags": sorted(tags.get(record.version, []))}
        return {**content, "rows": rows[record.version]} if record.version in rows else content

    found, token = [document(record) for record in listed.versions], listed.page_token

    def view() -> Iterable[Block]:
        columns = [Column("version", right=True), Column("committed (UTC)"), Column("tags", "cyan", whole=True)]
        cells = [[str(one["version"]), format_time(one["committed_at"]), ", ".join(one["tags"])] for one in found]
        if rows:
            columns.insert(2, Column("rows", right=True))
            cells = [[*one[:2], f"{document_['rows']:,}", one[2]] for one, document_ in zip(cells, found, strict=True)]
        yield Table(columns, cells, empty="no version yet")
        if token is not None:
            yield Note(f"there are more: use --limit 0 for all, or --page {token}")

    session.output.show({"id": list(opened.identifier), "versions": found, "next_page": token}, view)


@command(
    app,
    "tag",
    examples=[
        "pennon tag prod.events",
        "pennon tag prod.events checked",
        "pennon tag prod.events checked --version 7 --move",
        "pennon tag prod.events checked --delete",
    ],
)
def tag(
    session: Session,
    table: TableArgument,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The tag. Without it, all tags are listed.")
    ] = None,
    *,
    version: Annotated[
        int | None, typer.Option("--version", "-v", min=1, metavar="N", help="The version. The default is the latest.")
    ] = None,
    branch: Branch = None,
    move: Annotated[bool, typer.Option("--move", help="Move the tag if it exists.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the tag. Its version stays.")] = False,
) -> None:
    """List, create, move or delete tags of a table. A tag is a name for a version, which is kept as long as the tag."""
    if name is None and (move or delete or version is not None or branch is not None):
        raise CommandFailure("Name the tag to create, move or delete")
    if delete and (move or version is not None or branch is not None):
        raise CommandFailure("--delete needs only the name of the tag")
    with session.lake() as lake:
        from pennon.cli.table_access import translate_failures

        with translate_failures("tag", table):
            opened = lake[table]
            if delete and name is not None:
                opened.delete_tag(name)
            elif name is not None:
                opened.at(branch=branch).tag(name, version, move=move)
            found = opened.tags()
    content = [{"name": one.name, "version": one.version, "branch": one.branch} for one in found]

    def view() -> Iterable[Block]:
        columns = [Column("tag", whole=True), Column("version", right=True), Column("branch", "cyan", whole=True)]
        yield Table(columns, [[one.name, str(one.version), one.branch or ""] for one in found], empty="no tags")

    session.output.show({"id": list(opened.identifier), "tags": content}, view)


@command(app, "restore", examples=["pennon restore prod.events 7", "pennon restore prod.events checked --dry-run"])
def restore(
    session: Session,
    table: TableArgument,
    wanted: Annotated[str, typer.Argument(metavar="VERSION|TAG", help="The version, by its number or by a tag.")],
    *,
    branch: Branch = None,
    dry_run: DryRun = False,
) -> None:
    """Make an old version of a table the latest one again, as a new version. No version is lost."""
    with session.lake() as lake:
        from pennon import addresses
        from pennon.cli.table_access import translate_failures
        from pennon.errors import TableTagNotFoundError

        with translate_failures("restore", table):
            opened = lake[table].at(branch=branch)
            chosen = next((one for one in opened.tags() if one.name == wanted), None)
            shown = addresses.format_address(opened.identifier)
            if chosen is None and not wanted.isdecimal():
                raise TableTagNotFoundError(f"Table '{shown}' has no tag {wanted!r}; a version is a number")
            if chosen is not None and chosen.branch != branch:
                raise CommandFailure(
                    f"The tag {wanted!r} is on {_name_branch(chosen.branch)}, not on {_name_branch(branch)}"
                )
            old = int(wanted) if chosen is None else chosen.version
            if dry_run:
                made = None
                # Raises the error that the command would.
                lake[table].at(old, branch=branch).count()
            else:
                made = opened.restore(old).version
    document = {"id": list(opened.identifier), "restored": old, "version": made, "dry_run": dry_run}
    done = f"would get version {old} again" if dry_run else f"has version {old} again, as version {made}"
    session.output.show(document, lambda: [Note(f"table {shown} {done}")])


def _name_branch(branch: str | None) -> str:
    return "the main branch" if branch is None else f"the branch {branch!r}"


@command(app, "manage-versions", examples=["pennon manage-versions"])
def manage_versions(
    session: Session,
    *,
    off: Annotated[bool, typer.Option("--off", help="Stop managing versions.")] = False,
) -> None:
    """Let the catalog manage the versions of its tables, so that several can be published together."""
    with session.lake() as lake:
        from pennon.cli.table_access import translate_failures

        with translate_failures("manage-versions"):
            report = lake.manage_versions(on=not off)
    state = "by the tables' files" if off else "managed by the catalog"
    document = {"manages_versions": not off, "tables": report.tables, "versions": report.versions}
    session.output.show(
        document, lambda: [Note(f"versions are {state}: {report.tables:,} tables, {report.versions:,} versions")]
    )
