"""Values of `${ENV:...}` and of secret variables appear in no report, plan or note."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

SECRET = "tok-9f8e7d6c5b4a/39+28"
NUMBER = "83920174"
PIPELINE = """
name: shop
vars: {word: {secret: true}}
steps:
  rows: >
    SELECT id, concat('x ', '${ENV:TOKEN}') AS told, CAST(${ENV:NUMBER} AS BIGINT) AS number,
    CAST('${ENV:TOKEN}' AS BINARY) AS raw, map('${ENV:TOKEN}', array('${word}')) AS nested,
    concat(repeat('y', 190), '${ENV:TOKEN}') AS long FROM VALUES (1L), (2L) AS v(id)
  used: {sql: "SELECT * FROM rows WHERE told <> '${ENV:TOKEN}'", stage: always}
targets:
  - table: shop.told
    from: used
    checks:
      - {sql: "SELECT * FROM this WHERE told LIKE '%${ENV:TOKEN}'", severity: warn}
      - {sql: "SELECT id AS `${ENV:TOKEN}` FROM this", severity: warn, name: "no ${ENV:TOKEN} of ${word}"}
      - {sql: "SELECT id, '0123456789' AS d FROM this WHERE told > '${ENV:TOKEN}'", severity: warn}
      - {accepted_values: {told: ["${ENV:TOKEN}"]}, severity: warn}
      - {unique: [number], severity: SEVERITY}
"""


@pytest.fixture
def environment() -> dict[str, str]:
    return {"TOKEN": SECRET, "NUMBER": NUMBER}


def pieces() -> list[str]:
    """Return texts that must not appear: whole secrets, and prefixes that truncation would leave."""
    encoded = base64.b64encode(SECRET.encode()).decode()
    return [SECRET, SECRET[:12], "hush-hush-word", NUMBER, encoded[:16]]


def stored(shop) -> str:
    """Return everything that the runs have written to the root, without the data of tables."""
    runs = Path(dict(shop.address.properties)["root"], "__pennon", "runs")
    return "\n".join(path.read_text() for path in sorted(runs.rglob("*.json")))


@pytest.mark.parametrize("severity", ["warn", "error"])
def test_reports_and_notes_contain_no_secret(shop, tmp_path, environment, severity):
    from pennon.spark.pipeline import Pipeline

    pipeline = Pipeline.from_text(
        PIPELINE.replace("SEVERITY", severity), {"word": "hush-hush-word"}, environment=environment
    )
    plan = json.dumps(pipeline.plan(shop.address).document())
    report = pipeline.run(shop.lake, run_id="r")
    report.save(tmp_path / "report.json")
    assert report.succeeded == (severity == "warn")
    assert [one.failing for one in report.checks] == [2, 2, 2, 2, 1]
    assert any(one.samples for one in report.checks)
    shown = [plan, repr(report), (tmp_path / "report.json").read_text(), stored(shop), repr(pipeline.definition)]
    if severity == "warn":
        shown.append(repr(pipeline.run(shop.lake, run_id="r")))
    for text in shown:
        for piece in pieces():
            assert piece not in text
    assert "no *** of ***" in shown[2]
    # The table contains the user's data, with its secrets.
    if severity == "warn":
        assert shop.rows("told", "told")[0] == (f"x {SECRET}",)


def test_secret_that_is_also_a_word_of_reports_does_not_change_them():
    from pennon.pipeline_runs.report import CheckReport, RunReport
    from pennon.spark.pipeline.scrubbing import Scrubber

    check = CheckReport("t", "c", "error", passed=False, samples=({"publish": "x publish"},))
    report = RunReport("p", "r", "published", "atomic", "now", 1.0, resumed=False, checks=(check,))
    scrubbed = Scrubber(frozenset({"publish", "version"})).scrub_report(report)
    assert scrubbed.succeeded
    assert "publish" not in json.dumps([one.samples for one in scrubbed.checks])
