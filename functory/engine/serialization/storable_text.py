"""Texts that every database can store."""

from __future__ import annotations


def is_storable(text: str) -> bool:
    """True for a text without NUL and without lone surrogates."""
    return "\x00" not in text and (text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text))
