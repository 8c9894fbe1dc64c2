"""The pages of a table: what it is, its rows, its versions, what changed between two of them, and code to copy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lance_namespace import (
    DescribeTableRequest,
    ListTableBranchesRequest,
    ListTableIndicesRequest,
    ListTableTagsRequest,
    ListTableVersionsRequest,
    TableExistsRequest,
)

from pennon.directory.lookup.directories import look_at
from pennon.errors import InvalidInputError, LanceNamespaceError, TableIsOnlyDeclaredError
from pennon.identifiers import quote_identifier
from pennon.pipeline_runs.run_state import parse_job_id
from pennon.server.lance.errors import describe_error
from pennon.server.pages import comparison, paths, samples
from pennon.server.pages.cells import describe_type
from pennon.server.pages.part_reading import Part, read_part
from pennon.server.pages.snippets import write_snippets
from pennon.server.permissions.rights import ANONYMOUS, Right
from pennon.table.history import JOB, read_transaction
from pennon.table.version_summary import VersionSummary, summarize_version

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from starlette.responses import Response

    from pennon.identifiers import Identifier
    from pennon.server.pages.page_request import PageRequest

VERSIONS_ON_PAGE = 20
_OVERVIEW_ROWS = 5
_MOST_ENTRIES = 100
_MOST_FIELDS = 500
_BAR_WIDTH = 160
_OPERATIONS = {
    "Append": "rows appended",
    "CreateIndex": "index created",
    "DataReplacement": "columns replaced",
    "Delete": "rows deleted",
    "Merge": "columns added",
    "Overwrite": "overwritten",
    "Project": "columns dropped or changed",
    "Restore": "restored",
    "Rewrite": "compacted",
    "Update": "rows updated",
    "UpdateConfig": "settings changed",
}
"""What operations of Lance do, in words."""


@dataclass(frozen=True)
class SchemaLine:
    """A column in the schema of a table."""

    name: str
    type: str
    nullable: bool
    metadata: dict[str, str]


@dataclass(frozen=True)
class VersionLine:
    """A version in the timeline."""

    version: int
    summary: VersionSummary | None
    operation: str = ""
    tags: tuple[str, ...] = ()
    row_bar: float = 0
    byte_bar: float = 0
    more_rows: int | None = None
    """How many rows it has more than the version before; None if that is not on the page."""
    note: str = ""
    run: tuple[str, str] | None = None
    """The pipeline and its run that committed the version."""


def show_table(request: PageRequest) -> Response:
    """Return the overview of a table, at one of its versions."""
    identifier = request.table
    described = request.namespace.describe_table(DescribeTableRequest(id=list(identifier)))
    dataset = _open(request)
    values: dict[str, Any] = {
        "location": described.location,
        "properties": described.properties or {},
        "can_see_trash": request.allows(Right.MANAGE, "namespace", identifier[:-1]),
    }
    if dataset is not None:
        values |= {
            "summary": summarize_version(dataset),
            "schema": list_schema(dataset.schema),
            "left_fields": max(0, len(dataset.schema) - _MOST_FIELDS),
            "schema_metadata": {_decode(key): _decode(value) for key, value in (dataset.schema.metadata or {}).items()},
            "sample": read_part("Rows", lambda: samples.read_sample(dataset, 0, _OVERVIEW_ROWS)),
            **_list_attachments(request, int(dataset.version)),
        }
    return _render(request, "table.html", "overview", dataset, **values)


def show_rows(request: PageRequest) -> Response:
    """Return some rows of a table."""
    start = request.number("start", 0) or 0
    dataset = _open(request)
    sample = None if dataset is None else read_part("Rows", lambda: samples.read_sample(dataset, start))
    return _render(request, "rows.html", "rows", dataset, sample=sample)


def show_versions(request: PageRequest) -> Response:
    """Return the timeline of a table."""
    identifier = request.table
    page = request.namespace.list_table_versions(
        ListTableVersionsRequest(id=list(identifier), page_token=request.page_token, limit=VERSIONS_ON_PAGE)
    )
    dataset = _open(request)
    tags = read_part("Tags", lambda: {} if dataset is None else _find_tags(dataset))
    found = tags.value or {}

    def read(version: int) -> VersionLine:
        return _read_version(request, version, tuple(found.get(version, ())))

    lines = request.map(read, [int(one.version) for one in page.versions])
    return _render(
        request,
        "versions.html",
        "versions",
        dataset,
        lines=_draw_bars(lines),
        tags=tags,
        more=page.page_token and paths.table_path(identifier, "versions", page=page.page_token),
        is_later_page=request.page_token is not None,
    )


def show_comparison(request: PageRequest) -> Response:
    """Return the difference between two versions of a table."""
    identifier, key = request.table, request.text("key")
    latest = _open(request)
    newest = 0 if latest is None else int(latest.version)
    after = request.number("after", newest) or newest
    before = request.number("before", max(1, after - 1)) or 1
    found: Part[comparison.Comparison] | None = None
    columns: list[str] = []
    if latest is not None:
        namespace = request.namespace
        opened = [namespace.open_dataset(identifier, version=one) for one in (before, after)]
        columns = list(opened[1].schema.names)[:_MOST_FIELDS]
        found = read_part("Rows", lambda: comparison.compare(opened[0], opened[1], key))
    return _render(
        request,
        "comparison.html",
        "compare",
        latest,
        before=before,
        after=after,
        key=key,
        key_columns=columns,
        found=found,
        most_rows=comparison.MOST_ROWS,
    )


def show_code(request: PageRequest) -> Response:
    """Return code that reads a table in other tools."""
    request.namespace.table_exists(TableExistsRequest(id=list(request.table)))
    with_token = request.principal != ANONYMOUS
    return _render(
        request, "code.html", "code", None, snippets=write_snippets(request.table, request.url, with_token=with_token)
    )


def list_schema(schema: pa.Schema) -> list[SchemaLine]:
    """Return the columns of a schema, without those beyond 500."""
    return [
        SchemaLine(
            field.name,
            describe_type(field),
            field.nullable,
            {_decode(key): _decode(value) for key, value in (field.metadata or {}).items()},
        )
        for field in list(schema)[:_MOST_FIELDS]
    ]


def _render(request: PageRequest, template: str, view: str, dataset: LanceDataset | None, **values: Any) -> Response:  # noqa: ANN401 - of a template
    version = request.number("version")
    return request.render(
        template,
        quote_identifier(request.table),
        place=request.table[:-1],
        section="browse",
        table=request.table,
        is_protected=_is_protected(request, request.table),
        view=view,
        version=version,
        shown_version=None if dataset is None else int(dataset.version),
        is_declared=dataset is None and view != "code",
        **values,
    )


def _open(request: PageRequest) -> LanceDataset | None:
    """Return the table at the version of the request, or None if it is only declared."""
    version = request.number("version")
    if version == 0:
        raise InvalidInputError("Versions begin with 1")
    try:
        return request.namespace.open_dataset(request.table, version=version)
    except TableIsOnlyDeclaredError:
        return None


def _list_attachments(request: PageRequest, version: int) -> dict[str, Any]:
    """Return the indexes of a version, and the tags and branches of the table."""
    names, namespace = list(request.table), request.namespace
    of_indexes = ListTableIndicesRequest(id=names, version=version, limit=_MOST_ENTRIES)
    of_tags = ListTableTagsRequest(id=names, limit=_MOST_ENTRIES)
    of_branches = ListTableBranchesRequest(id=names, limit=_MOST_ENTRIES)
    found: dict[str, Part[Any]] = {
        "indexes": read_part("Indexes", lambda: namespace.list_table_indices(of_indexes)),
        "tags": read_part("Tags", lambda: namespace.list_table_tags(of_tags)),
        "branches": read_part("Branches", lambda: namespace.list_table_branches(of_branches)),
    }
    left = any(one.value is not None and one.value.page_token for one in found.values())
    return {**found, "left_attachments": left}


def _find_tags(dataset: LanceDataset) -> dict[int, list[str]]:
    """Return the tags of each version of the main branch."""
    found: dict[int, list[str]] = {}
    for name, tag in sorted(dataset.tags.list().items()):
        if tag["branch"] is None:
            found.setdefault(int(tag["version"]), []).append(str(name))
    return found


def _read_version(request: PageRequest, version: int, tags: tuple[str, ...]) -> VersionLine:
    try:
        dataset = request.namespace.open_dataset(request.table, version=version)
        transaction = read_transaction(dataset, version)
    except (LanceNamespaceError, OSError, ValueError) as error:
        return VersionLine(version, None, tags=tags, note=describe_error(error)[1])
    operation = "" if transaction is None else _name_operation(type(transaction.operation).__name__, version)
    properties = {} if transaction is None else transaction.transaction_properties or {}
    run = parse_job_id(str(properties.get(JOB, "")))
    return VersionLine(version, summarize_version(dataset), operation, tags, run=run)


def _name_operation(name: str, version: int) -> str:
    return "created" if version == 1 and name == "Overwrite" else _OPERATIONS.get(name, name)


def _draw_bars(lines: list[VersionLine]) -> list[VersionLine]:
    """Return the lines with bars, the longest of them for the largest number on the page."""
    read = [one.summary for one in lines if one.summary is not None]
    most_rows = max((one.rows for one in read), default=0) or 1
    most_bytes = max((one.data_bytes for one in read), default=0) or 1
    before = {one.version + 1: one.summary.rows for one in lines if one.summary is not None}
    return [
        line
        if line.summary is None
        else replace(
            line,
            row_bar=round(_BAR_WIDTH * line.summary.rows / most_rows, 1),
            byte_bar=round(_BAR_WIDTH * line.summary.data_bytes / most_bytes, 1),
            more_rows=line.summary.rows - before[line.version] if line.version in before else None,
        )
        for line in lines
    ]


def _is_protected(request: PageRequest, identifier: Identifier) -> bool:
    if request.catalog is None:
        return False
    found = request.catalog.resolver.table(identifier)
    directory = found.directory or look_at(request.catalog.store, found.location)
    return directory.protected or (found.row is not None and found.row.protected)


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "replace")
