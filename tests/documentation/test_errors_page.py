"""The page of errors: its tables agree with the SDK, the server and the command line."""

from __future__ import annotations

from pathlib import Path

from lance_namespace.errors import ErrorCode, from_error_code

from pennon import errors
from pennon.cli.failures import ExitCode, exit_code_for
from pennon.server.iceberg import errors as iceberg
from pennon.server.lance import errors as lance
from tests.documentation.page_tables import read_table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"


def test_the_table_has_every_code_with_its_class_statuses_and_exit_code():
    documented = {int(code): (name, *rest) for code, name, _, *rest in read_table(PAGE, "code | class | raised if")}
    unknown = iceberg.of(Exception())
    expected = {}
    for code in ErrorCode:
        status, kind = iceberg.of(from_error_code(int(code), "failed"))
        is_known = (status, kind) != unknown or code is ErrorCode.INTERNAL
        expected[int(code)] = (
            f"`{type(from_error_code(int(code), 'failed')).__name__}`",
            str(lance.status_of(code)),
            f"{status} `{kind}`" if is_known else "",
            str(int(exit_code_for(int(code)))),
        )
    assert documented == expected


def test_the_table_of_subclasses_names_all_of_them():
    subclasses = {
        (f"`{name}`", f"`{kind.__base__.__name__}`")
        for name in errors.__all__
        if isinstance(kind := getattr(errors, name), type) and kind.__module__ == errors.__name__
    }
    assert {(name, base) for name, base, _ in read_table(PAGE, "class | base | raised if")} == subclasses


def test_statuses_without_a_class_have_the_codes_that_the_server_sends():
    rows = read_table(PAGE, "status | when | code")
    assert {int(status): int(code) for status, _, code in rows} == {
        int(status): int(lance.code_of_status(int(status))) for status, _, _ in rows
    }
    natural = {lance.status_of(code) for code in ErrorCode}
    assert {int(status) for status, _, _ in rows} - {404} == {405, 408, 413, 415, 504}
    assert natural.isdisjoint({405, 408, 413, 415, 504})


def test_every_exit_code_is_in_one_of_the_tables():
    by_class = {int(row[-1]) for row in read_table(PAGE, "code | class | raised if")}
    others = {int(code) for code, _ in read_table(PAGE, "exit | when")}
    assert by_class.isdisjoint(others)
    assert by_class | others == {int(code) for code in ExitCode}
