"""Any bytes of a child are a frame that holds JSON, or a ``ProtocolError``, and never anything else."""

from __future__ import annotations

import math
import struct
import tracemalloc
import typing

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from functory.engine.errors import Refused
from functory.workers.sandbox.protocol.frames import (
    MAX_DEPTH,
    MAX_IN_FLIGHT,
    FromGuest,
    GetSecret,
    ProtocolError,
    SpanClosed,
    SpanOpened,
    decode_guest,
    pack,
)
from functory.workers.sandbox.protocol.job import Code, Job
from functory.workers.sandbox.supervision.request_handler import RequestHandler
from functory.workers.sandbox.supervision.spans import SpanCollector
from tests.fuzz.target import FRAMES, LIMIT, VALUES, check, framed, judge, mutations, read, seeds

KINDS = typing.get_args(FromGuest)
frames = st.sampled_from(FRAMES)
payloads = frames.map(pack)

# Characters of each length in UTF-8. (All of Unicode would take hypothesis seconds to prepare.)
letters = "at \0ż€🦊"
JSON_SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(letters, max_size=20)


def sized(head: int, body: bytes, width: str, count: int) -> bytes:
    """Return a msgpack item: its format byte, its length in ``width`` (struct's letter), its body."""
    return bytes([head]) + struct.pack(f">{width}", count) + body


# What msgpack can say and JSON cannot, and what is not even msgpack.
strange = st.one_of(
    st.binary(max_size=12).map(lambda data: sized(0xC4, data, "B", len(data))),
    st.tuples(st.integers(0, 255), st.binary(max_size=12)).map(
        lambda pair: sized(0xC7, bytes([pair[0]]) + pair[1], "B", len(pair[1]))
    ),
    st.sampled_from([math.nan, math.inf, -math.inf]).map(lambda number: b"\xcb" + struct.pack(">d", number)),
    st.sampled_from([math.nan, math.inf]).map(lambda number: b"\xca" + struct.pack(">f", number)),
    st.binary(min_size=1, max_size=8).map(lambda data: sized(0xD9, data, "B", len(data))),
    st.sampled_from([b"\xc1", b"\xd9\x02\xc3", b"\xa3\xed\xa0\x80", b"\xa1\xff"]),
    st.tuples(st.sampled_from([0xDB, 0xDD, 0xDF, 0xC6, 0xC9]), st.integers(2**16, 2**32 - 1)).map(
        lambda pair: sized(pair[0], b"", "I", pair[1])
    ),
)


def array(items: list[bytes]) -> bytes:
    return sized(0xDC, b"".join(items), "H", len(items))


def table(items: list[tuple[bytes, bytes]]) -> bytes:
    return sized(0xDE, b"".join(key + value for key, value in items), "H", len(items))


# Any msgpack value, well-formed or not: keys of any type, equal keys, extension types, lengths that lie.
raw = st.recursive(
    JSON_SCALARS.map(msgspec.msgpack.encode) | strange,
    lambda inner: (
        st.lists(inner, max_size=4).map(array) | st.lists(st.tuples(inner, inner), max_size=4).map(table)
    ),
    max_leaves=12,
)


@st.composite
def altered(draw) -> bytes:
    """Return a frame with fields dropped, repeated, renamed, or given any value, its tag among them."""
    fields = list(msgspec.msgpack.decode(draw(payloads)).items())
    for _ in range(draw(st.integers(1, 3))):
        index = draw(st.integers(0, len(fields) - 1))
        name, value = fields[index]
        match draw(st.integers(0, 5)):
            case 0 if len(fields) > 1:
                del fields[index]
            case 1:
                fields.insert(draw(st.integers(0, len(fields))), (name, value))
            case 2:
                fields[index] = (name, msgspec.Raw(draw(raw)))
            case 3:
                fields.append((name, msgspec.Raw(draw(raw))))
            case 4:
                fields[index] = (draw(st.text(letters, max_size=8)), value)
            case _:
                fields.append(("t", draw(st.sampled_from(["log", "finished", "start", "reply", "call"]))))
    encode = msgspec.msgpack.encode
    return table([(encode(key), encode(value)) for key, value in fields])


def test_there_is_a_seed_of_every_type_and_each_is_a_frame():
    assert {type(frame) for frame in FRAMES} == set(KINDS)
    for frame in FRAMES:
        assert judge(pack(frame)) == frame
    for data in seeds():
        check(data)


@given(st.binary(max_size=200))
@example(b"")
def test_any_bytes_are_a_frame_or_a_protocol_error(data):
    check(data)


@given(altered())
def test_a_frame_with_wrong_or_repeated_fields_is_a_frame_or_a_protocol_error(payload):
    judge(payload)


@given(raw)
def test_any_value_of_msgpack_in_place_of_json_is_json_or_refused(value):
    fields = [(b"\xa1t", b"\xa8finished"), (b"\xa5value", value)]
    judge(table([*fields, (b"\xa8warnings", b"\x90")]))
    judge(value)


