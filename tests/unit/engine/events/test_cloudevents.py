"""CloudEvents from outside: the three forms as the specification and its own package write them, and what is refused.

The minimal and the full event have the shape of the conformance suite's (``cloudevents/conformance``, HTTP binding).
"""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cloudevents.core.bindings.http import to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.errors import Invalid
from functory.engine.events import cloudevents, envelope
from functory.engine.events.cloudevents import ENCODING, SENDER_ID, IncomingEvent

MINIMAL = {
    "specversion": "1.0",
    "id": "xyz",
    "source": "http://example.com/",
    "type": "com.example.someevent",
}
FULL = MINIMAL | {
    "subject": "sub",
    "time": "2018-04-05T03:56:24Z",
    "datacontenttype": "application/json",
    "dataschema": "http://example.com/schema",
    "comexampleextension": "value",
    "othercount": 5,
    "flag": True,
    "data": {"world": "hello"},
}


def headers_of(attributes: dict[str, Any], content_type: str | None = None) -> list[tuple[str, str]]:
    made = [(f"ce-{name}", str(value)) for name, value in attributes.items()]
    return made if content_type is None else [*made, ("content-type", content_type)]


def test_a_minimal_event_in_every_form() -> None:
    wanted = IncomingEvent(
        "com.example.someevent", "http://example.com/", "xyz", None, None, None, {SENDER_ID: "xyz"}
    )
    assert cloudevents.parse_structured(MINIMAL) == wanted
    assert cloudevents.parse_binary(headers_of(MINIMAL), b"") == wanted


def test_a_full_event_keeps_all_its_attributes() -> None:
    found = cloudevents.parse_structured(FULL)
    assert (found.subject, found.data) == ("sub", {"world": "hello"})
    assert found.time == datetime(2018, 4, 5, 3, 56, 24, tzinfo=UTC)
    assert found.extensions == {
        "dataschema": "http://example.com/schema",
        "comexampleextension": "value",
        "othercount": 5,
        "flag": True,
        SENDER_ID: "xyz",
    }


def test_the_envelope_of_what_was_taken_in_is_valid_for_the_standards_own_package() -> None:
    found = cloudevents.parse_structured(FULL | {"datacontenttype": "application/vnd.example+json"})
    row = {
        "id": "01998c5e-0000-7000-8000-000000000000",
        "type": found.type,
        "source": found.source,
        "subject": found.subject,
        "time": found.time,
        "data": found.data,
        "extensions": dict(found.extensions),
        "root_id": "01998c5e-0000-7000-8000-000000000000",
        "depth": 0,
        "cause_execution_id": None,
    }
    written = envelope.of_mapping(row | {"chain": [], "state": "pending"})
    attributes = {name: value for name, value in written.items() if name != "data"}
    event = CloudEvent(attributes=attributes | {"time": found.time}, data=written["data"])
    assert event.get_datacontenttype() == "application/vnd.example+json"
    assert event.get_extension("comexampleextension") == "value"
    assert event.get_id() == row["id"] and event.get_extension(SENDER_ID) == "xyz"


WORDS = st.text(st.characters(exclude_categories=("C",)), min_size=1, max_size=20)


@given(
    id_=WORDS,
    source=WORDS,
    subject=st.none() | WORDS,
    time=st.none() | st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    extension=WORDS,
    data=st.dictionaries(WORDS, st.integers(-(2**53), 2**53) | st.text(max_size=10), max_size=3),
)
def test_what_the_standards_own_package_sends_arrives(
    id_: str, source: str, subject: str | None, time: datetime | None, extension: str, data: dict[str, Any]
) -> None:
    attributes: dict[str, Any] = {
        "id": id_,
        "source": source,
        "type": "order.created",
        "specversion": "1.0",
        "datacontenttype": "application/json",
        "extension1": extension,
    }
    attributes |= {} if subject is None else {"subject": subject}
    attributes |= {} if time is None else {"time": time}
    try:
        event = CloudEvent(attributes=attributes, data=data)
    except Exception:  # what its sender could not make is not sent
        return
    sent = to_binary(event, JSONFormat())
    binary = cloudevents.parse_binary(
        [(name.lower(), value) for name, value in sent.headers.items()], sent.body
    )
    structured = cloudevents.parse_structured(json.loads(to_structured(event, JSONFormat()).body))
    assert binary == structured
    assert binary.dedup_key == structured.dedup_key
    assert (binary.id, binary.source, binary.subject) == (id_, source, subject)
    # Without a time its package says the present.
    assert time is None or binary.time == time
    assert binary.data == data and binary.extensions["extension1"] == extension


