"""What a message shows of its origin: the envelope of an event, and the headers of a request."""

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.database.clock import ManualClock
from functory.engine.events.envelope import envelope
from functory.engine.serialization import json_codec
from functory.triggers.sources.queues.message import Message
from functory.triggers.sources.queues.message_lineage import MessageOrigin, read_origin
from tests.support.event_rows import event_row

ID = str(uuid.uuid4())


def published(depth: int, **extensions: Any) -> bytes:
    """The message of an event, as an installation publishes it."""
    row = event_row(ID, depth=depth, type="a.b", time=ManualClock().now(), data={}, extensions=extensions)
    return json_codec.encode(envelope(row))


@given(st.integers(0, 10**6), st.sampled_from([None, "application/cloudevents+json", "text/plain", "x/y"]))
def test_an_event_of_an_installation_is_known_by_its_envelope_whatever_carries_it(
    depth: int, content_type: str | None
) -> None:
    assert read_origin(Message(published(depth), content_type)) == MessageOrigin(ID, depth + 1)


@pytest.mark.parametrize("separator", [":", "_"])
def test_the_envelope_may_be_in_headers(separator: str) -> None:
    members = {"id": ID, "functoryroot": ID, "functorydepth": "4", "tracestate": "functory=t"}
    headers = {f"cloudEvents{separator}{name}": value for name, value in members.items()}
    assert read_origin(Message(b"x", headers=headers)) == MessageOrigin(
        ID, 5, (("tracestate", "functory=t"),)
    )


def test_a_token_is_in_headers_or_in_the_attributes_of_a_cloud_event() -> None:
    headers = {"Functory-Lineage": "a", "TraceState": "functory=b", "other": "c"}
    assert read_origin(Message(b"{}", headers=headers)).headers == (
        ("functory-lineage", "a"),
        ("tracestate", "functory=b"),
    )
    assert read_origin(Message(published(0, tracestate="functory=d"))).headers == (
        ("tracestate", "functory=d"),
    )


def test_a_message_of_another_program_has_no_origin() -> None:
    event = {"specversion": "1.0", "id": ID, "source": "/shop", "type": "a.b", "functorydepth": 3}
    assert read_origin(Message(json_codec.encode(event))) == MessageOrigin()


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["id", "functoryroot", "functorydepth", "tracestate", "functory-lineage", "specversion"]
)


@given(st.dictionaries(NAMES, VALUES), st.dictionaries(NAMES, VALUES), st.binary(max_size=5))
def test_nothing_that_a_sender_writes_is_more_than_an_id_and_a_depth(
    body: dict[str, Any], headers: dict[str, Any], end: bytes
) -> None:
    for raw in (json_codec.encode(body), json_codec.encode(body) + end, end):
        found = read_origin(Message(raw, headers=headers))
        assert found.event_id is None or str(uuid.UUID(found.event_id)) == found.event_id
        assert found.depth >= 0
        assert all(isinstance(value, str) for _, value in found.headers)
