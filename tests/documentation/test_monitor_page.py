"""The page about monitoring: its metrics, labels, log texts and commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import urllib3
import yaml
from prometheus_client.parser import text_string_to_metric_families

from pennon import DirectoryNamespace
from pennon.cli.app import COMMANDS, load_command
from tests.documentation.page_tables import read_table
from tests.server.served import served

TOP = Path(__file__).parents[2]
PAGE = TOP / "docs" / "operations" / "monitor.md"
DEPLOY = TOP / "docs" / "guides" / "deploy.md"
METRIC = re.compile(r"\b(?:pennon|process)_[a-z_]+\b")
SELECTOR = re.compile(r"\b((?:pennon|process)_[a-z_]+)\{(\w+)=")
PARTS = ("_bucket", "_sum", "_count")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return the labels of each metric that a server exports after a change and a read."""
    with DirectoryNamespace(root=str(tmp_path_factory.mktemp("root"))) as catalog, served(catalog) as url:
        for action in ("create", "exists"):
            urllib3.request("POST", f"{url}/v1/namespace/a/{action}", json={})
        text = urllib3.request("GET", f"{url}/metrics").data.decode()
    found = {}
    for family in text_string_to_metric_families(text):
        suffixes = {"counter": ("_total",), "histogram": PARTS}.get(family.type, ("",))
        labels = {label for sample in family.samples for label in sample.labels}
        found.update({family.name + suffix: labels for suffix in suffixes})
    return found


@pytest.mark.parametrize("page", [PAGE, DEPLOY], ids=lambda page: page.stem)
def test_every_metric_is_exported(page, exported):
    named = set(METRIC.findall(page.read_text(encoding="utf-8"))) - {"process_"}
    bases = {name.removesuffix(part) for name in exported for part in PARTS} | exported.keys()
    assert {name for name in named if name not in bases} == set()


def test_queries_select_by_labels_that_the_metrics_have(exported):
    selected = SELECTOR.findall(PAGE.read_text(encoding="utf-8"))
    assert len(selected) >= 6
    # A metric without samples shows no labels: nothing has opened a table, and no upkeep was needed.
    wrong = {(name, label) for name, label in selected if exported[name] and label not in exported[name]}
    assert wrong == set()


def test_every_alert_of_the_rules_is_one_of_the_table():
    rules = re.search(r'```yaml title="alerts.yaml"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL)
    alerts = [rule["alert"] for group in yaml.safe_load(rules[1])["groups"] for rule in group["rules"]]
    explained = [name for name, _ in read_table(PAGE, "alert | what to do")]
    assert explained == [name for name in alerts if name != "PennonIsDown"]


def test_every_log_text_is_in_the_source():
    source = "".join(path.read_text(encoding="utf-8") for path in (TOP / "src").rglob("*.py"))
    for text, _ in read_table(PAGE, "text | meaning"):
        pattern = r"[^\n]*".join(re.escape(part) for part in text.strip("`").split("…"))
        assert re.search(pattern, source), text


def test_every_command_exists():
    known = {entry.name for entry in COMMANDS}
    jobs = next(load_command(entry) for entry in COMMANDS if entry.name == "jobs")
    for text, _ in read_table(PAGE, "command | detects"):
        words = text.strip("`").split()
        assert words[0] == "pennon"
        assert words[1] in known
        if words[1] == "jobs":
            assert words[2] in jobs.commands
