"""Run the blocks of a page, each by what it is for: a shell, Python, Spark, DuckDB, or the loader of a file."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import duckdb
import yaml
from typer.main import get_group

from pennon.cli import serve as serve_command
from pennon.cli.app import COMMANDS, load_command
from pennon.cli.settings import Options, find_serve_options, resolve_connection
from pennon.server.permissions.policy_file import load_policy
from pennon.server.vending.settings import VendingSettings, load_settings
from pennon.spark.pipeline import Pipeline
from tests.documentation.python_blocks import run_python
from tests.documentation.reader import SHELL, Reader
from tests.documentation.screens import require_match
from tests.duckdb_extensions import load_extension

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType

    from pyspark.sql import SparkSession
    from typing_extensions import Self

    from tests.documentation.code_blocks import CodeBlock

POLICY_KEYS = {"keys", "issuers", "groups", "roles", "grants"}
STATEMENT = re.compile(
    r"^(?=(?:ALTER|CREATE|DELETE|DESCRIBE|DROP|INSERT|MERGE|OPTIMIZE|PURGE|REPLACE|RESTORE|SELECT|SHOW|TRUNCATE|UNDROP|"
    r"UPDATE|VACUUM)\b)",
    re.MULTILINE,
)
# What a part of a pipeline lacks.
REST_OF_A_PIPELINE = {
    "name": "name: part\n",
    "sources": "sources:\n  rows: {table: part.rows}\n",
    "targets": "targets:\n  - {table: part.copy, from: rows}\n",
}


def _drop_temporary_views(spark: SparkSession) -> None:
    """Drop the views that a page created: other tests share the session."""
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)


class PageRun:
    """A page that is being run: its directory, the names of its Python blocks, and what its texts stand for."""

    def __init__(self, home: Path, port: str, spark: Any = None) -> None:
        """Take an empty directory, a free port, and a session of Spark if the page needs one."""
        self.home = home
        self.port = port
        self.spark = spark
        self.names: dict[str, Any] = {}
        self.root = str(home / "lake")
        self.replacements = {
            "s3://bucket/lake": self.root,
            "/data/catalog": self.root,
            "/data/lake": self.root,
            ":8181": f":{port}",
            "--port 8181": f"--port {port}",
        }
        self.variables = {"PENNON_SERVE_PORT": port}
        self.opened = ExitStack()
        if spark is not None:
            self.opened.callback(_drop_temporary_views, spark)
        self._reader: Reader | None = None
        self._duckdb: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.opened:
            if self._duckdb is not None:
                self._duckdb.close()
            if self._reader is not None and error is None:
                self._reader.stop_servers()

    @property
    def reader(self) -> Reader:
        """Who types the commands of the page."""
        if self._reader is None:
            self._reader = self.opened.enter_context(Reader(self.home, **self.variables))
        return self._reader

    def run(self, block: CodeBlock) -> None:
        """Run a block. Raises AssertionError if it does not do what the page says, or an error of the block itself."""
        block = self._replace(block)
        if block.title is not None:
            self.reader.write_file(block)
        runner = RUNNERS.get(block.language)
        assert runner is not None, f"{block}: no test runs blocks of this language"
        runner(self, block)

    def _replace(self, block: CodeBlock) -> CodeBlock:
        code, output = block.code, block.output
        for text, value in sorted(self.replacements.items(), key=lambda pair: -len(pair[0])):
            code = code.replace(text, value)
            output = output and output.replace(text, value)
        return dataclasses.replace(block, code=code, output=output)

    def save(self, block: CodeBlock) -> Path:
        """Write a block into a file, and return its path."""
        path = self.home / (block.title or f"block-{block.line}.{block.language}")
        path.write_text(block.code, encoding="utf-8")
        return path

    def query_duckdb(self, code: str) -> None:
        """Run statements in the session of DuckDB that the page shares."""
        if self._duckdb is None:
            self._duckdb = duckdb.connect(config={"autoinstall_known_extensions": "false"})
            for name in ("avro", "httpfs", "iceberg", "lance"):
                load_extension(self._duckdb, name)
        for statement in duckdb.extract_statements(code):
            self._duckdb.execute(statement).fetchall()


def _run_shell(run: PageRun, block: CodeBlock) -> None:
    if block.title is None:
        run.reader.run_commands(block)
    else:
        run.reader.run_commands(dataclasses.replace(block, title=None, code=f"sh {block.title}\n"))


def _run_python(run: PageRun, block: CodeBlock) -> None:
    shown = run_python(block.code, run.names, str(block), interactive=False)
    if block.output is not None:
        require_match(block.output, shown, block)


def _run_sql(run: PageRun, block: CodeBlock) -> None:
    """Run statements of DuckDB if the block begins with that, else those of Spark, which have no semicolons."""
    if block.code.startswith("-- DuckDB"):
        run.query_duckdb(block.code)
        return
    for statement in filter(str.strip, STATEMENT.split(block.code)):
        run.names["lake"].sql(statement).collect()


def _load_yaml(run: PageRun, block: CodeBlock) -> None:
    """Load a policy, settings of credentials, or a pipeline or a part of one."""
    keys = set(yaml.safe_load(block.code))
    path = run.save(block)
    if keys <= POLICY_KEYS:
        load_policy(path)
    elif keys <= VendingSettings.model_fields.keys():
        load_settings(path)
    else:
        missing = "".join(text for key, text in REST_OF_A_PIPELINE.items() if key not in keys)
        variables = dict.fromkeys(yaml.safe_load(block.code).get("vars") or (), "2026-03-01")
        Pipeline.from_text(block.code + missing, variables, environment={"TOKEN": "t", "CATALOG_TOKEN": "t"})


def _load_toml(run: PageRun, block: CodeBlock) -> None:
    """Load settings, with each profile, and the options of a server."""
    path = run.save(block)
    profiles = re.findall(r"^\[profiles\.(\w+)\]", block.code, re.MULTILINE)
    for profile in (None, *profiles):
        assert resolve_connection(Options(config=path, profile=profile), {}).properties["root"]
    _, options = find_serve_options(Options(config=path), {})
    known = {parameter.name for parameter in get_group(serve_command.app).commands["serve"].params}
    assert options.keys() <= known


def _load_json(run: PageRun, block: CodeBlock) -> None:
    json.loads(block.code)


def _keep_file(run: PageRun, block: CodeBlock) -> None:
    assert block.title, f"{block}: a file needs a title"


RUNNERS: dict[str, Callable[[PageRun, CodeBlock], None]] = {
    **dict.fromkeys(SHELL, _run_shell),
    "python": _run_python,
    "sql": _run_sql,
    "yaml": _load_yaml,
    "toml": _load_toml,
    "json": _load_json,
    "csv": _keep_file,
}


# Blocks that cannot run


def parse_block(block: CodeBlock) -> None:
    """Parse a block that does not run. Raises an error if it has a mistake that can be found without running it."""
    if block.language == "python":
        compile(block.code, str(block), "exec")
    elif block.language in SHELL:
        for words in _commands(block.code):
            _parse_command(words, block)
    elif block.language == "yaml":
        yaml.safe_load(block.code)


def _commands(code: str) -> Iterator[list[str]]:
    """Yield the words of each command of `pennon`."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if "pennon" in words:
            yield words[words.index("pennon") + 1 :]


def _parse_command(words: list[str], block: CodeBlock) -> None:
    names = {entry.name: entry for entry in COMMANDS}
    assert words[0] in names, f"{block}: no command is called {words[0]!r}"
    command: Any = load_command(names[words[0]])
    command.make_context(words[0], words[1:], resilient_parsing=False)
