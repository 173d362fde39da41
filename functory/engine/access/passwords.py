"""Passwords: what is accepted as one, and their hashes.

The hash is argon2id with the parameters that RFC 9106, section 4, recommends for machines without much memory (64 MiB,
three passes). A check costs that much, so only :data:`AT_ONCE` run at once in a process; the others wait.
"""

from __future__ import annotations

import functools
import threading
import unicodedata
from typing import Any

from pydantic import SecretStr

from functory.engine import extras
from functory.engine.errors import Invalid, Unavailable

MIN_CHARACTERS = 12
MAX_CHARACTERS = 500
MIN_DIFFERENT = 5
# 64 MiB each.
AT_ONCE = 2
# A request that waits longer for its turn is refused: the machine is busy with the attempts of others.
TURN_SECONDS = 10.0

_turns = threading.BoundedSemaphore(AT_ONCE)


def check(password: SecretStr, user: str) -> None:
    """Refuse a password that can be guessed. Raises :class:`Invalid`; the message never has the password."""
    text = _normal(password)
    if not MIN_CHARACTERS <= len(text) <= MAX_CHARACTERS:
        raise Invalid(
            "the password is too short" if len(text) < MIN_CHARACTERS else "the password is too long",
            f"it takes {MIN_CHARACTERS} to {MAX_CHARACTERS} characters",
            "several words are easy to keep in mind",
        )
    if len(set(text)) < MIN_DIFFERENT or user.casefold() in (text.casefold(), text.casefold()[::-1]):
        raise Invalid(
            "the password is easy to guess",
            f"it is the user's name, or has fewer than {MIN_DIFFERENT} different characters",
        )


def hash_(password: SecretStr) -> str:
    """Return the hash of a password, with its parameters and a salt of its own."""
    with _Turn():
        return _hasher().hash(_normal(password))


def verify(stored: str | None, password: SecretStr) -> bool:
    """True when the password is the one of the hash. Without a hash it takes as long, and is False: the time does not
    tell whether there is such a user.
    """
    from argon2.exceptions import InvalidHashError, VerificationError

    text = _normal(password)
    # Longer texts are no passwords, and must not cost what they would.
    text = text if len(text) <= MAX_CHARACTERS else ""
    with _Turn():
        try:
            return _hasher().verify(stored or _unknown(), text) and stored is not None
        except (VerificationError, InvalidHashError):
            return False


def needs_rehash(stored: str) -> bool:
    """True for a hash that was made with other parameters than those of now."""
    return _hasher().check_needs_rehash(stored)


class _Turn:
    def __enter__(self) -> None:
        if not _turns.acquire(timeout=TURN_SECONDS):
            raise Unavailable("too many passwords are being checked", "each check takes time", "try again")

    def __exit__(self, *_: object) -> None:
        _turns.release()


def _normal(password: SecretStr) -> str:
    # The same characters typed on two systems may have different code points (NIST SP 800-63B, section 3.1.1.2).
    # What is cut is still too long, but for text whose normal form is a quarter as long: no script has that.
    return unicodedata.normalize("NFKC", password.get_secret_value()[: 4 * MAX_CHARACTERS + 4])


@functools.cache
def _hasher() -> Any:
    try:
        from argon2 import PasswordHasher
    except ModuleNotFoundError:
        raise Invalid(
            "passwords cannot be hashed", "there is no module argon2", extras.install_command("server")
        ) from None
    return PasswordHasher()


@functools.cache
def _unknown() -> str:
    """Return a hash that no password has."""
    import secrets

    return _hasher().hash(secrets.token_hex(32))
