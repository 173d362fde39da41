"""The memory of a decoded value is known before it is decoded, and never more than was said."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functory.workers.sandbox.protocol.decoded_size import decoded_size

MEBIBYTE = 2**20
UNLIMITED = 2**62

numbers = st.integers(-(2**63), 2**64 - 1) | st.floats() | st.none() | st.booleans()
texts = st.text(max_size=8) | st.sampled_from(["x" * 300, "ж" * 300, "x" * 299 + "\U0001f600"])
values = st.recursive(
    numbers | texts,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(texts, inner, max_size=6),
    max_leaves=20,
)


@pytest.fixture(scope="module", autouse=True)
def _frozen_objects() -> Iterator[None]:
    """The objects of the tests before are no garbage: without them a collection takes no time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def taken(payload: bytes) -> int:
    """Return the memory that a payload takes when it is decoded."""
    gc.collect()
    tracemalloc.start()
    try:
        value = msgspec.msgpack.decode(payload)
        size, _ = tracemalloc.get_traced_memory()
        del value
        return size
    finally:
        tracemalloc.stop()


def array(count: int, item: bytes) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big") + item * count


SHAPES = {
    "lists": array(MEBIBYTE, b"\x90"),
    "dicts": array(MEBIBYTE, b"\x80"),
    "dicts of one": array(MEBIBYTE // 4, b"\x81\xa1a\xc0"),
    "lists of one": array(MEBIBYTE // 2, b"\x91\xc0"),
    "dicts of fifteen": msgspec.msgpack.encode([{str(n): n for n in range(15)}] * 10_000),
    "a large dict": msgspec.msgpack.encode({f"key {n}": n for n in range(100_000)}),
    "short texts": array(MEBIBYTE // 3, b"\xa2ab"),
    "a wide text": msgspec.msgpack.encode("x" * MEBIBYTE + "\U0001f600"),
    "short wide texts": array(MEBIBYTE // 24, msgspec.msgpack.encode("x" * 20 + "\U0001f600")),
    "negative numbers": array(MEBIBYTE, b"\xe0"),
    "large numbers": array(MEBIBYTE // 9, b"\xcf" + b"\xff" * 8),
    "fractions": array(MEBIBYTE // 9, b"\xcb" + b"\x3f" * 8),
    "bytes": array(MEBIBYTE // 4, b"\xc4\x02ab"),
    "times": array(MEBIBYTE // 6, b"\xd6\xff\x00\x00\x00\x01"),
    "extensions": array(MEBIBYTE // 3, b"\xd4\x05\x00"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_bound_holds_and_is_not_far_off(shape: str) -> None:
    payload = SHAPES[shape]
    real = taken(payload)
    for most in (0, UNLIMITED):
        assert decoded_size(payload, most) >= min(real, most)
    # The exact one is asked for where the rough one is too much. It cannot know that short keys are shared.
    exact = decoded_size(payload, 6 * real + MEBIBYTE)
    assert real <= exact <= 6 * real + MEBIBYTE


@settings(deadline=None, max_examples=40)
@given(st.lists(values, max_size=10))
def test_the_bound_holds_for_any_value(value: list) -> None:
    payload = msgspec.msgpack.encode(value)
    assert decoded_size(payload, UNLIMITED) + 512 >= taken(payload)


@given(st.binary(max_size=200), st.integers(0, 4096))
def test_any_bytes_have_a_bound(payload: bytes, most: int) -> None:
    assert decoded_size(payload, most) >= 0


def test_text_is_cheap_whatever_its_letters() -> None:
    """Bytes of a text are no values, although in other scripts they look like headers."""
    for text in ("x" * MEBIBYTE, "ж" * (MEBIBYTE // 2), "語" * (MEBIBYTE // 3)):
        assert decoded_size(msgspec.msgpack.encode(text), 8 * MEBIBYTE) <= 4 * MEBIBYTE + 512


def test_a_list_that_claims_more_items_than_there_are_bytes_costs_nothing_yet() -> None:
    assert decoded_size(b"\xdd\xff\xff\xff\xff\x90", MEBIBYTE) < 4096
