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
    preparation: str
    """What must be done before, in words."""
    needs: str
    """The command for it."""
    code: str


def write_snippets(identifier: Identifier, url: str, *, with_token: bool) -> list[Snippet]:
    """Return code that reads a table through this server. Where a token is needed, the code has a place for it."""
    address, written = json.dumps(url), json.dumps(quote_identifier(identifier))
    token = ', token="..."' if with_token else ""
    return [
        Snippet(
            "Python",
            "Install",
            "pip install pennon",
            f"import pennon\n\nlake = pennon.open({address}{token})\nprint(lake[{written}].head(10).to_pandas())",
        ),
        Snippet(
            "Spark",
            "Install",
            "pip install 'pennon[spark]'",
            f"from pyspark.sql import SparkSession\nfrom pennon.spark import attach\n\n"
            f"spark = SparkSession.builder.getOrCreate()\n"
            f'lake = attach(spark, impl="rest", uri={address}{token})\n'
            f"lake.table({written}).show()",
        ),
        Snippet(
            "SQL",
            "Run, with the lake of the Spark code",
            "lake.sql(...).show()",
            " ".join(["SELECT * FROM", _spark_name(identifier), "LIMIT 10"]),
        ),
        _write_duckdb(identifier, url, with_token=with_token),
    ]


def _write_duckdb(identifier: Identifier, url: str, *, with_token: bool) -> Snippet:
    # The delimiter alone is the root.
    place = "$".join(identifier[:-1]) or "$"
    token = ", BEARER_TOKEN '...'" if with_token else ""
    return Snippet(
        "DuckDB",
        "First, in DuckDB",
        "INSTALL lance; LOAD lance;",
        f"ATTACH {_text(place)} AS lake (TYPE lance, ENDPOINT {_text(url)}{token});\n"
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
