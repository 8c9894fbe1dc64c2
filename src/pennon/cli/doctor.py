"""The command `doctor`."""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pennon.cli.commands import command, new_app
from pennon.cli.failures import ExitCode
from pennon.cli.output import Block, Fields, Lines, Note
from pennon.cli.session import Session
from pennon.cli.status_line import show_status

if TYPE_CHECKING:
    from pennon.results import DoctorCheck, DoctorReport, Finding

app = new_app()

_SHOWN = 20
"""How many findings of a check a terminal shows."""
_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_ORDER = tuple(_STYLES)


@command(
    app,
    "doctor",
    examples=[
        "pennon doctor",
        "pennon doctor --fix",
        "pennon doctor --deep --no-probe",
        "pennon doctor --json | jq '.findings[] | select(.severity != \"note\")'",
    ],
)
def doctor(
    session: Session,
    *,
    fix: Annotated[
        bool, typer.Option("--fix", help="Repair what is safe: finish what clients have begun and recorded.")
    ] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also open every table, and list more than one page of the store.")
    ] = False,
    no_probe: Annotated[
        bool, typer.Option("--no-probe", help="Write nothing to find out what the store does.")
    ] = False,
) -> ExitCode:
    """Examine a catalog and its store, say what to do, and repair it.

    The exit code is 0 if there are no errors and no warnings, and 9 if there are.
    """
    with session.lake() as lake, show_status("Opening the catalog") as status:
        from pennon.cli.table_access import translate_failures

        done: list[str] = []

        def report_check(title: str, checks: int) -> None:
            done.append(title)
            status.show(f"{title} ({len(done)} of {checks})")

        with translate_failures("doctor"):
            found = lake.doctor(fix=fix, deep=deep, probe=not no_probe, progress=report_check)
        report = _hide_secrets(found, session)
    session.output.show(_make_document(report), lambda: _make_view(report))
    return ExitCode.DONE if report.is_healthy else ExitCode.CHECKS_FAILED


def _hide_secrets(report: "DoctorReport", session: Session) -> "DoctorReport":
    """Return a report without secrets: messages of stores and servers are in findings."""
    from pennon.cli.secrets import scrub

    def hide(findings: "list[Finding]") -> "list[Finding]":
        return [dataclasses.replace(one, problem=scrub(one.problem, session.hidden)) for one in findings]

    checks = [
        dataclasses.replace(check, findings=hide(check.findings), repaired=hide(check.repaired))
        for check in report.checks
    ]
    return dataclasses.replace(report, checks=checks)


def _make_document(report: "DoctorReport") -> dict[str, Any]:
    return {
        "catalog": report.catalog,
        "healthy": report.is_healthy,
        "fix": report.fix,
        "figures": report.figures,
        "promises": [dataclasses.asdict(promise) for promise in report.promises],
        "checks": [
            {
                "name": check.name,
                "title": check.title,
                "findings": len(check.findings),
                "repaired": len(check.repaired),
                "skipped": check.skipped,
                "seconds": round(check.seconds, 3),
            }
            for check in report.checks
        ],
        "findings": [_describe(check, finding) for check in report.checks for finding in check.findings],
        "repaired": [_describe(check, finding) for check in report.checks for finding in check.repaired],
    }


def _describe(check: "DoctorCheck", finding: "Finding") -> dict[str, Any]:
    return {"check": check.name, **dataclasses.asdict(finding)}


def _make_view(report: "DoctorReport") -> Iterable[Block]:
    yield Lines(_draw_checks(report))
    if report.figures:
        yield Lines([("", "")])
        yield Fields({name.replace("_", " "): _format_figure(value) for name, value in report.figures.items()})
    counts = Counter(finding.severity for finding in report.findings)
    parts = [
        f"{counts[severity]:,} {severity}{'' if counts[severity] == 1 else 's'}"
        for severity in _ORDER
        if counts[severity]
    ]
    repaired = f"; {len(report.repaired):,} repaired" if report.fix else ""
    yield Lines([("", "")])
    yield Note(f"{report.catalog}: {', '.join(parts) or 'healthy'}{repaired}")
    if not report.fix and any(finding.fixable for finding in report.findings):
        yield Note("pennon doctor --fix repairs a part of this")


def _draw_checks(report: "DoctorReport") -> Iterable[tuple[str, str]]:
    for check in report.checks:
        worst = next((one for one in _ORDER if any(finding.severity == one for finding in check.findings)), None)
        if check.skipped is not None:
            yield f"-  {check.title}: skipped: {check.skipped}", "dim"
        elif worst is None:
            yield f"ok {check.title}", "green"
        else:
            yield f"!  {check.title}: {len(check.findings):,} found", _STYLES[worst]
        for promise in report.promises if check.name == "store" else ():
            word, style = ("kept", "dim") if promise.kept else ("not kept", "")
            yield f"     {word}: {promise.name}, for {promise.needed_for}", style
        for finding in check.repaired[:_SHOWN]:
            yield f"     repaired: {finding.subject}: {finding.problem}", "green"
        if len(check.repaired) > _SHOWN:
            yield f"     and {len(check.repaired) - _SHOWN:,} more repaired", "dim"
        for finding in sorted(check.findings, key=lambda one: _ORDER.index(one.severity))[:_SHOWN]:
            yield f"     {finding.severity}: {finding.subject}: {finding.problem}", _STYLES[finding.severity]
            yield f"       {finding.advice}", ""
            if finding.command is not None:
                yield f"       $ {finding.command}", "bold"
        if len(check.findings) > _SHOWN:
            yield f"     and {len(check.findings) - _SHOWN:,} more: --json shows all", "dim"


def _format_figure(value: str | float) -> str:
    return f"{value:,}" if isinstance(value, (int, float)) else value
