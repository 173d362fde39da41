"""CloudEvents 1.0.2 from other systems: reads the three forms of the envelope, and stores each event once.

The forms are those of the HTTP binding (https://github.com/cloudevents/spec, tag v1.0.2, ``http-protocol-binding.md``)
and of the JSON format (``json-format.md``). An event of the same ``source`` and ``id`` is the same event (spec 3.1):
the second one writes nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_to_bytes

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import event
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid
from functory.engine.events import store as event_store
from functory.engine.events.lineage_tokens import LineageToken, find_cause
from functory.engine.serialization import json_codec, media_types
from functory.engine.telemetry import metrics

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
# The attribute of an event whose data was bytes: the stored data is their base64.
ENCODING = "datacontentencoding"
# The id that the sender gave to the event; in our envelope ``id`` is our own.
SENDER_ID = "functorysenderid"

MAX_BATCH = 1000
MAX_TEXT = 1024
MAX_EXTENSIONS = 50

_CORE = frozenset({"specversion", "id", "source", "type", "subject", "time", "datacontenttype"})
# Spec 3.1: lower-case letters and digits. It asks senders to use at most 20; up to 100 are accepted.
_NAME = re.compile(r"[a-z0-9]{1,100}")
# RFC 3339, section 5.6; the date's fields are checked when it is read.
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_MEDIA = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}( *;.{0,200})?")
_INT32 = range(-(2**31), 2**31)


@dataclass(frozen=True)
class IncomingEvent:
    """A checked event from outside. ``extensions`` are attributes that have no column of their own."""

    type: str
    source: str
    id: str
    subject: str | None
    time: datetime | None
    data: Any
    extensions: Mapping[str, Any]

    @property
    def dedup_key(self) -> str:
        """The key that identifies the event: one text for each pair of source and id."""
        return "ce:" + hashlib.sha256(json_codec.encode([self.source, self.id])).hexdigest()


def parse_structured(value: Any) -> IncomingEvent:
    """Return the event of a JSON object (JSON format 2 and 3.1). Raises :class:`Invalid`."""
    if not isinstance(value, dict):
        raise Invalid("this is not a CloudEvent", "it must be a JSON object")
    given = {name: item for name, item in value.items() if name not in ("data", "data_base64")}
    # A member that is null is one that is not there (JSON format 2.2).
    given = {name: item for name, item in given.items() if item is not None}
    data = value.get("data")
    raw = value.get("data_base64")
    if raw is None:
        return _make(given, data, binary=False)
    if data is not None:
        raise Invalid("the event has data and data_base64", "it may have only one of them")
    try:
        body = base64.b64decode(raw if isinstance(raw, str) else "?", validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("data_base64 is not base64", "RFC 4648, section 4") from None
    return _of_bytes(given, body)


def parse_binary(headers: Sequence[tuple[str, str]], body: bytes) -> IncomingEvent:
    """Return the event of a request whose headers (lower-case names) are its attributes (HTTP binding 3.1). Raises
    :class:`Invalid`.
    """
    given: dict[str, Any] = {}
    for name, value in headers:
        attribute = "datacontenttype" if name == "content-type" else name.removeprefix("ce-")
        if attribute == name:
            continue
        if attribute in given:
            raise Invalid(f"the header {name} came twice", "each attribute has one value")
        given[attribute] = value if name == "content-type" else _unescape(name, value)
    if "specversion" not in given:
        raise Invalid(
            "this is not a CloudEvent",
            f"there is no header ce-specversion, and the content type is neither {STRUCTURED} nor {BATCH}",
        )
    return _of_bytes(given, body)


class Inbox:
    """Writes events from outside, each once."""

    def __init__(self, database: Database, max_bytes: int) -> None:
        self._database = database
        self._max_bytes = max_bytes

    def check(self, one: IncomingEvent) -> None:
        """Refuse an event whose data is too large. Raises :class:`Invalid`."""
        event_store.check_data(one.data, self._max_bytes)

    def ingest(
        self, incoming: Sequence[IncomingEvent], lineage: Sequence[LineageToken | None] = ()
    ) -> list[tuple[str, bool]]:
        """Write all events of ``incoming`` in one transaction. Returns the id of each, and True if it was stored
        before.

        ``lineage`` has for each event the execution that sent it, where that is known.
        """
        for one in incoming:
            self.check(one)
        with metrics.transaction("ingest"):
            return self._database.group_commit(lambda tx: _ingest(tx, incoming, lineage))


def _ingest(
    tx: Tx, incoming: Sequence[IncomingEvent], lineage: Sequence[LineageToken | None]
) -> list[tuple[str, bool]]:
    first: dict[str, IncomingEvent] = {}
    tokens: dict[str, LineageToken] = {}
    for one, token in itertools.zip_longest(incoming, lineage):
        first.setdefault(one.dedup_key, one)
        if token is not None:
            tokens.setdefault(one.dedup_key, token)
    causes = {token: find_cause(tx, token) for token in sorted(set(tokens.values()))}
    # Their ids have the order of the batch.
    rows = [
        event_store.record(
            tx,
            one.type,
            one.subject,
            one.data,
            source=one.source,
            cause=causes[tokens[key]] if key in tokens else None,
            dedup_key=key,
            time=one.time,
            extensions=one.extensions,
        )
        for key, one in first.items()
    ]
    # In sorted order, so that two batches with the same events do not wait for each other.
    written = event_store.append_new(tx, sorted(rows, key=lambda row: row["dedup_key"]))
    ids = {row["dedup_key"]: row["id"] for row in rows if row["id"] in written}
    fresh = set(ids)
    old = sorted(set(first) - fresh)
    if old:
        ids |= tx.pairs(sa.select(event.c.dedup_key, event.c.id).where(event.c.dedup_key.in_(old)))
    answers: list[tuple[str, bool]] = []
    for one in incoming:
        answers.append((str(ids[one.dedup_key]), one.dedup_key not in fresh))
        # A second copy of the event in this batch counts as known.
        fresh.discard(one.dedup_key)
    return answers


def _of_bytes(given: dict[str, Any], body: bytes) -> IncomingEvent:
    """Return an event whose data came as bytes. Its content type decides: JSON, text, or bytes that stay bytes."""
    content_type = given.get("datacontenttype")
    try:
        kind = media_types.media_type(content_type) if isinstance(content_type, str) else ""
    except media_types.UnsupportedMediaType:
        kind = ""
    if not body:
        return _make(given, None, binary=False)
    if media_types.is_json(kind):
        return _make(given, media_types.read_json(body), binary=False)
    if kind.startswith("text/"):
        return _make(given, media_types.read_text(body), binary=False)
    return _make(given, base64.b64encode(body).decode(), binary=True)


def _make(given: dict[str, Any], data: Any, *, binary: bool) -> IncomingEvent:
    if given.get("specversion") != "1.0":
        raise Invalid(f"wrong specversion {_shown(given.get('specversion'))}", "it must be 1.0")
    source = _text(given, "source")
    if source.startswith("/functory/") or source == "/functory":
        raise Invalid(f"the source {source!r} is reserved", "sources under /functory are the engine's own")
    type_ = _text(given, "type")
    event_store.check_type(type_)
    subject = given.get("subject")
    event_store.check_subject(subject)
    extensions = {name: _extension(name, value) for name, value in given.items() if name not in _CORE}
    if len(extensions) > MAX_EXTENSIONS:
        raise Invalid("the event has too many attributes", f"at most {MAX_EXTENSIONS} extensions are taken")
    content_type = given.get("datacontenttype")
    if content_type is not None:
        if not isinstance(content_type, str) or not _MEDIA.fullmatch(content_type):
            raise Invalid(
                f"wrong datacontenttype {_shown(content_type)}",
                "it must be a media type, for example application/json",
            )
        if content_type.lower() != "application/json":
            extensions["datacontenttype"] = content_type
    if binary:
        extensions[ENCODING] = "base64"
    id_ = _text(given, "id")
    extensions[SENDER_ID] = id_
    return IncomingEvent(type_, source, id_, subject, _time(given.get("time")), data, extensions)


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT or _unprintable(value):
        raise Invalid(
            f"wrong {name} {_shown(value)}" if value is not None else f"the event has no {name}",
            f"it must be a text of 1 to {MAX_TEXT} characters without control characters",
        )
    return value


def _extension(name: str, value: Any) -> str | int | bool:
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"wrong attribute name {name[:100]!r}", "it may have lower-case letters and digits only"
        )
    if name.startswith("functory"):
        raise Invalid(f"the attribute {name} is reserved", "the engine sets the lineage itself")
    if name == "data":
        raise Invalid("wrong attribute data", "that name belongs to the event's data")
    if isinstance(value, bool) or (isinstance(value, int) and value in _INT32):
        return value
    if not isinstance(value, str) or len(value) > MAX_TEXT or _unprintable(value):
        raise Invalid(
            f"wrong attribute {name}",
            f"it must be a text of at most {MAX_TEXT} characters without control characters, a boolean "
            "or a 32-bit integer",
        )
    return value


def _unprintable(text: str) -> bool:
    """Return True when a text holds what attributes may not hold (spec 3.1, String): control characters, lone
    surrogates.
    """
    return any(c < " " or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\udfff" for c in text)


def _time(given: Any) -> datetime | None:
    if given is None:
        return None
    found = _TIME.fullmatch(given) if isinstance(given, str) else None
    if found is not None:
        day, clock, fraction, zone = found.groups()
        try:
            # Python keeps microseconds.
            return datetime.fromisoformat(
                f"{day}T{clock}{(fraction or '')[:7]}{'+00:00' if zone in 'Zz' else zone}"
            ).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise Invalid(
        f"wrong time {_shown(given)}", "it must have the form of RFC 3339, for example 2026-01-31T12:00:00Z"
    )


def _unescape(name: str, value: str) -> str:
    """Return a header's value as an attribute (HTTP binding 3.1.3.2): quotes taken off, then percent-encoded UTF-8."""
    if len(value) >= 2 and value[0] == value[-1] == '"':
        value = re.sub(r"\\(.)", r"\1", value[1:-1])
    try:
        return unquote_to_bytes(value.encode("latin-1")).decode()
    except (UnicodeDecodeError, UnicodeEncodeError):
        raise Invalid(
            f"the header {name} is not UTF-8", "characters other than ASCII are percent-encoded"
        ) from None


def _shown(value: Any) -> str:
    return repr(value)[:100]
