"""A look into every table of a catalog of any kind: can it be opened, does it need compaction?"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from pennon import addresses
from pennon.catalog_pages import iterate_all_tables
from pennon.doctor.checking import ERROR, NOTE
from pennon.errors import (
    LanceNamespaceError,
    NamespaceNotFoundError,
    TableIsOnlyDeclaredError,
    TableNotFoundError,
    translate_errors,
)
from pennon.results import Finding
from pennon.table.version_summary import summarize_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pennon.identifiers import Identifier

N = TypeVar("N", bound=Any)
_BATCH = 128
_VERIFY = "pennon jobs verify"


def find_table_faults(
    namespace: N,
    run: Callable[[Callable[[Identifier], list[Finding]], Sequence[Identifier]], list[list[Finding]]],
    figures: dict[str, str | float | int],
    *,
    compare: Callable[[N, Identifier], list[str]] | None = None,
) -> Iterator[Finding]:
    """Iterate over tables that cannot be opened or need compaction. `run` looks into a batch of tables."""
    tables = iter(iterate_all_tables(namespace, ()))
    count = 0
    while batch := list(islice(tables, _BATCH)):
        count += len(batch)
        figures["tables"] = count
        for found in run(lambda identifier: _look_into(namespace, identifier, compare), batch):
            yield from found


def _look_into(
    namespace: N, identifier: Identifier, compare: Callable[[N, Identifier], list[str]] | None
) -> list[Finding]:
    name = addresses.format_address(identifier)
    try:
        with translate_errors(f"opening {name}"):
            summary = summarize_version(namespace.open_dataset(identifier))
            faults = [] if compare is None else compare(namespace, identifier)
    except (TableIsOnlyDeclaredError, TableNotFoundError, NamespaceNotFoundError):
        return []  # it has no data, or was dropped after it was listed
    except LanceNamespaceError as error:
        advice = "see which files are damaged, and restore an older version, or the files from a backup"
        return [Finding(ERROR, name, f"it cannot be opened: {error}", advice, f"{_VERIFY} {name}")]
    found = [Finding(ERROR, name, fault, "check its files", f"{_VERIFY} {name}") for fault in faults]
    command = f"pennon jobs compact {name}"
    reasons = summary.list_compaction_reasons()
    return found + [Finding(NOTE, name, f"it needs compaction: {one}", "compact it", command) for one in reasons]
