"""Verifies that a request was sent with a shared secret, and signs requests for tests. Pure functions.

A signature is verified over the bytes as they were sent, before they are parsed, and compared in constant time
(``hmac.compare_digest``). A signed timestamp must be near the present, in either direction.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.serialization import durations
from functory.triggers.sources.webhooks.authentication import (
    Basic,
    GitHub,
    Hmac,
    NoAuthentication,
    Slack,
    Standard,
    Stripe,
    Token,
)
from functory.triggers.sources.webhooks.request import Request

# A header may hold several signatures while a secret is rotated.
MAX_SIGNATURES = 20
# Ten digits are seconds until the year 2286, thirteen are milliseconds.
_STAMP = re.compile(r"[0-9]{1,13}")
_MILLISECONDS = 100_000_000_000

_DECOY = secrets.token_bytes(32)


@dataclass(frozen=True)
class VerificationResult:
    """``ok``, or ``problem`` for the operator (the sender does not see it) and ``refusal``, a word of
    :data:`functory.engine.sources.refusals.REASONS`.

    ``content_key`` is the hash of the signed text: a second request with the same one may be a copy of the first, sent
    by somebody who does not know the secret.
    """

    ok: bool
    problem: str = ""
    content_key: str | None = None
    refusal: str = ""


@dataclass(frozen=True)
class _Signed:
    """The parts of a request that a scheme verifies: its signatures, the signed bytes, and the timestamp."""

    signatures: Sequence[bytes]
    content: bytes
    algorithm: str = "sha256"
    stamp: str | None = None


class _MalformedRequest(Exception):
    """The request lacks a part that its scheme requires."""

    refusal = "proof_missing"


class _WrongTime(_MalformedRequest):
    """The signed time is too far from the present."""

    refusal = "proof_old"


def verify(auth: Any, keys: Sequence[str], request: Request, now: float) -> VerificationResult:
    """Verify that ``request`` was sent with one of ``keys``. ``now`` is the time in seconds since 1970."""
    if isinstance(auth, NoAuthentication):
        dummy_verify(request)
        return VerificationResult(True)
    if isinstance(auth, Token | Basic):
        dummy_verify(request)
        return _verify_credentials(auth, keys, request)
    try:
        signed = _read(auth, request)
        if signed.stamp is not None:
            _check_age(signed.stamp, durations.parse(auth.tolerance, "tolerance"), now)
    except _MalformedRequest as unreadable:
        dummy_verify(request)
        return VerificationResult(False, str(unreadable), refusal=unreadable.refusal)
    fits = False
    for key in keys:
        made = hmac.new(_key(auth, key), signed.content, signed.algorithm).digest()
        for given in signed.signatures:
            fits |= hmac.compare_digest(made, given)
    if not fits:
        return VerificationResult(
            False,
            "the signature does not fit: another secret, or a body that was changed on the way",
            refusal="proof_wrong",
        )
    return VerificationResult(True, content_key="signed:" + hashlib.sha256(signed.content).hexdigest())


def dummy_verify(request: Request) -> None:
    """Compute a dummy HMAC, so that an unknown webhook takes as long to refuse as a wrong signature."""
    hmac.new(_DECOY, request.body, "sha256").digest()


def sign(auth: Any, key: str, body: bytes, now: float, id_: str) -> list[tuple[str, str]]:
    """The headers that a sender with ``key`` adds to ``body``. ``id_`` is the delivery id, in schemes that have one."""
    stamp = str(int(now))

    def of(content: bytes, algorithm: str = "sha256") -> bytes:
        return hmac.new(_key(auth, key), content, algorithm).digest()

    match auth:
        case GitHub():
            return [("x-hub-signature-256", "sha256=" + of(body).hex()), ("x-github-delivery", id_)]
        case Stripe():
            return [("stripe-signature", f"t={stamp},v1={of(f'{stamp}.'.encode() + body).hex()}")]
        case Slack():
            signature = "v0=" + of(f"v0:{stamp}:".encode() + body).hex()
            return [("x-slack-request-timestamp", stamp), ("x-slack-signature", signature)]
        case Standard():
            signature = base64.b64encode(of(f"{id_}.{stamp}.".encode() + body)).decode()
            return [
                ("webhook-id", id_),
                ("webhook-timestamp", stamp),
                ("webhook-signature", f"v1,{signature}"),
            ]
        case Hmac():
            raw = of(_fill(auth.template, stamp, body), auth.algorithm)
            shown = raw.hex() if auth.encoding == "hex" else base64.b64encode(raw).decode()
            more = [] if auth.timestamp_header is None else [(auth.timestamp_header, stamp)]
            return [(auth.header, auth.prefix + shown), *more]
        case Token():
            return [(auth.header, f"Bearer {key}" if auth.header == "authorization" else key)]
        case Basic():
            return [("authorization", "Basic " + base64.b64encode(f"{auth.user}:{key}".encode()).decode())]
    return []


def _read(auth: Any, request: Request) -> _Signed:
    body = request.body
    match auth:
        case GitHub():
            given = _header(request, "x-hub-signature-256")
            return _Signed([_unhex(_after(given, "sha256="))], body)
        case Stripe():
            # Elements of other schemes (v0 is for tests) are ignored.
            parts = [
                part.strip().partition("=")[::2] for part in _header(request, "stripe-signature").split(",")
            ]
            stamps = [value for name, value in parts if name == "t"]
            signatures = [_unhex(value) for name, value in parts if name == "v1"]
            if len(stamps) != 1 or not signatures:
                raise _MalformedRequest("the header stripe-signature is not t=…,v1=…")
            return _Signed(signatures[:MAX_SIGNATURES], f"{stamps[0]}.".encode() + body, stamp=stamps[0])
        case Slack():
            stamp = _header(request, "x-slack-request-timestamp")
            given = _header(request, "x-slack-signature")
            return _Signed([_unhex(_after(given, "v0="))], f"v0:{stamp}:".encode() + body, stamp=stamp)
        case Standard():
            id_, stamp = _header(request, "webhook-id"), _header(request, "webhook-timestamp")
            given = [one.partition(",")[::2] for one in _header(request, "webhook-signature").split(" ")]
            signatures = [_unbase(value) for version, value in given if version == "v1"]
            if not signatures:
                raise _MalformedRequest("the header webhook-signature has no v1,…")
            return _Signed(signatures[:MAX_SIGNATURES], f"{id_}.{stamp}.".encode() + body, stamp=stamp)
        case Hmac():
            text = _after(_header(request, auth.header), auth.prefix)
            stamp = None if auth.timestamp_header is None else _header(request, auth.timestamp_header)
            raw = _unhex(text) if auth.encoding == "hex" else _unbase(text)
            return _Signed([raw], _fill(auth.template, stamp or "", body), auth.algorithm, stamp)
    raise TypeError(f"{type(auth).__name__} signs nothing")


def _fill(template: str, stamp: str, body: bytes) -> bytes:
    before, _, after = template.partition("{body}")
    return before.replace("{timestamp}", stamp).encode() + body + after.replace("{timestamp}", stamp).encode()


def _key(auth: Any, key: str) -> bytes:
    if isinstance(auth, Standard):
        try:
            return base64.b64decode(key.removeprefix("whsec_"), validate=True)
        except (binascii.Error, ValueError):
            # A secret of another form is used as it is.
            return key.encode()
    return key.encode()


def _verify_credentials(auth: Token | Basic, keys: Sequence[str], request: Request) -> VerificationResult:
    try:
        if isinstance(auth, Token):
            header = auth.header
            given = _header(request, header)
            if header == "authorization":
                given = _credentials(given, "bearer")
            wanted = list(keys)
        else:
            header = "authorization"
            pair = _unbase(_credentials(_header(request, header), "basic"))
            given = pair.decode("utf-8", "replace")
            wanted = [f"{auth.user}:{key}" for key in keys]
    except _MalformedRequest as unreadable:
        return VerificationResult(False, str(unreadable), refusal=unreadable.refusal)
    fits = False
    for one in wanted:
        # Hashes are compared: comparing texts of two lengths would reveal the length.
        fits |= hmac.compare_digest(_hash(one), _hash(given))
    return (
        VerificationResult(True)
        if fits
        else VerificationResult(False, f"what the header {header} holds is not right", refusal="proof_wrong")
    )


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _credentials(given: str, scheme: str) -> str:
    """What comes after the scheme of an Authorization header (RFC 9110, section 11.4)."""
    found, _, rest = given.partition(" ")
    if found.lower() != scheme:
        raise _MalformedRequest(f"the header authorization is not of the scheme {scheme}")
    return rest.strip()


def _header(request: Request, name: str) -> str:
    found = request.all(name)
    if len(found) != 1:
        raise _MalformedRequest(
            f"there is no header {name}" if not found else f"there are {len(found)} headers {name}"
        )
    return found[0]


def _after(text: str, prefix: str) -> str:
    if not text.startswith(prefix):
        raise _MalformedRequest(f"the signature does not begin with {prefix}")
    return text.removeprefix(prefix)


def _unhex(text: str) -> bytes:
    try:
        return binascii.unhexlify(text)
    except (binascii.Error, ValueError):
        raise _MalformedRequest("the signature is not hexadecimal") from None


def _unbase(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _MalformedRequest("this is not base64") from None


def _check_age(stamp: str, tolerance: float, now: float) -> None:
    if not _STAMP.fullmatch(stamp):
        raise _MalformedRequest("the timestamp is not a number of seconds since 1970")
    number = int(stamp)
    seconds = number / 1000 if number > _MILLISECONDS else float(number)
    age = now - seconds
    if abs(age) > tolerance:
        shown = f"{durations.format_duration(abs(round(age)))} {'old' if age > 0 else 'in the future'}"
        raise _WrongTime(
            f"the timestamp is {shown}; {durations.format_duration(tolerance)} are allowed. Are the clocks right?"
        )
