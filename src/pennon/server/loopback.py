"""Addresses that only this machine reaches."""

from __future__ import annotations

import ipaddress

_LOCAL_NAMES = {"localhost"}


def is_loopback(host: str) -> bool:
    """Return True if a name or address is this machine and cannot be reached from others."""
    if host.lower() in _LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
