"""What open streams cost the server: its memory and its CPU, with clients that are no browsers."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import psutil

from benchmarks.dashboard.readings import Reading

# Streams of one login at most: see functory.api.stream.feed.
OF_A_LOGIN = 8
STEPS = (0, 1, 20, 100)
SETTLE_SECONDS = 2.0
IDLE_SECONDS = 10.0


def measure(url: str, server: int, tokens: Sequence[str]) -> Iterator[Reading]:
    """Open streams in steps, each with the topics of an open list. ``server`` is the id of the server's process."""
    process = psutil.Process(server)
    opened: list[http.client.HTTPConnection] = []
    try:
        uses = {}
        cpu = {}
        for step in STEPS:
            while len(opened) < step:
                opened.append(_open(url, tokens[len(opened) // OF_A_LOGIN]))
            time.sleep(SETTLE_SECONDS)
            uses[step] = process.memory_full_info().uss / 1e6
            if step in (STEPS[0], STEPS[-1]):
                cpu[step] = _cpu(process)
            yield Reading(f"server memory (USS), {step} streams", uses[step], "MB")
    finally:
        for one in opened:
            one.close()
    last = STEPS[-1]
    yield Reading("server memory of a stream", (uses[last] - uses[0]) / last, "MB", 0.1)
    yield Reading("server CPU, no stream", cpu[0], "%")
    yield Reading(f"server CPU of {last} idle streams", max(0.0, cpu[last] - cpu[0]), "%", 2)


def _open(url: str, token: str) -> http.client.HTTPConnection:
    place = urlsplit(url)
    assert place.hostname is not None
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
    connection.request(
        "GET", "/api/v1/stream?topics=bar,executions", headers={"authorization": f"Bearer {token}"}
    )
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"a stream was refused: {answer.status} {answer.read(200)!r}")
    return connection


def _cpu(process: psutil.Process) -> float:
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return 100 * (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began)
