"""Checks the promises of the frame decoder for any bytes; ``tests.fuzz.frames`` looks for bytes that break one.

``check`` is given a stream as a child may write it to its socket: any bytes at all. It raises
``AssertionError``, or lets through what the decoder raised, when one of these does not hold:

- cut anywhere, the stream gives the same frames, and then the same refusal or the same wait for more;
- each payload is a frame or a ``ProtocolError``, and so is the whole input taken as one payload;
- a frame holds JSON only, and its own encoding decodes to an equal frame.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator
from typing import Any

import msgspec

from functory.workers.sandbox.protocol.frames import (
    MAX_DEPTH,
    Call,
    CodeFrame,
    Described,
    Emit,
    EmitMany,
    ErrorInfo,
    Failed,
    FileWritten,
    Finished,
    FrameBuffer,
    FromGuest,
    Functions,
    Gather,
    GetSecret,
    Llm,
    LogRecord,
    Memory,
    NewEvent,
    ProtocolError,
    SpanClosed,
    SpanError,
    SpanOpened,
    StateDelete,
    StateGet,
    StateSet,
    Submit,
    TaskStarted,
    Tools,
    decode_guest,
    pack,
)

LIMIT = 4096  # bytes of a frame here: small, so that chance finds lengths above it

VALUES: tuple[Any, ...] = (None, True, -1, 2**64 - 1, 1.5, "", "żółw", [], {}, [1, [2, {"a": [None]}]])

FRAMES: tuple[FromGuest, ...] = (
    Call(id=1, name="f", version=None, args=list(VALUES), kwargs={"a": 1}),
    Submit(id=2, name="f", version=3, args=[], kwargs={}),
    Gather(id=3, ids=["a", "b"], timeout=1.5),
    Gather(id=4, ids=[], timeout=None),
    Emit(id=5, type="a.b", data={"x": list(VALUES)}, subject="s"),
    EmitMany(id=5, events=[NewEvent(type="a.b", data={"x": list(VALUES)}, subject="s"), NewEvent(type="c")]),
    GetSecret(id=6, name="token"),
    StateGet(id=7, key="k"),
    StateSet(id=8, key="k", value=[1, "2"], expected_version=0),
    StateDelete(id=9, key="k"),
    Functions(id=10, op="save", arguments={"source": "def f(): pass"}),
    TaskStarted(),
    Memory(id=16, op="add", arguments={"text": "Ada pays late", "scope": "shared", "importance": 0.5}),
    Tools(id=17, op="search", arguments={"query": "late invoices", "k": 12}),
    Llm(id=2**53, op="chat", arguments={"messages": [{"role": "user", "content": "x"}]}),
    LogRecord(level="info", text="\x1b[31m\0\n"),
    FileWritten(path="/data/\xff\n"),
    SpanOpened(seq=1, parent=None, code="f@1", input={"a": 1}, truncated=False, offset=0.0),
    SpanClosed(seq=1, output=None, error=SpanError(type="E", message="m"), truncated=True, offset=2.5),
    Finished(value=list(VALUES), warnings=["w"]),
    Failed(
        kind="code",
        error=ErrorInfo(
            type="E",
            message="m",
            traceback="t",
            frames=[CodeFrame(function="f", version=1, line=2, code="x")],
        ),
    ),
    Failed(kind="setup", error=ErrorInfo(type="E", message="")),
    Failed(kind="input", error=ErrorInfo(type="E", message="")),
    Failed(kind="result", error=ErrorInfo(type="E", message="")),
    Described(input_schema={"type": "object"}, output_schema=None, problems=["p"], final=True),
)
"""A valid frame of every type that a child may send."""


def framed(payload: bytes) -> bytes:
    """Return a payload as it goes over the socket."""
    return struct.pack("<I", len(payload)) + payload


def check(data: bytes) -> None:
    """Raise when ``data`` makes the decoder break a promise; see the module's docstring."""
    judge(data)
    whole = read(data, [len(data)])
    # Where it is cut comes from the data, so that a finding can be repeated from the data alone.
    chance = random.Random(data)
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(8)))
    assert read(data, cuts) == whole, f"cut at {cuts}, the stream reads differently"
    for payload in whole[0]:
        judge(payload)


