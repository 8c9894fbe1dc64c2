"""Ctrl-C and termination during calls that raise other errors when they are interrupted."""

from __future__ import annotations

import signal

import pytest

from pennon.spark.pipeline.interrupts import raise_on_signals


def interrupt_call(number):
    """Raise another error than KeyboardInterrupt, as an interrupted call to Spark does."""
    try:
        signal.raise_signal(number)
    except KeyboardInterrupt:
        raise ConnectionError("the call failed") from None


def test_ctrl_c_raises_keyboard_interrupt_although_the_call_fails() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), raise_on_signals():
        interrupt_call(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_termination_raises_the_error_of_its_handler() -> None:
    class Terminated(KeyboardInterrupt):
        pass

    def end(*_):
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(Terminated), raise_on_signals():
            interrupt_call(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_errors_are_not_changed() -> None:
    with pytest.raises(ConnectionError), raise_on_signals():
        raise ConnectionError("not interrupted")