@pytest.mark.parametrize(
    ("content_type", "body", "data", "extensions"),
    [
        ("application/json", b'{"a": 1}', {"a": 1}, {}),
        (
            "application/json; charset=utf-8",
            b"[]",
            [],
            {"datacontenttype": "application/json; charset=utf-8"},
        ),
        ("application/x+json", b'"a"', "a", {"datacontenttype": "application/x+json"}),
        ("text/plain", "grüße".encode(), "grüße", {"datacontenttype": "text/plain"}),
        ("text/xml; charset=utf-8", b"<a/>", "<a/>", {"datacontenttype": "text/xml; charset=utf-8"}),
        (
            "text/plain; charset=latin-1",
            b"\xe9",
            "6Q==",
            {"datacontenttype": "text/plain; charset=latin-1", ENCODING: "base64"},
        ),
        ("image/png", b"\x89PNG", "iVBORw==", {"datacontenttype": "image/png", ENCODING: "base64"}),
        (None, b"\x00", "AA==", {ENCODING: "base64"}),
        ("application/json", b"", None, {}),
    ],
)
def test_data_by_its_content_type_is_the_same_in_binary_mode_and_in_base64(
    content_type: str | None, body: bytes, data: Any, extensions: dict[str, Any]
) -> None:
    found = cloudevents.parse_binary(headers_of(MINIMAL, content_type), body)
    assert found.data == data and found.extensions == extensions | {SENDER_ID: "xyz"}
    if body:
        attributes = MINIMAL if content_type is None else MINIMAL | {"datacontenttype": content_type}
        written = attributes | {"data_base64": base64.b64encode(body).decode()}
        assert cloudevents.parse_structured(written) == found


def test_text_in_structured_mode_stays_text() -> None:
    found = cloudevents.parse_structured(
        MINIMAL | {"datacontenttype": "text/xml", "data": '<much wow="xml"/>'}
    )
    assert found.data == '<much wow="xml"/>' and found.extensions["datacontenttype"] == "text/xml"


@pytest.mark.parametrize(
    ("value", "attribute"),
    [
        ("plain", "plain"),
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ("100%25", "100%"),
        ('"quoted \\"text\\""', 'quoted "text"'),
        ("100%", "100%"),
        ("%zz", "%zz"),
        ("", ""),
    ],
)
def test_headers_are_percent_encoded_utf8(value: str, attribute: str) -> None:
    found = cloudevents.parse_binary([*headers_of(MINIMAL), ("ce-note", value)], b"")
    assert found.extensions["note"] == attribute


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31t12:00:00.5z", datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-31T12:00:00.123456789+02:00", datetime(2026, 1, 31, 10, 0, 0, 123_456, tzinfo=UTC)),
        ("2026-01-31T12:00:00-05:30", datetime(2026, 1, 31, 17, 30, tzinfo=UTC)),
    ],
)
def test_times(text: str, time: datetime) -> None:
    found = cloudevents.parse_structured(MINIMAL | {"time": text}).time
    assert found == time and found.utcoffset() == UTC.utcoffset(None) == timedelta(0)


def test_a_member_that_is_null_is_not_there() -> None:
    assert cloudevents.parse_structured(MINIMAL | {"subject": None, "time": None, "note": None}) == (
        cloudevents.parse_structured(MINIMAL)
    )


def test_the_same_source_and_id_are_the_same_event_and_no_other_pair_is() -> None:
    key = cloudevents.parse_structured(MINIMAL).dedup_key
    assert cloudevents.parse_structured(MINIMAL | {"type": "other", "data": 5}).dedup_key == key
    pairs = [("a", "bc"), ("ab", "c"), ('a"', "b"), ("a", '"b'), ("a,b", "c"), ("a", "b,c")]
    keys = {cloudevents.parse_structured(MINIMAL | {"source": s, "id": i}).dedup_key for s, i in pairs}
    assert len(keys) == len(pairs)


