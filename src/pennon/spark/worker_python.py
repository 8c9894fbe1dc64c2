"""The Python interpreter of Spark's workers, which must be able to import Pennon.

PySpark starts `python3` from the search path unless PYSPARK_PYTHON names another interpreter. So a program that is
started as `.venv/bin/python program.py`, without an activated environment, gets workers with the system's interpreter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.spark.session_settings import classic_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

_VARIABLE = "PYSPARK_PYTHON"
_LOOK = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pennon') is None)"
_TIMEOUT_SECONDS = 60
_SIGNS = ("No module named 'pennon", "PYTHON_VERSION_MISMATCH")


def require_pennon_in_workers(spark: SparkSession) -> None:
    """Raise InvalidInputError if the workers of a session cannot import Pennon. The message names the setting.

    Workers on this machine use this program's interpreter unless another one was chosen. On a cluster, only the
    interpreter that the driver starts is checked. On Spark Connect, a job of one row imports Pennon.
    """
    context = classic_context(spark)
    if context is None:
        _require_pennon_on_server(spark)
        return
    path = shutil.which(context.pythonExec)
    if path is not None and Path(path).absolute() == Path(sys.executable).absolute():
        return
    is_local = str(context.master).startswith("local")
    if is_local and _VARIABLE not in os.environ:
        context.pythonExec = sys.executable
        return
    if path is not None and not _can_import_pennon(path):
        where = "on this machine" if is_local else "of the same path on every node, with Pennon installed"
        raise InvalidInputError(
            f"Spark's Python workers would run {path}, which cannot import pennon. Set {_VARIABLE} to an interpreter "
            f"{where} before the session starts, such as {_VARIABLE}={sys.executable}"
        )


def _can_import_pennon(path: str) -> bool:
    # Workers inherit only PYTHONPATH from the environment of the driver.
    done = subprocess.run([path, "-c", _LOOK], capture_output=True, check=False, timeout=_TIMEOUT_SECONDS)  # noqa: S603 - what Spark itself would start
    return done.returncode == 0


def _require_pennon_on_server(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    try:
        spark.range(0, 1, 1, 1).mapInArrow(_pass_through, "id long").collect()
    except PySparkException as error:
        sign = next((sign for sign in _SIGNS if sign in str(error)), None)
        if sign is None:
            raise
        raise InvalidInputError(
            "The Python workers of the Spark Connect server cannot import pennon, or are of another version of Python "
            f"than {sys.version_info.major}.{sys.version_info.minor}. Set {_VARIABLE} where the server starts to an "
            "interpreter of this version with Pennon installed"
        ) from error


def _pass_through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # Workers import this function's module to call it, which fails without Pennon.
    yield from batches
