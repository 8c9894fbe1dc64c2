"""Which cases only `make soak` runs, because `make test` covers their steps in another combination."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Rule:
    """Selects the cases under a path whose parameter ids contain one word of each set."""

    below: str
    having: tuple[set[str], ...]
    why: str
    but: frozenset[str] = frozenset()
    """Modules that the rule does not select."""

    def holds(self, item: pytest.Item) -> bool:
        """Return True if the rule selects this case."""
        path = item.path.as_posix()
        if f"tests/{self.below}" not in path or item.path.stem in self.but:
            return False
        words = set(re.split(r"[\[\]-]", item.name)[1:])
        return all(words & one for one in self.having)


RULES = [
    Rule(
        "concurrency/",
        ({"v1", "v2"},),
        "compatibility mode has tables of both protocols, by directories and by rows",
        but=frozenset({"test_storms"}),
    ),
    Rule(
        "lifecycle/",
        ({"memory", "s3"}, {"v1", "v2"}),
        "the same",
        but=frozenset({"test_declare_over_dropped"}),  # a dropped table makes room in V1 only
    ),
    Rule("versions/", ({"s3", "nested"}, {"v1", "v2"}), "the same"),
    Rule("contract/test_odd_names", ({"v2"},), "the same"),
    Rule("directory/", ({"v2"},), "the same"),
    Rule("hostile/", ({"v2"}, {"bucket"}), "the same"),
    Rule("spark/jobs/", ({"v1"},), "the same"),
    Rule("interop/", ({"v1"},), "compatibility mode writes all that V1 writes"),
    Rule("requests/", ({"v2"},), "compatibility mode asks for all that V2 asks for, and for more"),
    Rule("requests/test_operation_requests", ({"v1"},), "the same, and for more than V1"),
    Rule("contract/", ({"memory"},), "a root in memory is a directory that nobody else finds"),
    Rule("directory/", ({"memory"},), "the same"),
    Rule("lifecycle/", ({"memory"},), "the same"),
    *(
        Rule(f"hostile/test_{module}", having, "each store and each mode is there with another one")
        for module in ("purge_proof", "reads_write_nothing")
        for having in (({"v1", "v2"}, {"bucket"}), ({"compatibility"}, {"disk"}))
    ),
    *(
        Rule(f"hostile/test_{module}", ({"v1", "v2"},), "compatibility mode has tables of both kinds")
        for module in ("retention", "bad_entries")
    ),
    Rule("store/", ({"counting"},), "a real server does the same, and is faster; the other one counts"),
    Rule("stateful/", ({"s3"},), "what the catalog does there does not depend on its store"),
    Rule("table/", ({"v1"},), "files decide about the versions of tables, as in V2"),
    *(
        Rule(f"table/test_{suite}", ({"v2"},), "who decides about versions makes no difference to it")
        for suite in ("arrow_data", "columns", "computed", "metadata", "pages", "querying", "table_indexes", "tags")
    ),
    Rule("table/", ({"pylance"},), "what another client answers changes with its releases only"),
    Rule("iceberg/", ({"apache"}, {"storage"}), "our own server shows the same, and is there without a download"),
    Rule("iceberg/test_contract_", ({"storage"},), "who decides about versions makes no difference to it"),
    Rule("iceberg/test_object_store_", ({"storage"},), "the same"),
    Rule(
        "iceberg/test_suite_",
        ({"apache", "storage"},),
        "one server runs the borrowed suites, and decides about versions",
    ),
    *(
        Rule(f"iceberg/test_suite_{suite}_", (), "the server takes part in the commit alone, as in other suites")
        for suite in ("arrow", "columns", "computed", "conflicts", "indexes", "metadata", "queries")
    ),
    Rule("iceberg/", ({"nessie", "nessie_impl"},), "it needs a large download, and half a minute to start"),
    *(
        Rule(f"iceberg/test_{suite}_irc", ({"seaweed", "seaweed_impl"},), "what it does differently is tested daily")
        for suite in ("adoption", "contract", "tables", "versions")
    ),
    Rule("iceberg/test_spark_", ({"apache", "storage"},), "Spark commits through the same client as everybody"),
    Rule("spark/sql/test_statements", ({"managed"},), "statements are read and checked in the same way"),
]


def leave_to_the_soak(items: list[pytest.Item], *, all_collected: bool) -> None:
    """Mark the cases that a rule leaves to the long run.

    Raises UsageError if all tests were collected and a rule matches none of them: it has no effect any more.
    """
    unused = list(RULES)
    for item in items:
        matching = [rule for rule in RULES if rule.holds(item)]
        if matching:
            item.add_marker(pytest.mark.soak)
            unused = [rule for rule in unused if rule not in matching]
    if all_collected and unused:
        raise pytest.UsageError("Rules of tests/soak_rules.py that match no test: " + "; ".join(map(str, unused)))
