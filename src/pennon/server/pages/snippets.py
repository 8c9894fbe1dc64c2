"""Code that opens a table in other tools, to copy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.identifiers import quote_identifier

if TYPE_CHECKING:
    from pennon.identifiers import Identifier


@dataclass(frozen=True)
class Snippet:
    """Code for one tool."""

    tool: str
    needs: str
    """What must be installed."""
    code: str


def write_snippets(identifier: Identifier, url: str, *, with_token: bool) -> list[Snippet]:
    """Return code that reads a table through this server. Where a token is needed, the code has a place for it."""
    names, address = json.dumps(list(identifier)), json.dumps(url)
    written = repr(quote_identifier(identifier))
    token = ', "token": "..."' if with_token else ""
    spark_token = ', token="..."' if with_token else ""
    found = [
        Snippet(
            "Python",
            "pip install pennon",
            f"import lance\nimport pennon\n\n"
            f'lake = pennon.connect("rest", {{"uri": {address}{token}}})\n'
            f"table = lance.dataset(namespace_client=lake, table_id={names})\n"
            f"table.to_table(limit=10)",
        ),
        Snippet(
            "Spark",
            "pip install 'pennon[spark]'",
            f"from pyspark.sql import SparkSession\nfrom pennon.spark import attach\n\n"
            f"spark = SparkSession.builder.getOrCreate()\n"
            f'lake = attach(spark, impl="rest", uri={address}{spark_token})\n'
            f"lake.table({written}).show()",
        ),
        Snippet(
            "SQL",
            "lake.sql(...) of the Spark lake above",
            " ".join(["SELECT * FROM", _spark_name(identifier), "LIMIT 10"]),
        ),
    ]
    if len(identifier) > 1:
        found.append(_write_duckdb(identifier, url, with_token=with_token))
    return found


def _write_duckdb(identifier: Identifier, url: str, *, with_token: bool) -> Snippet:
    place = "$".join(identifier[:-1])
    secret = f"CREATE SECRET (TYPE lance, SCOPE {_text(url)}, TOKEN '...');\n" if with_token else ""
    return Snippet(
        "DuckDB",
        "INSTALL lance; LOAD lance;",
        f"{secret}ATTACH {_text(place)} AS lake (TYPE lance, ENDPOINT {_text(url)});\n"
        f"FROM lake.main.{_name(identifier[-1])} LIMIT 10;",
    )


def _text(value: str) -> str:
    doubled = value.replace("'", "''")
    return f"'{doubled}'"


def _name(value: str) -> str:
    doubled = value.replace('"', '""')
    return f'"{doubled}"'


def _spark_name(identifier: Identifier) -> str:
    return ".".join(f"`{one.replace('`', '``')}`" for one in identifier)
