"""The public names of `pennon`: they exist, are documented, and cost nothing until they are used."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import pennon
from tests.support import create_table, drop_table

ROOT = Path(__file__).parent.parent
RESULTS = [
    pennon.DoctorCheck,
    pennon.DoctorReport,
    pennon.DroppedTable,
    pennon.Finding,
    pennon.KeptTable,
    pennon.ManagementReport,
    pennon.MarkerReport,
    pennon.MigratedTable,
    pennon.MigrationReport,
    pennon.Problem,
    pennon.PurgeReport,
    pennon.PurgedTable,
    pennon.SkippedEntry,
    pennon.StorePromise,
    pennon.TableStatusReport,
]
STABLE = {
    module: re.findall(r"`(\w+)`", names)
    for module, names in re.findall(
        r"^\| `(pennon[\w.]*)` \| (.+) \|$", (ROOT / "docs/reference/stability.md").read_text(), re.MULTILINE
    )
}


@pytest.mark.parametrize("name", pennon.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(pennon, name) is not None
    assert name in dir(pennon)


@pytest.mark.parametrize("name", ["pennon", *sorted(STABLE.keys() - {"pennon"})])
def test_stable_names_of_a_module_are_those_that_it_exports(name):
    module = import_module(name)
    assert sorted(STABLE[name]) == sorted(module.__all__)
    assert all(getattr(module, each) is not None for each in module.__all__)


def test_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = pennon.Nothing


def test_version_is_the_version_of_the_installed_package():
    assert pennon.__version__ == version("pennon")


def test_import_and_version_and_result_types_do_not_import_the_sdk():
    program = (
        "import sys, pennon; pennon.__version__; pennon.TableStatus; pennon.PurgeReport\n"
        "print([name for name in ('lance', 'lance_namespace', 'pyarrow', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", RESULTS)
def test_every_field_of_a_result_is_documented(kind):
    page = (ROOT / "docs/reference/results.md").read_text()
    words = set(re.findall(r"`(\w+)`", page))
    assert {kind.__name__, *(field.name for field in dataclasses.fields(kind))} <= words


def test_every_status_is_documented():
    page = (ROOT / "docs/reference/results.md").read_text()
    assert all(f'`{status.name}` | `"{status.value}"`' in page for status in pennon.TableStatus)


@pytest.mark.parametrize("text", ["Exists", "SoftDeleted", "NotFound"])
def test_table_status_equals_its_string(text):
    status = pennon.TableStatus(text)
    assert status == text
    assert str(status) == f"{status}" == text
    assert json.dumps({"status": status}) == json.dumps({"status": text})
    assert {status: 1}[text] == 1


def test_directory_namespace_returns_public_types(tmp_path):
    with pennon.DirectoryNamespace(root=str(tmp_path)) as ns:
        create_table(ns, "t")
        assert ns.table_status(["t"]).status is pennon.TableStatus.EXISTS
        drop_table(ns, "t")
        status = ns.table_status(["t"])
        assert status.status is pennon.TableStatus.SOFT_DELETED
        (dropped,), _ = ns.list_dropped_tables()
        assert type(dropped) is pennon.DroppedTable
        assert status == pennon.TableStatusReport(
            pennon.TableStatus.SOFT_DELETED, dropped.dropped_at, dropped.deletion_id
        )
        report = ns.purge_table(["t"], force=True)
        assert type(report) is pennon.PurgeReport
        assert [type(table) for table in report.tables] == [pennon.PurgedTable]
        assert ns.table_status(["t"]).status is pennon.TableStatus.NOT_FOUND
        assert type(ns.migrate_to_manifest()) is pennon.MigrationReport
        assert type(ns.migrate_markers()) is pennon.MarkerReport


def test_purgeable_is_spelled_one_way():
    """The one exception is `list_purgable_tables`, a public name."""
    folders = ("src", "tests", "docs", "scripts", "demo", "benchmarks")
    wrong = [
        f"{path.relative_to(ROOT)}: {found}"
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".md"} and path != Path(__file__)
        for found in re.findall(r"\w*purgab\w*", path.read_text(), flags=re.IGNORECASE)
        if found != "list_purgable_tables"
    ]
    assert wrong == []
