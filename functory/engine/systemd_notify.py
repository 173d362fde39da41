"""Tells systemd what this process does: ready, stopping, alive. For units with ``Type=notify`` and ``WatchdogSec=``.

The protocol is that of sd_notify(3) and sd_watchdog_enabled(3): one datagram with lines ``NAME=VALUE`` to the socket
that ``NOTIFY_SOCKET`` names. Without that variable, every function here does nothing. A message that cannot be sent is
logged once and never ends a role: systemd sees the silence, and acts on it.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable

import structlog

log = structlog.get_logger("functory.systemd")

# systemd's queue may be full while it reloads; a role waits no longer than this for a place in it, in seconds.
SEND_SECONDS = 1.0

_failed = False


def ready(is_progressing: Callable[[], bool] = lambda: True) -> None:
    """Report that this role works. From now on a thread pings systemd's watchdog while ``is_progressing()`` is true."""
    _send("READY=1", "STATUS=ready")
    interval = _watchdog_seconds()
    if interval is not None:
        threading.Thread(
            target=_ping, args=(interval / 2, is_progressing), name="functory-watchdog", daemon=True
        ).start()


def status(text: str) -> None:
    """Report what this role waits for, for ``systemctl status``."""
    _send("STATUS=" + " ".join(text.split()))


def stopping() -> None:
    """Report that this role ends."""
    _send("STOPPING=1", "STATUS=stopping")


def _ping(pause: float, is_progressing: Callable[[], bool]) -> None:
    clock = threading.Event()
    while True:
        if is_progressing():
            _send("WATCHDOG=1")
        clock.wait(pause)


def _watchdog_seconds() -> float | None:
    """The time without a ping after which systemd ends this process; None when it does not watch it."""
    watched = os.environ.get("WATCHDOG_PID")
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    if not os.environ.get("NOTIFY_SOCKET") or not microseconds.isdecimal() or int(microseconds) == 0:
        return None
    if watched and watched != str(os.getpid()):
        # The variables were meant for the process that has started this one.
        return None
    return int(microseconds) / 1e6


def _send(*lines: str) -> None:
    global _failed
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(SEND_SECONDS)
            # A leading "@" stands for the zero byte of an abstract socket.
            sender.sendto("\n".join(lines).encode(), "\0" + address[1:] if address[0] == "@" else address)
    except (OSError, ValueError) as error:
        if not _failed:
            log.warning("systemd not notified", socket=address, why=str(error), message=lines[0])
        _failed = True
