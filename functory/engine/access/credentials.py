"""Random texts that show who sends a request: tokens, cookies of logins, login links.

The database has their SHA-256 only. Each has 32 random bytes, so that no slow hash is needed. A token begins with
``fnc_`` and ends with a checksum: programs that look for leaked tokens recognise it, and a token that was cut off is
refused without a look into the database.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib

PREFIX = "fnc_"
# What people see of a token.
SHOWN = len(PREFIX) + 6

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BODY = 43
_CHECKSUM = 6
_TOKEN = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_BODY + _CHECKSUM}}}")


def new_token() -> str:
    """Return a new token."""
    body = _base62(int.from_bytes(secrets.token_bytes(32)), _BODY)
    return PREFIX + body + _checksum(body)


def is_token(text: str) -> bool:
    """True for a text of the form of a token, with its checksum."""
    body, checksum = text[len(PREFIX) : -_CHECKSUM], text[-_CHECKSUM:]
    return text.startswith(PREFIX) and len(body) == _BODY and body.isascii() and _checksum(body) == checksum


def has_token(text: str) -> bool:
    """True for a text with a token somewhere in it."""
    return any(is_token(found) for found in _TOKEN.findall(text))


def new_secret() -> str:
    """Return a new text for a cookie or a link."""
    return secrets.token_urlsafe(32)


def digest(text: str) -> str:
    """Return the hash that is stored of such a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), _CHECKSUM)


def _base62(number: int, length: int) -> str:
    found = ""
    while number:
        number, digit = divmod(number, 62)
        found = _DIGITS[digit] + found
    return found.rjust(length, _DIGITS[0])
