"""Chooses the options that a wrong one may stand for. Pure.

A suggestion that is not near is worse than none: it sends its reader to another matter.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Similarity of two names without their dashes (difflib's ratio). A slip of the finger keeps more than this.
ALIKE = 0.75
# A word that begins as another one does has the same meaning from this number of characters on: dep and depends.
SHARED_CHARACTERS = 3
MOST = 3


def near_options(given: str, known: Iterable[str]) -> list[str]:
    """Return those of ``known`` that are spelt almost as ``given``, or share a word with it; the nearest first."""
    found: list[tuple[float, str]] = []
    for option in sorted(set(known)):
        alike = difflib.SequenceMatcher(None, given.strip("-"), option.strip("-")).ratio()
        if alike >= ALIKE or _share_a_word(given, option):
            found.append((-alike, option))
    return [option for _, option in sorted(found)[:MOST]]


def _share_a_word(one: str, other: str) -> bool:
    return any(
        min(len(mine), len(theirs)) >= SHARED_CHARACTERS
        and (mine.startswith(theirs) or theirs.startswith(mine))
        for mine in one.strip("-").split("-")
        for theirs in other.strip("-").split("-")
    )
