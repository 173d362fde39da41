"""Lineage that leaves the engine and comes back: signed tokens in the headers of HTTP requests.

A request that a running function makes carries a token of its execution. A webhook or ``POST /events`` that gets it
back writes its event with that execution as the cause, so that depth, budget and the guards against loops apply. The
token is in a header of its own, and in ``tracestate`` beside a ``traceparent`` (W3C Trace Context,
https://www.w3.org/TR/trace-context/): services that pass a trace on pass it on, too.

A token holds ids, a depth and its expiry, signed with HMAC-SHA256 by a key that is derived from the deployment's. It
proves nothing but what caused a request, and gives no access: a request needs its usual credentials. A token that is
forged, expired or of another deployment is ignored and counted.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa
import structlog

from functory.engine.database.schema import Id, execution
from functory.engine.database.transaction import Tx
from functory.engine.errors import FunctoryError
from functory.engine.events.causation import CAUSE_COLUMNS, Cause, CausingExecution
from functory.engine.telemetry import metrics, trace_context, traces

log = structlog.get_logger("functory.lineage")

HEADER = "functory-lineage"
TRACESTATE = "tracestate"
# Our entry of a tracestate.
MEMBER = "functory"
# A request that comes back later than this begins a tree of its own: no loop that is so slow does harm.
VALID_FOR = timedelta(days=1)
# Tokens of one request that are verified; a request of ours has two copies of one.
MAX_TOKENS = 8

_PURPOSE = b"functory lineage 1"
_TOKEN = re.compile(
    r"(?P<signed>v1\.(?P<deployment>[0-9a-f]{8})\.(?P<root>[0-9a-f]{32})\.(?P<execution>[0-9a-f]{32})"
    r"\.(?P<depth>[0-9]{1,6})\.(?P<expires>[0-9]{1,12}))\.(?P<mac>[A-Za-z0-9_-]{43})",
    re.ASCII,
)
# Built once, because it runs with each request that carries a token. The lock keeps the tree until the commit.
_EXECUTION = (
    sa.select(*CAUSE_COLUMNS)
    .where(execution.c.id == sa.bindparam("id", type_=Id))
    .with_for_update(read=True, key_share=True)
)


@dataclass(frozen=True, order=True)
class LineageToken:
    """A verified token: the execution that made a request, its root and its depth."""

    root_id: str
    execution_id: str
    depth: int


class LineageTokens:
    """Issues and verifies the tokens of one deployment. Thread-safe.

    ``derive_keys`` returns the deployment's keys for a purpose (``Secrets.derive_keys``): the first signs, each of them
    verifies. Where it raises an error because there is none, there are no tokens.
    """

    def __init__(self, derive_keys: Callable[[bytes], Sequence[bytes]]) -> None:
        self._derive_keys = derive_keys
        self._warned = False

    def headers(self, row: CausingExecution, now: datetime) -> dict[str, str]:
        """Return the headers for requests of the execution ``row``; none without a key."""
        keys = self._load_keys()
        if not keys:
            return {}
        key = keys[0]
        root, own = (UUID(id_).hex for id_ in (row.root_id, row.id))
        expires = int((now + VALID_FOR).timestamp())
        signed = f"v1.{_deployment(key)}.{root}.{own}.{row.depth}.{expires}"
        token = f"{signed}.{_mac(key, signed)}"
        context = traces.context_of_attempt(row.root_id, row.id, row.fence).header()
        return {HEADER: token, trace_context.HEADER: context, TRACESTATE: f"{MEMBER}={token}"}

    def verify(self, headers: Iterable[tuple[str, str]], now: datetime) -> LineageToken | None:
        """Return the token of a request's headers (lower-case names); the deepest one of several, None without one."""
        given = list(itertools.islice(_tokens(headers), MAX_TOKENS))
        keys = self._load_keys() if given else ()
        if not keys:
            return None
        found: list[LineageToken] = []
        for text in dict.fromkeys(given):
            result, token = _verify(keys, text, now)
            if token is None:
                metrics.lineage_tokens.labels(result).inc()
            else:
                found.append(token)
        return max(found, key=lambda token: token.depth, default=None)

    def _load_keys(self) -> Sequence[bytes]:
        try:
            return self._derive_keys(_PURPOSE)
        except FunctoryError as error:
            if not self._warned:
                self._warned = True
                log.warning("requests of functions carry no lineage", why=error.what, advice=error.try_)
            return ()


def find_cause(tx: Tx, token: LineageToken | None) -> Cause | None:
    """Return the execution that a token names as a cause, and keep its tree until the commit; None without one.

    The chain is read from its row. A token of a tree that was deleted meanwhile is counted, and has no effect.
    """
    if token is None:
        return None
    row = tx.one(CausingExecution, _EXECUTION, {"id": token.execution_id})
    known = row is not None and (row.root_id, row.depth) == (token.root_id, token.depth)
    metrics.lineage_tokens.labels("continued" if known else "unknown").inc()
    return Cause.from_row(row) if row is not None and known else None


def _tokens(headers: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, value in headers:
        parts = [part.strip() for part in value.split(",")] if name in (HEADER, TRACESTATE) else []
        if name == TRACESTATE:
            members = (part.partition("=") for part in parts)
            parts = [value for key, _, value in members if key == MEMBER]
        yield from filter(None, parts)


def _verify(keys: Sequence[bytes], text: str, now: datetime) -> tuple[str, LineageToken | None]:
    """Return a token, or the reason why it is none."""
    parts = _TOKEN.fullmatch(text)
    if parts is None:
        return "forged", None
    key = next((one for one in keys if parts["deployment"] == _deployment(one)), None)
    if key is None:
        return "foreign", None
    if not hmac.compare_digest(parts["mac"], _mac(key, parts["signed"])):
        return "forged", None
    if int(parts["expires"]) < now.timestamp():
        return "stale", None
    root, own = (str(UUID(parts[name])) for name in ("root", "execution"))
    return "continued", LineageToken(root, own, int(parts["depth"]))


def _deployment(key: bytes) -> str:
    """Return the id of the deployment that has this key. It discloses nothing of the key."""
    return hmac.new(key, b"deployment", hashlib.sha256).hexdigest()[:8]


def _mac(key: bytes, signed: str) -> str:
    digest = hmac.new(key, signed.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
