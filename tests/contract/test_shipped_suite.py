"""The contract as other projects run it: `pennon.testing`, on implementations outside this one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from lance_namespace import LanceNamespace

from pennon.testing import NamespaceContract

GUIDE = Path(__file__).parents[2] / "docs/guides/testing.md"
OURS = """
import pytest
from lance_namespace.errors import UnsupportedOperationError
from pennon import DirectoryNamespace
from pennon.testing import NamespaceContract


class Unsorted(DirectoryNamespace):
    def list_tables(self, request):
        answer = super().list_tables(request)
        answer.tables.reverse()
        return answer

    def rename_table(self, request):
        raise UnsupportedOperationError("no rename_table")


class Subject(NamespaceContract):
    @pytest.fixture
    def namespace(self, tmp_path):
        with Unsorted(root=str(tmp_path / "catalog")) as catalog:
            yield catalog


class TestNothingDeclared(Subject):
    pass


class TestDeclared(Subject):
    unsupported = frozenset({"rename_table"})
    differs = {"test_tables_are_listed_sorted[root]": "latest first"}


class TestWronglyDeclared(Subject):
    unsupported = frozenset({"namespace_exists"})
    differs = {"test_namespace_without_properties_has_none": "it passes"}
"""
NAMES = "are_listed_sorted or may_keep_its_name or there_with_its_properties or namespace_without_properties"


def run_suite(directory: Path, module: str, chosen: str) -> tuple[dict[str, str], str]:
    """Run tests of a module in a directory of its own, and return the outcome of each, and the output."""
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "test_it.py").write_text(module)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", chosen, "test_it.py"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    return dict(re.findall(r"^test_it\.py::Test(\S+.*) ([A-Z]+) ", done.stdout, re.MULTILINE)), done.stdout


def test_what_an_implementation_does_differently_is_found(tmp_path):
    outcomes, output = run_suite(tmp_path, OURS, NAMES)
    there = "::test_created_namespace_is_there_with_its_properties"
    without, kept = "::test_namespace_without_properties_has_none", "::test_a_table_may_keep_its_name"
    in_root, nested = "::test_tables_are_listed_sorted[root]", "::test_tables_are_listed_sorted[nested]"
    nothing = {there: "PASSED", without: "PASSED", kept: "FAILED", in_root: "FAILED", nested: "FAILED"}
    declared = {there: "PASSED", without: "PASSED", kept: "SKIPPED", in_root: "XFAIL", nested: "FAILED"}
    wrongly = {there: "FAILED", without: "FAILED", kept: "FAILED", in_root: "FAILED", nested: "FAILED"}
    expected = {"NothingDeclared": nothing, "Declared": declared, "WronglyDeclared": wrongly}
    assert outcomes == {f"{suite}{name}": one for suite, tests in expected.items() for name, one in tests.items()}
    assert "assert ['ü'" in output  # pytest shows the values of assertions
    assert "namespace_exists is declared as unsupported, but did not raise UnsupportedOperationError" in output


@pytest.mark.parametrize(
    ("members", "named"),
    [({"differs": {"test_nothing": "?"}}, "test_nothing"), ({"unsupported": frozenset({"fly"})}, "fly")],
)
def test_unknown_names_are_refused(members, named):
    with pytest.raises(ValueError, match=named):
        type("TestNothing", (NamespaceContract,), members)


def test_the_guide_runs_the_suite_on_another_implementation(tmp_path):
    (example,) = re.findall(r"```python\n(.+?)```", GUIDE.read_text(), re.DOTALL)
    names = "test_names_do_not_act_as_patterns_or_filters"
    outcomes, output = run_suite(tmp_path, example, f"{names} or drop_returns_the_properties")
    # pylance takes some names for filters.
    assert {name.partition("::")[2]: outcome for name, outcome in outcomes.items()} == {
        "test_drop_returns_the_properties": "XFAIL",
        f"{names}[a' OR '1'='1]": "FAILED",
        f"{names}[a%]": "PASSED",
        f"{names}[_]": "PASSED",
        f"{names}[a*]": "PASSED",
        f'{names}[a"]': "PASSED",
        f"{names}[a')--]": "FAILED",
    }, output


def test_the_guide_names_every_part_of_the_suite():
    named = set(re.findall(r"`(\w+)`", GUIDE.read_text()))
    assert {part.__name__ for part in NamespaceContract.__bases__} <= named
    assert (
        not {name for name in named if "_" in name and not hasattr(NamespaceContract, name)}
        - set(dir(LanceNamespace))
        - {"test_x"}
    )
