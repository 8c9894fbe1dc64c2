"""docs/guides/doctor.md: its example runs, and its tables have every check and every promise."""

from __future__ import annotations

import re
from pathlib import Path

import pennon
from pennon.doctor.root_checks import CHECKS
from pennon.store import probing
from tests.doctor.patients import shown

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "doctor.md").read_text()


def test_example_runs(open_patient, capsys):
    patient = open_patient("compatibility")
    (patient.path / "stray").mkdir()
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    names: dict = {}
    exec(code.replace("/data/lake", patient.root.uri), names)  # noqa: S102 - what a reader would run
    assert isinstance(names["report"], pennon.DoctorReport)
    assert shown(names["report"].findings) == [("note", "stray")]
    assert capsys.readouterr().out.startswith("note stray ")
    names["lake"].close()


def test_every_check_is_listed_with_its_repair():
    rows = dict(re.findall(r"^\| `(\w+)`[^|]*\| [^|]+\| ([^|]*)\|$", GUIDE, re.MULTILINE))
    listed = {name: bool(repair.strip()) for name, repair in rows.items() if name not in {"error", "warning", "note"}}
    assert listed == {check.name: check.repair is not None for check in CHECKS}


def test_every_promise_is_listed():
    promises = [value for value in vars(probing).values() if isinstance(value, probing.Promise)]
    text = GUIDE.partition("## Promises of a store")[2]
    assert len(promises) > 10
    assert [one.name for one in promises if one.name not in text and one is not probing.REMOVAL] == []
