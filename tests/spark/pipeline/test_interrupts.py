"""Ctrl-C and termination in the middle of calls that make something else of them."""

from __future__ import annotations

import signal

import pytest

from pennon.spark.pipeline.interrupts import heard


def interrupted(number):
    """Fail as a call to Spark does that is interrupted while it sends: by another error."""
    try:
        signal.raise_signal(number)
    except KeyboardInterrupt:
        raise ConnectionError("the call failed") from None


def test_ctrl_c_is_heard_though_a_call_fails_otherwise() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), heard():
        interrupted(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_termination_is_told_as_its_handler_tells_it() -> None:
    class Terminated(KeyboardInterrupt):
        pass

    def end(*_):
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(Terminated), heard():
            interrupted(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ConnectionError), heard():
        raise ConnectionError("nobody interrupted it")
