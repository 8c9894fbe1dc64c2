"""A tour of the catalog: namespaces, tables, older tables, migration. Run it with `make tour`."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
from lance_namespace import (
    CreateNamespaceRequest,
    CreateTableRequest,
    DeclareTableRequest,
    DescribeTableRequest,
    DescribeTableResponse,
    DropTableRequest,
    LanceNamespace,
    ListNamespacesRequest,
    ListTablesRequest,
    RenameTableRequest,
    TableNotFoundError,
)
from rich import box
from rich.console import Console
from rich.table import Table

import pennon

PROJECT = Path(__file__).resolve().parent.parent
OUTPUT = PROJECT / "demo-output"
ROOT = OUTPUT / "catalog"

console = Console(highlight=False, soft_wrap=True)


def main() -> None:
    """Build a catalog in ./demo-output and explain each step."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    ROOT.mkdir(parents=True)
    console.print("[bold]Pennon: one directory is the whole catalog[/bold]")
    console.print(f"root: {relative(ROOT)}")

    catalog = pennon.connect("dir", {"root": str(ROOT)})
    create_namespaces(catalog)
    create_tables(catalog)
    list_in_pages(catalog)
    describe(catalog)
    rename(catalog)
    drop(catalog)
    write_without_the_catalog(catalog)
    migrate(catalog)
    read_back(catalog)
    print_next_steps()


def create_namespaces(catalog: LanceNamespace) -> None:
    """Create nested namespaces with properties."""
    step("Create namespaces")
    catalog.create_namespace(CreateNamespaceRequest(id=["sales"], properties={"owner": "shop"}))
    catalog.create_namespace(CreateNamespaceRequest(id=["sales", "archive"]))
    catalog.create_namespace(CreateNamespaceRequest(id=["vision"]))
    show(
        ("namespace", "children"),
        [
            (name, ", ".join(sorted(catalog.list_namespaces(ListNamespacesRequest(id=[name])).namespaces)))
            for name in sorted(catalog.list_namespaces(ListNamespacesRequest(id=[])).namespaces)
        ],
    )


def create_tables(catalog: LanceNamespace) -> None:
    """Create tables from Arrow IPC streams, and declare one, which has a name and a location but no data yet."""
    step("Create three tables, and declare a fourth")
    tables = {
        ("sales", "orders"): pa.table({"order": [1, 2, 3, 4], "amount": [9.5, 20.0, 3.25, 12.0]}),
        ("sales", "customers"): pa.table({"customer": ["Ada", "Grace"], "orders": [3, 1]}),
        ("vision", "embeddings"): pa.table(
            {
                "image": ["cat.png", "dog.png"],
                "vector": pa.array([[0.1, 0.9, 0.3], [0.8, 0.2, 0.4]], pa.list_(pa.float32(), 3)),
            }
        ),
    }
    rows = []
    for identifier, data in tables.items():
        created = catalog.create_table(CreateTableRequest(id=list(identifier)), ipc_stream(data))
        result = f"created, version {created.version}"
        rows.append((".".join(identifier), result, directory(created.location)))
    declared = catalog.declare_table(DeclareTableRequest(id=["sales", "returns"]))
    rows.append(("sales.returns", "declared", directory(declared.location)))
    show(("table", "result", "directory"), rows)


def list_in_pages(catalog: LanceNamespace) -> None:
    """List tables in pages; a page token marks the start of the next page."""
    step("List the tables of 'sales', two at a time")
    rows = []
    token = None
    while True:
        page = catalog.list_tables(ListTablesRequest(id=["sales"], limit=2, page_token=token))
        rows.append((str(len(rows) + 1), ", ".join(page.tables)))
        token = page.page_token
        if not token:
            break
    show(("page", "tables"), rows)


def describe(catalog: LanceNamespace) -> None:
    """Describe a table with the metadata that is read only on request, because the table must be opened."""
    step("Describe a table in detail")
    orders = catalog.describe_table(DescribeTableRequest(id=["sales", "orders"], load_detailed_metadata=True))
    returns = catalog.describe_table(DescribeTableRequest(id=["sales", "returns"], check_declared=True))
    fields = orders.var_schema.fields if orders.var_schema else []
    show(
        ("sales.orders", ""),
        [
            ("location", directory(orders.location)),
            ("version", str(orders.version)),
            ("schema", ", ".join(f"{field.name}: {field.type.type}" for field in fields)),
            ("fragments", str(orders.stats.num_fragments) if orders.stats else "unknown"),
        ],
    )
    console.print(f"sales.returns is only declared: {'yes' if returns.is_only_declared else 'no'}")


def rename(catalog: LanceNamespace) -> None:
    """Rename a table; this changes only the catalog and moves no data."""
    step("Rename sales.orders to sales.archive.orders_2024")
    before = locate(catalog, "sales", "orders")
    catalog.rename_table(
        RenameTableRequest(id=["sales", "orders"], new_namespace_id=["sales", "archive"], new_table_name="orders_2024")
    )
    after = locate(catalog, "sales", "archive", "orders_2024")
    show(
        ("", "table", "directory"),
        [
            ("before", "sales.orders", directory(before.location)),
            ("after", "sales.archive.orders_2024", directory(after.location)),
        ],
    )


