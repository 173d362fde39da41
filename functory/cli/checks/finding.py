"""What a check has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functory.engine.errors import FunctoryError


@dataclass(frozen=True)
class Finding:
    """One finding of a check: ``verdict`` is ok, warn or fail, ``advice`` what repairs it."""

    check: str
    verdict: str
    found: str
    advice: str = ""


def failed(check: str, error: FunctoryError) -> Finding:
    """A check that could not be made, or whose answer is an error."""
    why = error.why.replace("\n", "; ")
    return Finding(check, "fail", f"{error.what}: {why}" if why else error.what, error.try_)
