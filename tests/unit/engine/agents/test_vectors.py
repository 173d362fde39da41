"""Vectors of embeddings: the same answers with numpy and without."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest

from functory.engine.agents import vectors
from functory.engine.errors import Invalid


def raw(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


@pytest.fixture(params=["numpy", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "python":
        monkeypatch.setattr(vectors, "_numpy", lambda: None)
    else:
        assert vectors._numpy() is not None
    yield request.param


def test_a_stored_vector_has_the_length_one() -> None:
    assert struct.unpack("<2f", vectors.unit(raw(3, 4))) == pytest.approx((0.6, 0.8))


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"abc",
        raw(0, 0),
        raw(float("nan")),
        raw(float("inf"), 1),
        raw(*[1.0] * (vectors.MAX_DIMENSIONS + 1)),
    ],
)
def test_what_is_no_vector(wrong: bytes) -> None:
    with pytest.raises(Invalid):
        vectors.unit(wrong)


def test_the_nearest_come_first(way: str) -> None:
    batches = [
        [("far", vectors.unit(raw(-1, 0))), ("other model", vectors.unit(raw(1, 0, 0)))],
        [],
        [("near", vectors.unit(raw(9, 1))), ("same", vectors.unit(raw(5, 0)))],
        [("twin", vectors.unit(raw(2, 0)))],
    ]
    found = vectors.nearest(vectors.unit(raw(1, 0)), batches, 3)
    assert [key for key, _ in found] == ["twin", "same", "near"]
    assert found[0][1] == 1.0


def test_numpy_and_python_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    made = random.Random(7)
    stored = [(str(n), vectors.unit(raw(*(made.gauss(0, 1) for _ in range(64))))) for n in range(300)]
    batches = [stored[start : start + 70] for start in range(0, 300, 70)]
    fast = vectors.nearest(stored[5][1], batches, 20)
    monkeypatch.setattr(vectors, "_numpy", lambda: None)
    slow = vectors.nearest(stored[5][1], batches, 20)
    assert [key for key, _ in slow] == [key for key, _ in fast]
    assert [one for _, one in slow] == pytest.approx([one for _, one in fast], abs=2e-5)
