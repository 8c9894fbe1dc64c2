"""The examination of a catalog of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pennon.directory import DirectoryNamespace
from pennon.doctor import root_checks
from pennon.doctor.checking import run_checks
from pennon.iceberg import IcebergNamespace
from pennon.results import DoctorReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pennon.connection import AnyNamespace
    from pennon.doctor.checking import Check
    from pennon.doctor.store_checks import Measurements


def examine(
    namespace: AnyNamespace,
    *,
    fix: bool = False,
    deep: bool = False,
    probe: bool = True,
    report: Callable[[str, int], None] = lambda _title, _checks: None,
) -> DoctorReport:
    """Return what the checks of a catalog find. With `fix`, what is provably safe is repaired.

    `deep` opens every table, and lists more than one page of the store. Without `probe`, nothing is written unless
    something is repaired. `report` gets the title of each check before it runs, and the number of all checks.
    """
    if isinstance(namespace, DirectoryNamespace):
        root = root_checks.RootExamination(namespace, probe, deep)
        return _examine(root_checks.CHECKS, root, fix=fix, renew=root.renew, report=report)
    from pennon.doctor import server_checks  # noqa: PLC0415 - a directory needs no client of servers

    if isinstance(namespace, IcebergNamespace):
        iceberg = server_checks.IcebergExamination(namespace, probe, deep)
        return _examine(server_checks.ICEBERG_CHECKS, iceberg, fix=fix, report=report)
    server = server_checks.ServerExamination(namespace)
    return _examine(server_checks.SERVER_CHECKS, server, fix=fix, report=report)


class _Examination(Protocol):
    namespace: Any
    measured: Measurements


Examined = TypeVar("Examined", bound=_Examination)


def _examine(
    checks: Sequence[Check[Examined]],
    examined: Examined,
    *,
    fix: bool,
    renew: Callable[[], None] = lambda: None,
    report: Callable[[str, int], None],
) -> DoctorReport:
    made = run_checks(checks, examined, fix=fix, renew=renew, report=lambda title: report(title, len(checks)))
    measured = examined.measured
    return DoctorReport(repr(examined.namespace), fix, made, measured.figures, measured.promises)
