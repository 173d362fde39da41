"""Canary assignment: which executions of a function run the version of its canary. Pure.

A unit is a causal tree (its root), or the subject of the event that started the execution. A keyed hash of the unit is
compared with the share: one unit always gets the same version, and a larger share keeps the units of a smaller one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["root", "subject"]
UNITS: tuple[Unit, ...] = ("root", "subject")

_PLACES = 1 << 64


@dataclass(frozen=True)
class Arm:
    """What an execution was assigned to: the version of the canary (``is_canary``), or the base. ``unit`` is the hash
    of its unit.
    """

    unit: str
    is_canary: bool


def assign(unit: str, salt: str, share: float) -> Arm:
    """Return the arm of a unit. ``salt`` is the canary's key, as hex; ``share`` is from 0 to 1."""
    hashed = hashlib.blake2b(_bytes(unit), key=bytes.fromhex(salt), digest_size=8).hexdigest()
    return Arm(hashed, is_of_canary(hashed, share))


def is_of_canary(hashed: str, share: float) -> bool:
    """Return True when the hash of a unit lies in the share."""
    return int(hashed, 16) < int(share * _PLACES)


def unit_of(kind: Unit, root_id: str, subject: str | None) -> str:
    """Return the unit of an execution. Without a subject it is the root."""
    return subject if kind == "subject" and subject is not None else root_id


def subject_of_chain(chain: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the subject of the event that a causal chain ends with: children inherit it."""
    return chain[-1]["subject"] if chain else None


def _bytes(unit: str) -> bytes:
    return unit.encode("utf-8", "backslashreplace")
