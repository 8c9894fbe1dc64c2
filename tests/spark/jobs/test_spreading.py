"""Work on executors: errors are results, and a worker that dies harms its own piece alone."""

from __future__ import annotations

import os

from pennon.errors import TableNotFoundError
from pennon.spark.address import Address
from pennon.spark.jobs.spreading import attempt, spread

NOWHERE = Address("dir", ())


def test_errors_are_results_and_name_the_piece():
    def work(_, item):
        if item == "sdk":
            raise TableNotFoundError("no such table")
        if item == "system":
            raise OSError("disk on fire")
        if item == "bug":
            raise KeyError("k")
        return item

    assert attempt(work, NOWHERE, "fine", "x") == ("fine", None, None)
    assert attempt(work, NOWHERE, "sdk", "x") == (None, 4, "no such table")
    assert attempt(work, NOWHERE, "system", "job of t") == (None, 18, "job of t: OSError: disk on fire")
    assert attempt(work, NOWHERE, "bug", "job of t") == (None, 18, "job of t: KeyError: 'k'")


def test_a_worker_that_dies_harms_its_own_piece_alone(spark):
    def work(_, item):
        if item == "deadly":
            os._exit(1)
        return item.upper()

    answers = {answer.item: answer for answer in spread(spark, NOWHERE, work, ["a", "deadly", "b"])}
    assert (answers["a"].value, answers["b"].value) == ("A", "B")
    assert int(answers["deadly"].error.code) == 18
    assert "deadly" in str(answers["deadly"].error)
