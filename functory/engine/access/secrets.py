"""Secrets: sealed in the database, opened only for an execution that declares them.

How they are sealed: :mod:`functory.engine.access.sealing`. The keys: :mod:`functory.engine.access.key_ring`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr

from functory.engine.access import sealing
from functory.engine.access.key_ring import KeyRing, Ring, RingKey, new_key
from functory.engine.database import audit, dialects
from functory.engine.database.connection import Database
from functory.engine.database.schema import secret
from functory.engine.errors import Conflict, FunctoryError, Invalid, NotFound
from functory.engine.events import store as event_store
from functory.engine.names import NAME
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics

MAX_BYTES = 65_536
# Secrets that one transaction seals anew, so that it stays short.
BATCH = 100
# Tokens that a former key signed are valid for a day; a key that is in use nowhere may go after that.
RETIRE_AFTER = timedelta(days=1)


class Secrets:
    """Set, list, delete and open secrets. No method but :meth:`open` returns a value."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self.ring = KeyRing(settings)
        # Keys by purpose, of one state of the ring.
        self._derived: tuple[Ring, dict[bytes, list[bytes]]] = ((), {})

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
        self.check_key()
        with self._database.write() as tx:
            # The row is inserted first, even an empty one, so that a second process waits for its lock.
            first = {"name": name, "sealed": b"", "version": 0, "created_at": tx.now, "updated_at": tx.now}
            created = tx.insert_missing(secret, [first]) == 1
            statement = sa.select(secret).where(secret.c.name == name)
            row = tx.first(statement.with_for_update()) or first
            version = row["version"] + 1
            # Read after the lock: a key that is retired meanwhile must not seal.
            sealed = sealing.seal(self.ring.load()[0], name, version, value)
            tx.execute(
                sa.update(secret)
                .where(secret.c.name == name)
                .values(sealed=sealed, version=version, updated_at=tx.now)
            )
            audit.append(
                tx,
                author,
                "secret.set",
                name,
                {"version": version},
                before=None if created else _hash(row["sealed"]),
                after=_hash(sealed),
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

    def delete(self, name: str, *, author: str = "") -> None:
        """Delete a secret. Raises :class:`NotFound`."""
        with self._database.write() as tx:
            row = tx.first(sa.select(secret).where(secret.c.name == name).with_for_update())
            if row is None:
                raise NotFound(f"secret {name!r} not found", try_="functory secret list")
            tx.execute(sa.delete(secret).where(secret.c.name == name))
            audit.append(
                tx, author, "secret.delete", name, {"version": row["version"]}, before=_hash(row["sealed"])
            )
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
        self.ring.load()

    def derive_keys(self, purpose: bytes) -> Sequence[bytes]:
        """Return a key of 32 bytes for one purpose (HKDF-SHA256, RFC 5869) from each key of the ring, the one to use
        first. Raises :class:`Invalid` without a key."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        ring = self.ring.load()
        known = self._derived
        if known[0] is not ring:
            known = self._derived = (ring, {})
        if purpose not in known[1]:
            known[1][purpose] = [
                HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=purpose).derive(one.key)
                for one in ring
            ]
        return known[1][purpose]

    def add_key(self) -> RingKey:
        """Make a new key the sealing one; the others still open. Raises :class:`Invalid` for a ring in the
        environment."""
        now = self._database.clock.now()
        return self.ring.replace(lambda ring: (new_key(now), *ring))[0]

    def reseal(self) -> int:
        """Seal with the first key what another one sealed, while everything runs. Returns the number of secrets.

        Raises :class:`Invalid` for a secret that no key opens: the others are sealed anew nevertheless.
        """
        done, last, failure = 0, "", None
        while True:
            with self._database.write() as tx:
                statement = sa.select(secret).where(secret.c.name > last).order_by(secret.c.name).limit(BATCH)
                rows = tx.rows(statement.with_for_update())
                first = self.ring.load()[0]
                for row in rows:
                    if sealing.key_id(bytes(row["sealed"])) == first.id:
                        continue
                    try:
                        value = self._unseal(row["name"], row).get_secret_value()
                    except Invalid as error:
                        failure = error
                        continue
                    sealed = sealing.seal(first, row["name"], row["version"], value)
                    tx.execute(sa.update(secret).where(secret.c.name == row["name"]).values(sealed=sealed))
                    done += 1
            if len(rows) < BATCH:
                break
            last = rows[-1]["name"]
        if failure is not None:
            raise failure
        return done

    def key_usage(self) -> dict[str, int]:
        """Return the number of secrets that each key sealed, by its id in hexadecimal; empty for the older format."""
        with self._database.read() as tx:
            sealed = tx.rows(sa.select(secret.c.sealed))
        return dict(Counter(sealing.key_id(bytes(row["sealed"])).hex() for row in sealed))

    def retire_keys(self, *, force: bool = False) -> int:
        """Drop every key but the first from the file. Returns the number of dropped keys.

        Raises :class:`Conflict` while a secret is sealed with another key, and, without ``force``, as long as a token
        that another key signed may be valid.
        """
        with self._database.write() as tx:
            # Waits for every secret that is being written, and holds new ones until the file is replaced.
            dialects.lock_table(tx, secret)
            first, *former = self.ring.load()
            others = [
                row["name"]
                for row in tx.rows(sa.select(secret))
                if sealing.key_id(bytes(row["sealed"])) != first.id
            ]
            if others:
                raise Conflict(
                    f"{len(others)} secrets are sealed with a former key",
                    f"{others[0]} is one of them, and could not be opened any more",
                    "functory secret rotate-key --reseal",
                )
            if not force and first.since is not None and tx.now - first.since < RETIRE_AFTER:
                raise Conflict(
                    "the former keys may still be needed",
                    "tokens of lineage that they signed are valid for a day",
                    "wait a day, or --force",
                )
            if former:
                # By name: another process may have put a new key before the one that was checked.
                self.ring.replace(lambda ring: [one for one in ring if one not in former])
        return len(former)

    def open(self, name: str) -> SecretStr:
        """Return the value of a secret. Raises :class:`NotFound`, and :class:`Invalid` for a wrong key."""
        found = self.open_all([name])[name]
        if isinstance(found, FunctoryError):
            raise found
        return found

    def open_all(self, names: Collection[str]) -> dict[str, SecretStr | FunctoryError]:
        """Open several secrets at once. A secret that cannot be opened gives its error instead of a value."""
        rows = self._rows(names)
        found: dict[str, SecretStr | FunctoryError] = {}
        for name in names:
            try:
                found[name] = self._open_row(name, rows.get(name))
                result = "ok"
            except FunctoryError as error:
                found[name] = error
                result = "missing" if isinstance(error, NotFound) else "decrypt_error"
            metrics.secret_reads.labels(result).inc()
        return found

    def _rows(self, names: Collection[str]) -> dict[str, Mapping[str, Any]]:
        with self._database.read() as tx:
            rows = tx.rows(sa.select(secret).where(secret.c.name.in_(sorted(set(names)))))
        return {row["name"]: row for row in rows}

    def _open_row(self, name: str, row: Mapping[str, Any] | None) -> SecretStr:
        """Open a row. Its key may be gone since it was read: then it was sealed with a newer one before that, and is
        read again."""
        while True:
            try:
                return self._unseal(name, row)
            except Invalid:
                known, row = row, self._rows([name]).get(name)
                if known is not None and row is not None and bytes(row["sealed"]) == bytes(known["sealed"]):
                    raise

    def _unseal(self, name: str, row: Mapping[str, Any] | None) -> SecretStr:
        if row is None:
            raise NotFound(
                f"secret {name!r} is not set",
                "a function or a source needs it",
                f"functory secret set {name}",
            )
        value = sealing.unseal(self.ring.load(), name, row["version"], bytes(row["sealed"]))
        if value is not None:
            return SecretStr(value)
        raise Invalid(
            f"secret {name} cannot be opened",
            "it was sealed with another key",
            "add that key to FUNCTORY_SECRET_KEY or the key file, or set the secret again",
        )


def _hash(sealed: bytes) -> str:
    """Return the hash of a sealed value: one of the value itself could be guessed."""
    return hashlib.sha256(bytes(sealed)).hexdigest()
