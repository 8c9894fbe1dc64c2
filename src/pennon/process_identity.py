"""The identity of a process, by which others on the same machine see whether it still runs."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from pennon.stored_json import parse_digits


def current_process() -> str:
    """Return the identity of this process: its machine, its number and its start time."""
    return f"{_machine()}/{os.getpid()}/{_read_start_time(os.getpid())}"


def is_dead(identity: str) -> bool:
    """Return True if a process ran on this machine and has ended. False if that is not known."""
    rest, _, started = identity.rpartition("/")
    machine, _, number = rest.rpartition("/")
    pid = parse_digits(number)
    if machine != _machine() or not started or pid is None:
        return False
    return _read_start_time(pid) != started


def _machine() -> str:
    """Return an id of the space in which process numbers are unique: host, boot and process namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}/{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _read_start_time(pid: int) -> str:
    """Return the start time of a process, which differs for a later one with the same number; "" if it ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in {"Z", "X"} else fields[19]
