"""How a secret is sealed: AES-256-GCM (NIST SP 800-38D).

An envelope is ``version byte 2 | 4-byte id of the key | 12-byte nonce | ciphertext``. The name and the version of the
secret are associated data, so that one row cannot be swapped for another. Envelopes of version 1 have no id; every
key of the ring is tried.
"""

from __future__ import annotations

import os

from functory.engine.access.key_ring import ID_BYTES, Ring, RingKey

_FORMAT, _FORMAT_WITHOUT_ID = b"\x02", b"\x01"
_NONCE_BYTES = 12


def seal(one: RingKey, name: str, version: int, value: str) -> bytes:
    """Return the envelope of ``value``, which is version ``version`` of the secret ``name``."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return _FORMAT + one.id + nonce + AESGCM(one.key).encrypt(nonce, value.encode(), _aad(name, version))


def unseal(ring: Ring, name: str, version: int, sealed: bytes) -> str | None:
    """Return the value in the envelope ``sealed``; None when no key of ``ring`` opens it."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    start = len(_FORMAT) + (0 if sealed.startswith(_FORMAT_WITHOUT_ID) else ID_BYTES)
    nonce, content = sealed[start : start + _NONCE_BYTES], sealed[start + _NONCE_BYTES :]
    for one in ring:
        if key_id(sealed) in (b"", one.id):
            try:
                return AESGCM(one.key).decrypt(nonce, content, _aad(name, version)).decode()
            except InvalidTag:
                continue
    return None


def key_id(sealed: bytes) -> bytes:
    """Return the id of the key that sealed; empty for the older format."""
    return sealed[1 : 1 + ID_BYTES] if sealed.startswith(_FORMAT) else b""


def _aad(name: str, version: int) -> bytes:
    return f"functory:{name}:{version}".encode()
