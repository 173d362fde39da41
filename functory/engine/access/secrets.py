"""Secrets: sealed in the database, opened only for an execution that declares them.

Envelope per secret: ``version byte | 12-byte nonce | AES-256-GCM ciphertext`` (NIST SP 800-38D), with
the name and version as associated data, so that one row cannot be swapped for another. The key
comes from ``FUNCTORY_SECRET_KEY`` or, embedded, from ``secret.key`` in the home folder (mode 0600).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr

from functory.engine import private_files
from functory.engine.database.connection import Database
from functory.engine.database.schema import secret
from functory.engine.errors import FunctoryError, Invalid, NotFound
from functory.engine.events import store as event_store
from functory.engine.names import NAME
from functory.engine.settings import Settings

_FORMAT = b"\x01"
MAX_BYTES = 65_536


class Secrets:
    """Set, list, delete and open secrets. No method but :meth:`open` returns a value."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._loaded: bytes | None = None

    def set(self, name: str, value: str, *, author: str = "") -> int:
        """Seal ``value`` under ``name``. Returns its version. Raises :class:`Invalid`."""
        if not NAME.fullmatch(name):
            raise Invalid(f"{name!r} is not a secret name", "letters, digits and _ only, for example API_KEY")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise Invalid("wrong secret value", "it holds a lone surrogate, which has no bytes") from None
        if not 0 < size <= MAX_BYTES:
            raise Invalid(
                "wrong secret value",
                f"it takes 1 to {MAX_BYTES} bytes",
                f"to remove it: functory secret delete {name}",
            )
        key = self._key()
        with self._database.write() as tx:
            # The row is inserted first, even an empty one, so that a second process waits for its lock.
            first = {"name": name, "sealed": b"", "version": 0, "created_at": tx.now, "updated_at": tx.now}
            created = tx.insert_new(secret, first)
            statement = sa.select(secret.c.version).where(secret.c.name == name)
            version = tx.scalar(statement.with_for_update()) + 1
            sealed = self._seal(key, name, version, value)
            tx.execute(
                sa.update(secret)
                .where(secret.c.name == name)
                .values(sealed=sealed, version=version, updated_at=tx.now)
            )
            # Webhooks read it again at once: signatures made with the old value must not be accepted.
            tx.wake("sources")
            if not created:
                data = {"secret": name, "version": version, "author": author}
                event_store.append(
                    tx, [event_store.record(tx, "secret.rotated", name, data, source="/functory/secrets")]
                )
        return version

    def list(self) -> list[dict[str, Any]]:
        """Return the name, version and times of every secret; never a value."""
        with self._database.read() as tx:
            return tx.rows(
                sa.select(secret.c.name, secret.c.version, secret.c.created_at, secret.c.updated_at).order_by(
                    secret.c.name
                )
            )

    def delete(self, name: str) -> None:
        """Delete a secret. Raises :class:`NotFound`."""
        with self._database.write() as tx:
            if tx.execute(sa.delete(secret).where(secret.c.name == name)).rowcount == 0:
                raise NotFound(f"secret {name!r} not found", try_="functory secret list")
            tx.wake("sources")

    def missing(self, names: list[str]) -> list[str]:
        """Return the ``names`` that are not stored."""
        if not names:
            return []
        with self._database.read() as tx:
            known = {row["name"] for row in tx.rows(sa.select(secret.c.name).where(secret.c.name.in_(names)))}
        return [name for name in names if name not in known]

    def check_key(self) -> None:
        """Check that there is a valid key. Raises :class:`Invalid`."""
        self._key()

    def derive_key(self, purpose: bytes) -> bytes:
        """Return a key of 32 bytes for one purpose (HKDF-SHA256, RFC 5869). Raises :class:`Invalid` without a key."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=purpose).derive(self._key())

    def open(self, name: str) -> SecretStr:
        """Return the value of a secret. Raises :class:`NotFound`, and :class:`Invalid` for a wrong key."""
        found = self.open_all([name])[name]
        if isinstance(found, FunctoryError):
            raise found
        return found

    def open_all(self, names: Collection[str]) -> dict[str, SecretStr | FunctoryError]:
        """Open several secrets at once. A secret that cannot be opened gives its error instead of a value."""
        with self._database.read() as tx:
            rows = {
                row["name"]: row
                for row in tx.rows(sa.select(secret).where(secret.c.name.in_(sorted(set(names)))))
            }
        found: dict[str, SecretStr | FunctoryError] = {}
        for name in names:
            try:
                found[name] = self._unseal(name, rows.get(name))
            except FunctoryError as error:
                found[name] = error
        return found

    def _unseal(self, name: str, row: Mapping[str, Any] | None) -> SecretStr:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if row is None:
            raise NotFound(
                f"secret {name!r} is not set",
                "a function or a source needs it",
                f"functory secret set {name}",
            )
        sealed = bytes(row["sealed"])
        try:
            return SecretStr(
                AESGCM(self._key()).decrypt(sealed[1:13], sealed[13:], _aad(name, row["version"])).decode()
            )
        except InvalidTag:
            raise Invalid(
                f"secret {name} cannot be opened",
                "it was sealed with another key",
                "set FUNCTORY_SECRET_KEY to that key, or set the secret again",
            ) from None

    @staticmethod
    def _seal(key: bytes, name: str, version: int, value: str) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(12)
        return _FORMAT + nonce + AESGCM(key).encrypt(nonce, value.encode(), _aad(name, version))

    def _key(self) -> bytes:
        if self._loaded is None:
            self._loaded = self._read_key()
        return self._loaded

    def _read_key(self) -> bytes:
        given = self._settings.secret_key
        if given is not None:
            return _decode(given.get_secret_value(), "FUNCTORY_SECRET_KEY")
        file = self._settings.home / "secret.key"
        if file.is_file():
            return _decode(file.read_text().strip(), str(file))
        if not self._settings.embedded:
            raise Invalid(
                "no key for secrets",
                "several machines must share one key",
                "set FUNCTORY_SECRET_KEY to what this prints: "
                'python3 -c "import base64, os; print(base64.b64encode(os.urandom(32)).decode())"',
            )
        return _create(file)


def _create(file: Path) -> bytes:
    """Create a key and move it into ``file`` in one step; return another process's key if that process was first."""
    private_files.make_home(file.parent)
    draft = file.with_name(f"{file.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(base64.b64encode(os.urandom(32)).decode() + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()
    return _decode(file.read_text().strip(), str(file))


def _decode(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise Invalid(f"{where} holds no key", "it must be base64 of exactly 32 bytes")
    return key


def _aad(name: str, version: int) -> bytes:
    return f"functory:{name}:{version}".encode()