def read(data: bytes, cuts: list[int]) -> tuple[list[bytes], str | None]:
    """Return the payloads of a stream that comes in these pieces, and the refusal that it ends with."""
    buffer = FrameBuffer(LIMIT)
    found: list[bytes] = []
    start = 0
    for end in [*cuts, len(data)]:
        buffer.feed(data[start:end])
        start = end
        try:
            while (payload := buffer.pop()) is not None:
                assert len(payload) <= LIMIT, "a frame above the limit"
                found.append(payload)
        except ProtocolError as refused:
            return found, str(refused)
    return found, None


def judge(payload: bytes) -> FromGuest | None:
    """Return the frame of ``payload``, None when it is refused; AssertionError when it is neither."""
    try:
        frame = decode_guest(payload)
    except ProtocolError:
        return None
    for field in frame.__struct_fields__:
        assert_json(msgspec.to_builtins(getattr(frame, field)))
    encoded = pack(frame)
    again = decode_guest(encoded)
    assert type(again) is type(frame) and again == frame, "encoded and decoded it is another frame"
    assert pack(again) == encoded, "encoded again it is other bytes"
    return frame


def assert_json(value: Any, depth: int = 0) -> None:
    """Fail unless ``value`` is what JSON text can hold, nested at most as deep as is allowed."""
    assert depth <= MAX_DEPTH, "nested too deep"
    if isinstance(value, dict):
        assert all(type(key) is str for key in value), "a key that is not text"
        for item in value.values():
            assert_json(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            assert_json(item, depth + 1)
    elif isinstance(value, str):
        value.encode()
    elif isinstance(value, float):
        assert math.isfinite(value), "a number that is not finite"
    else:
        assert value is None or type(value) in (bool, int), f"a value of {type(value)}"


def seeds() -> list[bytes]:
    """Return the inputs to begin with: every frame alone as a payload and as a stream, and two streams of many."""
    payloads = [pack(frame) for frame in FRAMES]
    streams = [framed(payload) for payload in payloads]
    return [*payloads, *streams, b"".join(streams), b"".join(reversed(streams))]


# Bytes that mean something in msgpack (its spec's table of formats), or to UTF-8, or to a length.
_SIGNIFICANT = bytes([0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, *range(0xC0, 0xE0), 0x00, 0x7F, 0xFF])


def mutations(seed: int, rounds: int) -> Iterator[bytes]:
    """Return ``rounds`` random changes of the first inputs; the same ones for the same ``seed``."""
    chance = random.Random(seed)
    pool = seeds()
    for _ in range(rounds):
        data = bytearray(chance.choice(pool))
        for _ in range(1 + chance.randrange(4)):
            _mutate(data, chance, pool)
        yield bytes(data)


def _mutate(data: bytearray, chance: random.Random, pool: list[bytes]) -> None:
    place = chance.randrange(len(data) + 1)
    end = min(len(data), place + 1 + chance.randrange(8))
    match chance.randrange(7):
        case 0:
            data[place:end] = chance.randbytes(end - place)
        case 1:
            data[place : place + 1] = bytes([chance.choice(_SIGNIFICANT)])
        case 2:
            del data[place:end]
        case 3:
            data[place:place] = data[place:end] * (1 + chance.randrange(300))
        case 4:
            other = chance.choice(pool)
            start = chance.randrange(len(other) + 1)
            data[place:] = other[start:]
        case 5:
            data[place : place + 4] = struct.pack(
                "<I", chance.choice((0, LIMIT, LIMIT + 1, 2**31, 2**32 - 1))
            )
        case _:
            del data[place:]
