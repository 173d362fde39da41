"""The name of this machine, as text that every row can store."""

from __future__ import annotations

import socket


def host_name() -> str:
    """Return the machine's name. Bytes that are no text, and control characters, become ``?``: Linux allows both."""
    return "".join(one if one.isprintable() else "?" for one in socket.gethostname()) or "?"