@given(payloads, st.data())
def test_a_part_of_a_frame_and_a_frame_with_more_behind_it_are_refused(payload, data):
    kept = data.draw(st.integers(0, len(payload) - 1))
    behind = data.draw(st.binary(min_size=1, max_size=20))
    for wrong in (payload[:kept], payload + behind):
        with pytest.raises(ProtocolError):
            decode_guest(wrong)


@given(frames, st.sampled_from(["tag", "field"]), st.text(letters, max_size=12))
def test_an_unknown_tag_or_field_is_refused(frame, where, name):
    fields = msgspec.msgpack.decode(pack(frame))
    if where == "tag":
        fields["t"] = name if name not in {kind.__struct_config__.tag for kind in KINDS} else f"{name}?"
    else:
        fields[f"{name}!"] = 1
    with pytest.raises(ProtocolError):
        decode_guest(msgspec.msgpack.encode(fields))


@given(frames, frames)
def test_of_two_tags_that_differ_neither_is_believed(frame, other):
    fields = list(msgspec.msgpack.decode(pack(frame)).items())
    tag = type(other).__struct_config__.tag
    payload = table([(pack(key), pack(value)) for key, value in [*fields, ("t", tag)]])
    assert judge(payload) in ((frame,) if type(frame) is type(other) else (None,))


@given(st.lists(payloads | st.binary(max_size=60), max_size=6), st.lists(st.integers(0, 4000), max_size=6))
def test_a_stream_gives_the_same_frames_wherever_it_is_cut(sent, cuts):
    stream = b"".join(framed(payload) for payload in sent)
    places = sorted(cut % (len(stream) + 1) for cut in cuts)
    assert read(stream, places) == (sent, None)
    assert read(stream, list(range(len(stream)))) == (sent, None)


@given(st.lists(payloads, max_size=3), st.integers(LIMIT + 1, 2**32 - 1), st.binary(max_size=50))
def test_a_length_above_the_limit_ends_the_stream_after_the_frames_before_it(sent, length, behind):
    stream = b"".join(framed(payload) for payload in sent) + struct.pack("<I", length) + behind
    found, refusal = read(stream, [])
    assert found == sent
    assert refusal is not None and f"{length} bytes" in refusal


@given(st.integers(MAX_DEPTH + 1, 5000), st.sampled_from([b"\x91", b"\x81\xa1a"]))
@example(200_000, b"\x91")
@example(200_000, b"\x81\xa1a")
def test_nesting_beyond_the_limit_is_refused_however_deep(depth, opening):
    fields = [(b"\xa1t", b"\xa8finished"), (b"\xa5value", opening * depth + b"\x01")]
    with pytest.raises(ProtocolError):
        decode_guest(table([*fields, (b"\xa8warnings", b"\x90")]))
    with pytest.raises(ProtocolError):
        decode_guest(opening * depth)


@pytest.mark.parametrize("kind", [b"\xdb", b"\xdd", b"\xdf", b"\xc6", b"\xc9"])
def test_a_length_that_lies_reserves_no_memory(kind):
    payload = b"\x83\xa1t\xa8finished\xa8warnings\x90\xa5value" + kind + b"\xff\xff\xff\xff"
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode_guest(payload)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_mutations_of_valid_frames_break_no_promise():
    for data in mutations(seed=20_000, rounds=5000):
        check(data)


def job() -> Job:
    codes = {"f@1": Code(name="f", version=1, source="def f(): pass", secrets=("s",))}
    return Job(execution_id="e", function="f", version=1, root_id="r", entry="f@1", codes=codes)


class NoHost:
    """Refuses every request."""

    def __getattr__(self, name: str):
        raise Refused(f"there is no {name}")


@given(st.lists(st.integers(1, 12), min_size=1, max_size=MAX_IN_FLIGHT))
def test_ids_of_requests_must_grow(ids):
    requests = RequestHandler(job(), NoHost(), lambda *_: None)  # type: ignore[arg-type]
    highest = 0
    try:
        for id_ in ids:
            if id_ > highest:
                requests.accept(GetSecret(id=id_, name="other"))
                highest = id_
            else:
                with pytest.raises(ProtocolError, match="not above"):
                    requests.accept(GetSecret(id=id_, name="other"))
                return
    finally:
        requests.close()


spans = st.lists(
    st.tuples(
        st.booleans(), st.integers(1, 6), st.none() | st.integers(1, 6), st.sampled_from(["f@1", "g@1"])
    ),
    max_size=12,
)


@given(spans)
def test_spans_come_out_in_order_with_known_parents_or_are_refused(steps):
    book = SpanCollector(job())
    try:
        for opens, seq, parent, code in steps:
            if opens:
                book.open(
                    SpanOpened(seq=seq, parent=parent, code=code, input=None, truncated=False, offset=9.0), 10
                )
            else:
                book.close(SpanClosed(seq=seq, output=VALUES[2], error=None, truncated=False, offset=1.0), 10)
    except ProtocolError:
        pass
    found_spans = book.spans(duration=5.0)
    numbers = [span.seq for span in found_spans]
    assert numbers == sorted(set(numbers))
    for span in found_spans:
        assert span.function == "f"
        assert span.parent_seq is None or span.parent_seq in numbers[: numbers.index(span.seq)]
        assert 0 <= span.offset_seconds <= 5 and 0 <= span.duration_seconds <= 5
