"""Work on executors: errors are results, a worker that dies harms its own piece alone, and work can be stopped."""

from __future__ import annotations

import _thread
import os
import time
from threading import Thread

import pytest

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


def test_ctrl_c_stops_the_work_on_executors(spark, tmp_path):
    begun = tmp_path / "begun"

    def work(_, seconds):
        if seconds:
            begun.touch()
        time.sleep(seconds)
        return seconds

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.05)
        _thread.interrupt_main()

    Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        list(spread(spark, NOWHERE, work, [600, 600]))
    # The executors are free again: this would wait for ten minutes otherwise, and the test would fail.
    assert [answer.value for answer in spread(spark, NOWHERE, work, [0])] == [0]