WRONG: dict[str, tuple[Any, str]] = {
    "no object": ([], "JSON object"),
    "an old specversion": (MINIMAL | {"specversion": "0.3"}, "specversion '0.3'"),
    "a number as specversion": (MINIMAL | {"specversion": 1.0}, "specversion"),
    "no specversion": ({k: v for k, v in MINIMAL.items() if k != "specversion"}, "specversion"),
    "no id": ({k: v for k, v in MINIMAL.items() if k != "id"}, "no id"),
    "an empty id": (MINIMAL | {"id": ""}, "wrong id"),
    "a number as id": (MINIMAL | {"id": 5}, "wrong id"),
    "no source": ({k: v for k, v in MINIMAL.items() if k != "source"}, "no source"),
    "a long source": (MINIMAL | {"source": "x" * 1025}, "wrong source"),
    "a NUL": (MINIMAL | {"source": "a\x00"}, "wrong source"),
    "a lone surrogate": (MINIMAL | {"id": "\ud800"}, "wrong id"),
    "our source": (MINIMAL | {"source": "/functory/functions/parse"}, "reserved"),
    "no type": ({k: v for k, v in MINIMAL.items() if k != "type"}, "no type"),
    "our type": (MINIMAL | {"type": "execution.failed"}, "reserved"),
    "a type that is none": (MINIMAL | {"type": "a b"}, "wrong event type"),
    "an empty subject": (MINIMAL | {"subject": ""}, "subject"),
    "a subject that is none": (MINIMAL | {"subject": 5}, "subject"),
    "a time that is none": (MINIMAL | {"time": "yesterday"}, "RFC 3339"),
    "a time without a zone": (MINIMAL | {"time": "2026-01-31T12:00:00"}, "RFC 3339"),
    "a day that is none": (MINIMAL | {"time": "2026-02-30T12:00:00Z"}, "RFC 3339"),
    "a leap second": (MINIMAL | {"time": "2016-12-31T23:59:60Z"}, "RFC 3339"),
    "before all time": (MINIMAL | {"time": "0001-01-01T00:00:00+14:00"}, "RFC 3339"),
    "a time that is a number": (MINIMAL | {"time": 5}, "RFC 3339"),
    "a media type that is none": (MINIMAL | {"datacontenttype": "json"}, "media type"),
    "an attribute with a capital": (MINIMAL | {"myExtension": "x"}, "attribute name"),
    "an attribute with a line": (MINIMAL | {"my_extension": "x"}, "attribute name"),
    "an attribute without a name": (MINIMAL | {"": "x"}, "attribute name"),
    "an attribute that is an object": (MINIMAL | {"note": {}}, "wrong attribute note"),
    "an attribute that is a fraction": (MINIMAL | {"note": 1.5}, "wrong attribute note"),
    "an attribute beyond 32 bits": (MINIMAL | {"note": 2**31}, "wrong attribute note"),
    "a long attribute": (MINIMAL | {"note": "x" * 1025}, "wrong attribute note"),
    "lineage of its own": (MINIMAL | {"functoryroot": "x"}, "reserved"),
    "many attributes": (MINIMAL | {f"a{n}": "x" for n in range(51)}, "too many"),
    "data twice": (MINIMAL | {"data": 1, "data_base64": "AA=="}, "one of them"),
    "no base64": (MINIMAL | {"data_base64": "?"}, "base64"),
    "a number as base64": (MINIMAL | {"data_base64": 5}, "base64"),
}


@pytest.mark.parametrize("name", WRONG)
def test_events_that_are_none(name: str) -> None:
    value, why = WRONG[name]
    with pytest.raises(Invalid) as refused:
        cloudevents.parse_structured(value)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("headers", "body", "why"),
    [
        ([], b"{}", "no header ce-specversion"),
        ([*headers_of(MINIMAL), ("ce-id", "other")], b"", "came twice"),
        ([*headers_of(MINIMAL), ("ce-note", "%ff")], b"", "not UTF-8"),
        ([*headers_of(MINIMAL), ("ce-data", "x")], b"", "attribute data"),
        ([*headers_of(MINIMAL), ("ce-datacontenttype", "a/b"), ("content-type", "a/b")], b"", "came twice"),
        (headers_of(MINIMAL, "application/json"), b"{", "not JSON"),
        (headers_of(MINIMAL, "application/json"), b"[" * 101 + b"]" * 101, "too deeply"),
        (headers_of(MINIMAL, "text/plain"), b"\xff", "not UTF-8"),
    ],
)
def test_binary_requests_that_are_none(headers: list[tuple[str, str]], body: bytes, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        cloudevents.parse_binary(headers, body)
    assert why in str(refused.value)
