"""Tasks on executors: errors are results, and a dying worker affects only its own task."""

from __future__ import annotations

import os
import pickle

from pennon.errors import TableNotFoundError
from pennon.spark.address import Address
from pennon.spark.jobs.executor_tasks import run_task, run_tasks

NOWHERE = Address("dir", ())


def test_errors_become_results_that_name_the_task():
    def work(_, item):
        if item == "sdk":
            raise TableNotFoundError("no such table")
        if item == "system":
            raise OSError("disk on fire")
        if item == "bug":
            raise KeyError("k")
        return item

    def run(item, subject):
        result = pickle.loads(pickle.dumps(run_task(work, NOWHERE, item, subject)))
        error = result.error
        return result.value if error is None else (result.value, int(error.code), str(error))

    assert run("fine", "x") == "fine"
    assert run("sdk", "x") == (None, 4, "no such table")
    assert run("system", "job of t") == (None, 18, "job of t: OSError: disk on fire")
    assert run("bug", "job of t") == (None, 18, "job of t: KeyError: 'k'")


def test_dying_worker_fails_only_its_own_task(spark):
    def work(_, item):
        if item == "deadly":
            os._exit(1)
        return item.upper()

    results = {result.item: result for result in run_tasks(spark, NOWHERE, work, ["a", "deadly", "b"])}
    assert (results["a"].value, results["b"].value) == ("A", "B")
    assert int(results["deadly"].error.code) == 18
    assert "deadly" in str(results["deadly"].error)
