"""Rules for cases that only `make soak` runs, because `make test` covers them in another combination."""

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

    def matches(self, item: pytest.Item) -> bool:
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
        "compatibility mode has root tables and manifest tables",
        but=frozenset({"test_storms", "test_requests_together"}),
    ),
    Rule(
        "lifecycle/",
        ({"memory", "s3"}, {"v1", "v2"}),
        "the same",
        but=frozenset({"test_declare_over_dropped"}),  # V1 alone moves a dropped table aside
    ),
    Rule("versions/", ({"s3", "nested"}, {"v1", "v2"}), "the same"),
    Rule("contract/test_odd_names", ({"v2"},), "the same"),
    Rule("directory/", ({"v2"},), "the same"),
    Rule("hostile/", ({"v2"}, {"bucket"}), "the same"),
    Rule("spark/jobs/", ({"v1"},), "the same"),
    Rule("interop/", ({"v1"},), "compatibility mode writes everything that V1 writes"),
    Rule("requests/", ({"v2"},), "compatibility mode makes all requests of V2, and more"),
    Rule("requests/test_operation_requests", ({"v1"},), "compatibility mode makes all requests of V1, and more"),
    Rule("contract/", ({"memory"},), "a root in memory is a local directory"),
    Rule("directory/", ({"memory"},), "the same"),
    Rule("lifecycle/", ({"memory"},), "the same"),
    *(
        Rule(f"hostile/test_{module}", having, "other combinations cover each store and each mode")
        for module in ("purge_proof", "reads_write_nothing")
        for having in (({"v1", "v2"}, {"bucket"}), ({"compatibility"}, {"disk"}))
    ),
    *(
        Rule(f"hostile/test_{module}", ({"v1", "v2"},), "compatibility mode has both kinds of table")
        for module in ("retention", "bad_entries")
    ),
    Rule("store/", ({"counting"},), "a real server covers the same, and is faster"),
    Rule("stateful/", ({"s3"},), "the result does not depend on the store"),
    Rule("table/", ({"v1"},), "versions are unmanaged, as in V2"),
    *(
        Rule(f"table/test_{suite}", ({"v2"},), "it does not depend on who manages versions")
        for suite in ("arrow_data", "columns", "computed", "metadata", "pages", "querying", "table_indexes", "tags")
    ),
    Rule("table/", ({"pylance"},), "the results of another client change only with its releases"),
    Rule("rest/test_contract_", ({"v1", "v2"},), "the client does not depend on the mode"),
    Rule("rest/test_contract_rest", ({"compatibility"}, {"local"}), "names of tables and of namespaces are sent alike"),
    Rule("iceberg/", ({"apache"}, {"storage"}), "our own server covers the same, without a download"),
    Rule("iceberg/test_contract_", ({"storage"},), "it does not depend on who manages versions"),
    Rule("iceberg/test_contract_", ({"ministack"},), "other suites cover what it does differently"),
    Rule("server/lance_protocol/test_contract_pylance", ({"nested"},), "root tables and others are served alike"),
    Rule("iceberg/test_object_store_", ({"storage"},), "the same"),
    Rule(
        "iceberg/test_suite_",
        ({"apache", "storage"},),
        "one server with managed versions runs the shared suites",
    ),
    *(
        Rule(f"iceberg/test_suite_{suite}_", (), "the server takes part only in commits, as in other suites")
        for suite in ("arrow", "columns", "computed", "conflicts", "indexes", "metadata", "queries")
    ),
    Rule("iceberg/", ({"nessie", "nessie_impl"},), "it needs a large download, and starts in half a minute"),
    *(
        Rule(f"iceberg/test_{suite}_irc", ({"seaweed", "seaweed_impl"},), "other suites cover what it does differently")
        for suite in ("adoption", "contract", "tables", "versions")
    ),
    Rule("iceberg/test_spark_", ({"apache", "storage"},), "Spark commits through the same client as other tests"),
    Rule("spark/statements/test_statements", ({"managed"},), "statements are parsed and checked in the same way"),
]


def mark_soak_cases(items: list[pytest.Item], *, all_collected: bool) -> None:
    """Mark the cases that only the soak run needs.

    Raises UsageError if all tests were collected and a rule matches none of them.
    """
    unused = list(RULES)
    for item in items:
        matching = [rule for rule in RULES if rule.matches(item)]
        if matching:
            item.add_marker(pytest.mark.soak)
            unused = [rule for rule in unused if rule not in matching]
    if all_collected and unused:
        raise pytest.UsageError("Rules of tests/soak_rules.py that match no test: " + "; ".join(map(str, unused)))
