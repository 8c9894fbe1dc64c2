from __future__ import annotations

from pathlib import Path

import pytest

from pennon import DirectoryNamespace
from pennon.cli.app import run


@pytest.fixture
def complete(capsys, monkeypatch):
    """Return completions at the end of a line, as bash requests them."""

    def ask(line: str) -> list[str]:
        monkeypatch.setenv("_PENNON_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        capsys.readouterr()
        assert run([]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out.split()

    return ask


def test_commands_and_options_are_completed(complete):
    assert complete("pennon cre") == ["create-namespace", "create"]
    assert "--recursive" in complete("pennon ls --rec")


def test_values_of_options_are_completed(complete):
    assert complete("pennon create --mode ") == ["create", "exist_ok", "overwrite"]
    assert complete("pennon --impl ") == complete("pennon ls --impl ") == ["dir", "iceberg", "rest"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("head pl", ["plain"]),
        ("head ", ["prod.", "plain"]),
        ("head prod.", ["prod.raw.", "prod.events", "prod.promised"]),
        ("head prod.raw.c", ["prod.raw.clicks"]),
        ("head /m", ["/my.table"]),
        ("head /prod/ev", ["/prod/events"]),
        # With a second completion, a shell adds no space after the dot.
        ("head pr", ["prod.", "prod.raw.", "prod.events", "prod.promised"]),
        ("head prod.r", ["prod.raw.", "prod.raw.clicks"]),
        ("head /pr", ["/prod/", "/prod/raw/", "/prod/events", "/prod/promised"]),
        ("ls pr", ["prod", "prod."]),
        ("ls prod.", ["prod.raw"]),
        ("head nope.", []),
    ],
)
def test_addresses_are_completed(complete, monkeypatch, lake, typed, expected):
    monkeypatch.setenv("PENNON_ROOT", str(lake))
    assert complete(f"pennon {typed}") == expected


def test_completion_uses_the_catalog_of_the_options(complete, lake):
    assert complete(f"pennon --root {lake} head pl") == ["plain"]
    assert complete(f"pennon head --root {lake} pl") == ["plain"]


def test_completion_without_a_catalog_returns_nothing(complete, monkeypatch, tmp_path):
    assert complete("pennon head pl") == []
    for root in (str(tmp_path / "nope"), "s3://bucket/nowhere"):
        monkeypatch.setenv("PENNON_ROOT", root)
        assert complete("pennon head pl") == []
    Path("pennon.toml").write_text("broken")
    assert complete("pennon head pl") == []


def test_names_with_spaces_are_not_completed(complete, monkeypatch, root):
    with DirectoryNamespace(root=str(root)) as namespace:
        for name in ("fine", "two words"):
            namespace.create_namespace({"id": [name]})
    monkeypatch.setenv("PENNON_ROOT", str(root))
    assert complete("pennon ls ") == ["fine"]


def test_show_completion_prints_a_script(process):
    # The result must not depend on the shell that runs the tests.
    environment = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    result = process("--show-completion", "bash", env=environment)
    assert result.returncode == 0
    assert "_PENNON_COMPLETE" in result.stdout
