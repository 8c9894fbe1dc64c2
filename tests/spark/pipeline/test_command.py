"""`pennon run`: exit codes, JSON output, the report file, dry runs and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from pennon.cli.app import run
from tests.cli.cli_support import terminal
from tests.support import fails

PIPELINE = """
name: shop
vars: {files: null, secret: {default: "${ENV:SHOP_SECRET:-none-given}", secret: true}}
sources:
  orders:
    format: csv
    path: ${files}/orders.csv
    options: {header: true, comment: "#"}
    schema: id BIGINT, customer STRING, amount DOUBLE, status STRING
  log: {table: shop.log, version: 1}
steps:
  known: SELECT id FROM log WHERE status = 'paid'
  new: SELECT o.*, '${secret}' AS told FROM orders o LEFT ANTI JOIN known USING (id)
targets:
  - table: shop.orders
    from: new
    checks: [{accepted_values: {status: [open, paid]}}]
"""


@pytest.fixture
def command(shop, capsys, monkeypatch, tmp_path):
    """Return a function that runs the command in this process, on the shop's catalog."""
    from pennon.spark.pipeline import Pipeline

    for name in [*os.environ]:
        if name.startswith("PENNON_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    rows = "SELECT 1L AS id, 'paid' AS status, 'x' AS more UNION ALL SELECT 9L, 'open', 'y'"
    Pipeline({"name": "log", "steps": {"s": rows}, "targets": [{"table": "shop.log", "from": "s"}]}).run(shop.lake)
    (tmp_path / "shop.yaml").write_text(PIPELINE)

    def call(*arguments: str, file: str = "shop.yaml", name: str = "run") -> tuple[int, str, str]:
        capsys.readouterr()
        root = dict(shop.address.properties)["root"]
        code = run([name, file, "--root", root, "--var", f"files={shop.files}", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_dry_run_shows_the_plan_and_changes_nothing(command, shop):
    before = sorted(path for path in shop.files.rglob("*") if path.is_file())
    code, out, _ = command("--dry-run", "--json")
    plan = json.loads(out)
    assert code == 0
    assert [(one["name"], one["version"]) for one in plan["sources"]] == [("orders", None), ("log", 1)]
    (known,) = [one for one in plan["steps"] if one["name"] == "known"]
    assert known["fate"] == "part of step new"
    assert [(one["name"], one["columns"]) for one in known["reads"]] == [("log", ["id", "status"])]
    assert [one["table"] for one in plan["targets"]] == ["shop.orders"]
    code, out, _ = command("--dry-run", "--table")
    assert code == 0
    for word in ("part of step new", "id, status", "accepted_values(status)", "all targets in one commit", "dry run"):
        assert word in out
    assert sorted(path for path in shop.files.rglob("*") if path.is_file()) == before


def test_exit_codes_of_published_and_failed_runs(command, shop, monkeypatch, tmp_path):
    monkeypatch.setenv("SHOP_SECRET", "hunter2-hunter2")
    code, out, err = command("--run-id", "good", "--report", "report.json", "--json")
    assert code == 0, err
    report = json.loads(out)
    assert report["status"] == "published"
    assert json.loads((tmp_path / "report.json").read_text())["run_id"] == "good"
    assert shop.rows("orders", "id", "told")[0] == (2, "hunter2-hunter2")
    code, out, err = command("--run-id", "good", "--table")
    assert code == 0
    assert "already published" in out
    shop.write_orders([(7, "eve", 1.0, "piad")])
    code, out, err = command("--table", "--report", "report.json")
    assert code == 9
    assert "FAILED" in out
    assert "status=piad" in out
    assert "nothing was published" in out
    assert json.loads((tmp_path / "report.json").read_text())["status"] == "checks failed"
    assert shop.versions()["orders"] == 1
    written = [path for path in tmp_path.rglob("*") if path.is_file() and "__pennon" in path.parts]
    assert written
    assert not any(b"hunter2" in path.read_bytes() for path in written)


def test_each_kind_of_error_has_its_exit_code(command, shop, tmp_path):
    (tmp_path / "bad.yaml").write_text(PIPELINE.replace("targets:", "tragets:").replace("version: 1", "version: x"))
    code, out, err = command(file="bad.yaml")
    assert (code, out) == (2, "")
    assert [line.partition(": ")[2].partition(":")[0] for line in err.splitlines()] == [
        "targets",
        "sources.log.version",
        "tragets",
    ]
    (tmp_path / "gone.yaml").write_text(PIPELINE.replace("shop.log, version: 1", "shop.nothing"))
    code, _, err = command("--dry-run", file="gone.yaml")
    assert code == 3
    assert "gone.yaml:10: sources.log.table: Table not found: 'shop.nothing'" in err
    (tmp_path / "analysed.yaml").write_text(PIPELINE.replace("status", "state"))
    code, _, err = command(file="analysed.yaml")
    assert code == 2
    assert "--run-id" not in err
    assert command("--var", "nope=1")[0] == 2
    assert command("--run-id", "../x")[0] == 2
    assert command("--discard")[0] == 2
    assert command("--report", "no/such/directory.json")[0] == 2
    code, out, _ = command("--discard", "--run-id", "unknown", "--json")
    assert (code, json.loads(out)["discarded"]) == (0, False)
    assert shop.versions() == {"log": 1}
    shop.lake.catalog.disable_table_version_management()
    code, _, err = command()
    assert code == 5
    assert "pennon manage-versions" in err


def test_tests_of_published_tables_write_nothing(command, shop, tmp_path):
    assert command("--run-id", "first")[0] == 0

    def list_files():
        return sorted(path for path in (shop.files / "root").rglob("*") if path.is_file())

    def run_checks(file: str, *options: str) -> tuple[int, str, str]:
        return command("--report", "tests.json", *options, file=file, name="test")

    before = list_files()
    code, out, err = run_checks("shop.yaml", "--table")
    assert (code, "checks passed" in out) == (0, True), err
    checks = "{row_count: {min: 99}}, {row_count: {min: 99}, scope: new}, {unique: id, severity: warn}"
    (tmp_path / "strict.yaml").write_text(PIPELINE.replace("{accepted", f"{checks}, {{accepted"))
    code, out, err = run_checks("strict.yaml", "--json")
    report = json.loads(out)
    assert (code, report["status"], report["tables"]) == (9, "checks failed", [{"table": "shop.orders", "version": 1}])
    assert [(one["name"], one["passed"]) for one in report["checks"]] == [
        ("row_count(min=99)", False),
        ("unique(id)", True),
        ("accepted_values(status)", True),
    ]
    assert json.loads((tmp_path / "tests.json").read_text()) == report
    assert list_files() == before
    (tmp_path / "new.yaml").write_text(PIPELINE.replace("shop.orders", "shop.new"))
    code, _, err = run_checks("new.yaml")
    assert (code, "is not published yet" in err) == (3, True)


def test_a_selected_target_is_published_alone(command, shop, tmp_path):
    more = PIPELINE + "  - {table: shop.known, from: known}\n"
    (tmp_path / "more.yaml").write_text(more)
    code, out, err = command("--only", "known", "--json", file="more.yaml")
    assert code == 0, err
    assert [one["table"] for one in json.loads(out)["targets"]] == ["shop.known"]
    assert shop.versions() == {"known": 1, "log": 1}


SLOW = """
name: slow
steps:
  quick: {sql: SELECT 1 AS x, stage: always}
  slow: "SELECT x, reflect('java.lang.Thread', 'sleep', 600000L) AS y FROM quick"
targets:
  - {table: shop.new, from: slow}
  - {table: shop.more, from: quick}
"""


@pytest.mark.timeout(600)
def test_ctrl_c_deletes_staged_data_and_state(shop, tmp_path):
    from pennon.spark.pipeline import Pipeline

    (tmp_path / "slow.yaml").write_text(SLOW)
    root = dict(shop.address.properties)["root"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PENNON_")}
    arguments = ["run", str(tmp_path / "slow.yaml"), "--root", root, "--run-id", "r", "--master", "local[1]"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pennon", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    state = shop.files / "root/__pennon/runs/slow/r"
    try:
        deadline = time.monotonic() + 400
        # The step is staged, and the task of the target sleeps or will soon.
        while not (state / "done/staging.0.json").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with fails(14, "is being worked on by process"):
            Pipeline.from_text(SLOW).run(shop.lake, run_id="r")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, stderr
    assert "interrupted: nothing was published, and the staged data was removed" in stderr
    assert not [word for word in ("WARN", "log4j", "py4j", "fork", "Traceback") if word in stderr], stderr
    assert shop.versions() == {}
    assert shop.leftovers() == []
    assert not [path for path in state.rglob("*") if path.is_file()]


NOISE = ("WARN", "log4j", "py4j", "fork", "Traceback", "Exception", "incubator")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("moment", ["Starting Spark", "target shop.new"])
def test_ctrl_c_on_a_terminal_leaves_only_lines_of_the_command(shop, tmp_path, moment):
    (tmp_path / "slow.yaml").write_text(SLOW)
    root = dict(shop.address.properties)["root"]
    file = str(tmp_path / "slow.yaml")
    with terminal("run", file, "--root", root, "--run-id", "r", "--master", "local[1]") as shown:
        shown.wait_for("Checking slow.yaml ...")
        shown.wait_for(moment)
        shown.type("\x03")
        assert shown.end() == 130
    assert shown.seen.index("Checking slow.yaml ...") < shown.seen.index("Starting Spark ...")
    assert "interrupted" in shown.seen
    assert not [word for word in NOISE if word in shown.seen], shown.seen
    assert shop.versions() == {}
    assert shop.leftovers() == []