def drop(catalog: pennon.DirectoryNamespace) -> None:
    """Drop a table, which keeps its data, then restore it, drop it again and purge it."""
    step("Drop sales.customers, restore it, drop it again and purge it")
    name = ["sales", "customers"]
    path = ROOT / directory(locate(catalog, *name).location)
    catalog.drop_table(DropTableRequest(id=name))
    try:
        locate(catalog, *name)
    except TableNotFoundError as error:
        console.print(f"describing it now raises [red]{type(error).__name__}[/red] (code {int(error.code)})")
    console.print(f"its directory {path.name} {'still exists' if path.exists() else 'is gone'}")
    catalog.undrop_table(name)
    console.print(f"after undrop_table it is at {directory(locate(catalog, *name).location)}")
    catalog.drop_table(DropTableRequest(id=name))
    (purged,) = catalog.purge_table(name, force=True).tables
    console.print(
        f"purge_table deleted {purged.files} files; the directory {'still exists' if path.exists() else 'is gone'}"
    )


def write_without_the_catalog(catalog: LanceNamespace) -> None:
    """Write root tables without the catalog; compatibility mode lists them, V2 does not."""
    step("Write two tables with plain lance.write_dataset, as V1 clients do")
    for name in ("clicks", "visits"):
        lance.write_dataset(pa.table({"id": range(5)}), str(ROOT / f"{name}.lance"))
    show(("mode", "tables in the root"), [("compatibility", root_tables(catalog)), ("V2", root_tables(v2()))])
    console.print("V2 reads only the manifest, so it does not list them yet.")


def migrate(catalog: pennon.DirectoryNamespace) -> None:
    """Add the V1 tables to the manifest; this moves no data."""
    step("Migrate them: first a dry run, then for real")
    rows = []
    for dry_run in (True, False):
        report = catalog.migrate_to_manifest(dry_run=dry_run)
        rows.append(
            (
                "dry run" if report.dry_run else "migration",
                ", ".join(f"{table.name} at {directory(table.location)}" for table in report.migrated),
                ", ".join(report.already),
                ", ".join(f"{table.name}: {table.reason}" for table in report.skipped),
            )
        )
    show(("", "migrated", "already there", "skipped"), rows)
    show(("mode", "tables in the root"), [("compatibility", root_tables(catalog)), ("V2", root_tables(v2()))])


def read_back(catalog: LanceNamespace) -> None:
    """Open tables with Lance, which needs only their locations."""
    step("Read the data at the locations that the catalog returns")
    rows = []
    for name in ("sales.archive.orders_2024", "vision.embeddings", "clicks", "visits"):
        dataset = lance.dataset(locate(catalog, *name.split(".")).location)
        rows.append((name, str(dataset.count_rows()), ", ".join(dataset.schema.names)))
    show(("table", "rows", "columns"), rows)


def print_next_steps() -> None:
    """Print the contents of the root, and what to try next."""
    step("Where to look, and what to try next")
    show(
        ("in the root", "what it is"),
        [(path.name, what_is(path)) for path in sorted(ROOT.iterdir(), key=lambda path: path.name)],
    )
    console.print("The manifest is itself a Lance table:")
    show_code(f'lance.dataset("{relative(ROOT / "__manifest")}").to_table().to_pylist()')
    console.print("Open this catalog again:")
    show_code(f'pennon.connect("dir", {{"root": "{relative(ROOT)}"}})')
    console.print("Then read docs/quickstart.md. `make tour` starts over from an empty root.")


def v2() -> LanceNamespace:
    """Return a V2 catalog on the same root."""
    return pennon.connect("dir", {"root": str(ROOT), "dir_listing_enabled": "false"})


def locate(catalog: LanceNamespace, *identifier: str) -> DescribeTableResponse:
    """Return the description of a table, without opening the table."""
    return catalog.describe_table(DescribeTableRequest(id=list(identifier)))


def root_tables(catalog: LanceNamespace) -> str:
    """Return the names of the root namespace's tables, or "none"."""
    return ", ".join(sorted(catalog.list_tables(ListTablesRequest(id=[])).tables)) or "none"


def ipc_stream(data: pa.Table) -> bytes:
    """Return a table as the bytes of an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    return sink.getvalue().to_pybytes()


def directory(location: str) -> str:
    """Return the last part of a location, which is the table's directory."""
    return location.rstrip("/").rsplit("/", 1)[-1]


def relative(path: Path) -> str:
    """Return a path relative to the project."""
    return f"./{path.relative_to(PROJECT)}"


def what_is(path: Path) -> str:
    """Return the purpose of one entry of the root."""
    if path.name == "__manifest":
        return "the manifest: namespaces, tables and their locations"
    if path.suffix == ".declared":
        return "marks a table that is only declared"
    if path.name.startswith(".lance-"):
        return "locks, and data that is being deleted"
    return "a table in the V1 layout" if path.suffix == ".lance" else "a table's directory"


def step(title: str) -> None:
    """Print the title of a section."""
    console.print()
    console.print(f"[bold cyan]{title}[/bold cyan]")


def show(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print rows under a header, with borders only on a terminal."""
    table = Table(box=box.ROUNDED if console.is_terminal else None, header_style="bold", pad_edge=False)
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def show_code(line: str) -> None:
    """Print one line of Python for the reader to type."""
    console.print(f"  {line}", style="green", markup=False)


if __name__ == "__main__":
    main()
