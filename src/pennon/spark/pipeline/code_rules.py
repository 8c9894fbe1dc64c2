"""Finding code in a pipeline: anything that makes Spark run programs or read files by path.

A query can start a program (`TRANSFORM ... USING`), call any Java method (`reflect`) and read any file by its path.
The settings of a session can load jars. `--no-code` rejects everything that is not known to be harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import TokenType

from pennon.spark.tokens import is_word, tokenize
from pennon.yaml_documents.problems import FileProblem, Path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot import Token

    from pennon.spark.pipeline.model import Definition
    from pennon.spark.pipeline.pinned_reads import PinnedReads
    from pennon.spark.pipeline.problems import Positions

_FORMATS = frozenset({"csv", "json", "orc", "parquet", "text"})
_CALLING = frozenset({"java_method", "reflect", "try_reflect"})
_NAMING = frozenset({"identifier"})
_READING = frozenset({"cloud_files", "read_files"})
_SETTINGS = frozenset(
    {
        "spark.default.parallelism",
        "spark.driver.cores",
        "spark.driver.maxResultSize",
        "spark.driver.memory",
        "spark.executor.cores",
        "spark.executor.instances",
        "spark.executor.memory",
        "spark.sql.adaptive.enabled",
        "spark.sql.ansi.enabled",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.caseSensitive",
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
    }
)


def find_code(definition: Definition, positions: Positions) -> list[FileProblem]:
    """Return a problem for everything that may run code or read files by path."""
    found = [*_settings_code(definition), *_source_code(definition), *_column_code(definition)]
    found += [(path, message) for path, sql in definition.queries() for message in _query_code(sql)]
    return [positions.problem(path, f"{message} (refused by --no-code)") for path, message in found]


def find_unknown_names(reads: PinnedReads) -> list[FileProblem]:
    """Return a problem for each name that is not in the catalog, because Spark may resolve it to a file or view."""
    return [
        FileProblem((), f"{'.'.join(name)!r} is no table of the catalog, source or step (refused by --no-code)")
        for name, found in reads.names.items()
        if found is None
    ]


def _settings_code(definition: Definition) -> Iterator[tuple[Path, str]]:
    master = definition.spark.master
    if master is not None and master != "local" and not master.startswith("local["):
        yield ("spark", "master"), f"the pipeline chooses the cluster {master!r}: use --master"
    for key in definition.spark.conf:
        if key not in _SETTINGS:
            yield ("spark", "conf", key), "this setting may make Spark load code: use --spark-conf"


def _source_code(definition: Definition) -> Iterator[tuple[Path, str]]:
    for name, source in definition.sources.items():
        if source.format is not None and source.format.lower() not in _FORMATS:
            known = ", ".join(sorted(_FORMATS))
            yield ("sources", name, "format"), f"the format {source.format!r} may run code; known: {known}"


def _column_code(definition: Definition) -> Iterator[tuple[Path, str]]:
    """Yield column names that could be parsed as expressions."""
    for group in definition.check_groups():
        for number, check in enumerate(group.checks):
            if any(mark in column for column in check.columns for mark in "(`"):
                yield (*group.path, number), "the name of a column has a bracket or backtick and may be an expression"


def _query_code(sql: str) -> Iterator[str]:
    tokens = tokenize(sql)
    if tokens is None:
        yield "the query cannot be read"
        return
    if "\\" in sql:
        # Spark continues a comment after a backslash, and may end a text elsewhere.
        yield "a backslash makes it uncertain what is a comment or text"
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        word = token.text.lower() if is_word(token) else ""
        if word == "using" and after is not None and _is_text(after):
            yield f"USING {after.text!r} starts a program"
        if not word or after is None or after.token_type is not TokenType.L_PAREN:
            continue
        if word in _CALLING:
            yield f"{word} calls methods of Java"
        elif word in _READING:
            yield f"{word} reads files by their path"
        elif word in _NAMING:
            yield f"{word} names a table or function that only Spark can find out"
        elif before is not None and before.token_type is TokenType.DOT:
            yield f"{token.text} is a function of a database, which may run code"


def _is_text(token: Token) -> bool:
    return token.token_type in {TokenType.STRING, TokenType.RAW_STRING, TokenType.NATIONAL_STRING}
