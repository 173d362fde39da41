"""A problem of a server that Functory uses and does not configure: the database's, or the broker."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerProblem:
    """What is wrong, why, and what to try. ``grave``: with it Functory cannot work; else a promise is weaker."""

    what: str
    why: str
    try_: str
    grave: bool = False
