"""Vectors of embeddings: stored with the length 1, so that the cosine of two is the sum of their products. Pure.

numpy is used where it is installed (the extra ``agents`` has it). Without it the same is computed by Python alone: a
search among 10,000 vectors of 384 numbers then takes half a second instead of milliseconds, which is no reason
to make every installation larger.
"""

from __future__ import annotations

import array
import functools
import heapq
import importlib
import math
import operator
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from functory.engine.errors import Invalid

NUMBER_BYTES = 4
MAX_DIMENSIONS = 8_192
# Similarities are compared after rounding: numpy adds in another order than Python does.
DIGITS = 5


def unit(raw: bytes) -> bytes:
    """Return a vector (float32, little endian) with the length 1. Raises :class:`Invalid` for one of zeros."""
    values = _floats(raw)
    size = math.sqrt(math.fsum(one * one for one in values))
    if not math.isfinite(size) or size == 0:
        raise Invalid("the vector has no direction", "its length is zero, or no number")
    return _packed(array.array("f", (one / size for one in values)))


def dimensions(raw: bytes) -> int:
    """Return how many numbers a vector has. Raises :class:`Invalid` for bytes that are no vector."""
    count, rest = divmod(len(raw), NUMBER_BYTES)
    if rest or not 1 <= count <= MAX_DIMENSIONS:
        raise Invalid("wrong vector", f"{len(raw):,} bytes are no 1 to {MAX_DIMENSIONS:,} numbers of 4 bytes")
    return count


def nearest(
    query: bytes, batches: Iterable[Sequence[tuple[str, bytes]]], count: int
) -> list[tuple[str, float]]:
    """Return the keys of the ``count`` vectors with the highest cosine to ``query``, best first, with it. Vectors of
    another length, and those that have nothing in common with the query, are left out.

    All vectors have the length 1. Of two with the same cosine, that with the higher key comes first.
    """
    best: list[tuple[float, str]] = []
    for batch in batches:
        fitting = [(key, raw) for key, raw in batch if len(raw) == len(query)]
        found = zip(_cosines(query, [raw for _, raw in fitting]), (key for key, _ in fitting), strict=True)
        best = heapq.nlargest(count, [*best, *((cosine, key) for cosine, key in found if cosine > 0)])
    return [(key, cosine) for cosine, key in best]


def _cosines(query: bytes, vectors: Sequence[bytes]) -> list[float]:
    numpy = _numpy()
    if numpy is None:
        wanted = _floats(query)
        found = [sum(map(operator.mul, wanted, _floats(raw))) for raw in vectors]
    else:
        wanted = numpy.frombuffer(query, dtype="<f4")
        found = (numpy.frombuffer(b"".join(vectors), dtype="<f4").reshape(-1, len(wanted)) @ wanted).tolist()
    return [round(one, DIGITS) for one in found]


@functools.cache
def _numpy() -> Any:
    # At the first search: its import takes longer than most commands.
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


def _floats(raw: bytes) -> array.array[float]:
    dimensions(raw)
    values = array.array("f")
    values.frombytes(raw)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _packed(values: array.array[float]) -> bytes:
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()
