"""A bound on combining marks in a row, without which Unicode's normal forms take a time that grows with their square.

Python normalizes each name of a source (NFKC), and passwords are normalized before they are hashed. Unicode
(Standard Annex 15, section 13) needs at most 30 marks in a row for any language.
"""

from __future__ import annotations

import re
import unicodedata

MAX_IN_A_ROW = 100

_NOT_ASCII = re.compile(rf"[^\x00-\x7f]{{{MAX_IN_A_ROW + 1},}}")


def has_too_many(text: str) -> bool:
    """Return True for a text with more than :data:`MAX_IN_A_ROW` combining marks in a row."""
    if text.isascii():
        return False
    for found in _NOT_ASCII.finditer(text):
        row = 0
        for character in found[0]:
            row = row + 1 if unicodedata.combining(character) else 0
            if row > MAX_IN_A_ROW:
                return True
    return False
