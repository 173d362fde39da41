"""The decoder takes frames, refuses anything else, and believes a length only within its limit."""

from __future__ import annotations

import pickle
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.workers.sandbox.protocol.frames import (
    MAX_DEPTH,
    Call,
    Failed,
    Finished,
    FrameBuffer,
    ProtocolError,
    Reply,
    ReplyError,
    Start,
    decode_guest,
    decode_host,
    encode_for_guest,
    encode_frame,
    pack,
)
from functory.workers.sandbox.protocol.job import Code, Job

FINISHED = {"t": "finished", "warnings": []}
numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def nested(depth: int):
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@given(json_values)
def test_any_json_value_travels_unchanged(value):
    assert decode_guest(pack(Finished(value=value, warnings=[]))).value == value
    assert decode_host(encode_for_guest(Reply(id=1, value=value))[4:]).value == value


@pytest.mark.parametrize(
    "message",
    [
        [],
        {},
        {"t": "unknown"},
        {"t": "log", "level": "info"},
        {"t": "log", "level": "info", "text": "x", "more": 1},
        {"t": "log", "level": 1, "text": "x"},
        {"t": "log", "level": "info", "text": "x" * 70_000},
        {"t": "call", "id": 0, "name": "f", "version": None, "args": [], "kwargs": {}},
        {"t": "call", "id": 1, "name": "f", "version": 0, "args": [], "kwargs": {}},
        {"t": "call", "id": 1, "name": "f" * 600, "version": None, "args": [], "kwargs": {}},
        {"t": "call", "id": 1, "name": "f", "version": None, "args": {}, "kwargs": {}},
        {"t": "call", "id": 1, "name": "f", "version": None, "args": [b"x"], "kwargs": {}},
        {"t": "gather", "id": 1, "ids": ["x"] * 10_001, "timeout": None},
        {"t": "gather", "id": 1, "ids": [], "timeout": -1.0},
        {"t": "gather", "id": 1, "ids": [], "timeout": float("nan")},
        {"t": "functions", "id": 1, "op": "drop", "arguments": {}},
        {"t": "reply", "id": 1},
        FINISHED | {"value": float("inf")},
        FINISHED | {"value": [1, {"a": float("nan")}]},
        FINISHED | {"value": {1: 2}},
        FINISHED | {"value": {"a": {None: 2}}},
        FINISHED | {"value": msgspec.msgpack.Ext(1, b"22")},
        FINISHED | {"value": msgspec.msgpack.Ext(-1, b"\0\0\0\1")},
        FINISHED | {"value": nested(MAX_DEPTH + 1)},
        FINISHED | {"value": 1, "kind": "pickle"},
        {"t": "failed", "kind": "code", "error": {"type": "E", "message": "m", "secret": 1}},
    ],
)
def test_what_is_not_exactly_a_frame_of_the_child_is_refused(message):
    with pytest.raises(ProtocolError):
        decode_guest(msgspec.msgpack.encode(message))


def test_nesting_up_to_the_limit_is_accepted_and_far_beyond_does_not_crash():
    assert decode_guest(msgspec.msgpack.encode(FINISHED | {"value": nested(MAX_DEPTH)}))
    head = msgspec.msgpack.encode(FINISHED | {"value": 1})[:-1]
    with pytest.raises(ProtocolError):
        decode_guest(head + b"\x91" * 200_000 + b"\x01")


@given(st.binary())
def test_bytes_are_a_frame_or_a_protocol_error_and_nothing_else(data):
    try:
        decode_guest(data)
    except ProtocolError:
        pass


def test_a_pickle_is_never_loaded():
    class Bomb:
        def __reduce__(self):
            return pytest.fail, ("unpickled",)

    with pytest.raises(ProtocolError):
        decode_guest(pickle.dumps(Bomb()))


@given(st.lists(st.binary(max_size=40)), st.integers(1, 7))
def test_frames_are_found_however_the_bytes_arrive(payloads, step):
    stream = b"".join(struct.pack("<I", len(payload)) + payload for payload in payloads)
    buffer = FrameBuffer(limit=40)
    found = []
    for start in range(0, len(stream), step):
        buffer.feed(stream[start : start + step])
        while (payload := buffer.pop()) is not None:
            found.append(payload)
    assert found == payloads


def test_a_length_above_the_limit_is_refused_before_its_bytes_come():
    buffer = FrameBuffer(limit=100)
    buffer.feed(struct.pack("<I", 101))
    with pytest.raises(ProtocolError, match="101 bytes; at most 100"):
        buffer.pop()


def test_integers_and_text_that_msgpack_cannot_hold_reach_the_child():
    value = {"a": [2**64, -(2**63) - 1, 5, True], "b": {"\ud800": "\udfff"}}
    code = Code(name="f", version=1, source="def f(): pass", dependencies={"g": "g@1"})
    job = Job(
        execution_id="e", function="f", version=1, root_id="r", entry="f@1", codes={"f@1": code}, input=value
    )
    received = decode_host(encode_for_guest(Start(job=job))[4:])
    assert isinstance(received, Start)
    assert received.job == job
    with pytest.raises(OverflowError):
        encode_frame(Call(id=1, name="f", version=None, args=[2**64], kwargs={}))


def test_errors_travel_with_their_fields():
    error = ReplyError(
        kind="ExecutionFailed", message="m", state="dead", execution_id="e", error={"type": "V"}
    )
    reply = decode_host(encode_for_guest(Reply(id=3, error=error))[4:])
    assert isinstance(reply, Reply) and reply.error == error
    failed = decode_guest(
        msgspec.msgpack.encode({"t": "failed", "kind": "setup", "error": {"type": "E", "message": "m"}})
    )
    assert isinstance(failed, Failed) and failed.error.frames == []
