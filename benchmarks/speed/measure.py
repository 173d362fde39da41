"""One deployment: its loads, in turns with the other systems."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.speed import growth, loads
from benchmarks.speed.deployments import Deployment, start
from benchmarks.speed.options import Options
from benchmarks.speed.peers.babyagi_peer import BabyagiPeer
from benchmarks.speed.peers.celery_peer import CeleryPeer, CeleryResultsPeer
from benchmarks.speed.peers.dbos_peer import DbosPeer
from benchmarks.speed.peers.peer import Peer, Round
from benchmarks.speed.peers.procrastinate_peer import ProcrastinatePeer

PEERS: dict[str, type[Peer]] = {
    peer.name: peer for peer in (CeleryPeer, CeleryResultsPeer, DbosPeer, ProcrastinatePeer, BabyagiPeer)
}
# The second stream runs at this share of the rate of the bursts.
STREAM_SHARE = 0.5
STREAM_RATE = 50.0


def measure(name: str, options: Options, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure a deployment; ``say`` gets a line of progress now and then. Returns its figures.

    Raises LookupError where a server is not installed, and :class:`row_checks.RowsMissing`.
    """
    figures: dict[str, Any] = {}
    with start(name, options) as deployment:
        say("warming up")
        loads.warm_up(deployment, max(20, min(500, options.events // 4)))
        with contextlib.ExitStack() as stack:
            peers = _peers(deployment, options, stack, figures)
            if "burst" in options.loads:
                figures |= bursts(deployment, peers, options, say)
            if "stream" in options.loads:
                figures["streams"] = streams(deployment, peers, options, figures, say)
            if "calls" in options.loads:
                say("calls, one after the other")
                figures["calls"] = asdict(loads.calls(deployment, options.calls))
            figures["memory_mib"] = deployment.memory()
        if "burst" in options.loads:
            figures["growth"] = grown(deployment, options, say)
        if "burst" in options.loads and deployment.counters is not None:
            say("a burst whose messages and updates in place are counted")
            figures["counts"] = loads.counted_burst(deployment, options.events)
            if not options.statements:
                del figures["counts"]["by_statement"]
    return figures


def bursts(
    deployment: Deployment, peers: Sequence[Peer], options: Options, say: Callable[[str], None]
) -> dict[str, Any]:
    """Each system once a round; every other round in the opposite order."""
    ours: list[loads.Burst] = []
    theirs: dict[str, list[Round]] = {peer.name: [] for peer in peers}
    for number in range(options.pairs):
        turns: list[Peer | None] = [None, *peers]
        for peer in turns if number % 2 == 0 else reversed(turns):
            if peer is None:
                ours.append(loads.burst(deployment, options.events))
                say(f"round {number + 1}: {ours[-1].rate:,.0f} executions/s")
            else:
                theirs[peer.name].append(peer.burst())
                say(f"round {number + 1}: {peer.name} {theirs[peer.name][-1].rate:,.0f} tasks/s")
    return {
        "events": options.events,
        "executions_per_second": spread([one.rate for one in ours]),
        "published_per_second": spread([one.count / one.published_seconds for one in ours]),
        "cpu_ms": cpu_an_execution(ours),
        "peers": {
            peer.name: {
                "per_second": spread([one.rate for one in theirs[peer.name]]),
                "ratio": spread([a.rate / b.rate for a, b in zip(ours, theirs[peer.name], strict=True)]),
                "cpu_ms": cpu_an_execution(theirs[peer.name]),
            }
            for peer in peers
        },
    }


def grown(deployment: Deployment, options: Options, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Bursts after each stage of growth."""
    found = []
    for title, grow in growth.stages(deployment, options):
        say(title)
        began = time.monotonic()
        made = grow()
        seconds = time.monotonic() - began
        say(f"  grown in {seconds:,.0f} s" + (f": {made}" if made else ""))
        loads.burst(deployment, min(500, options.events))
        ours = [loads.burst(deployment, options.events) for _ in range(options.pairs)]
        found.append(
            {
                "stage": title,
                "executions_per_second": spread([one.rate for one in ours]),
                "cpu_ms": cpu_an_execution(ours),
                "memory_mib": deployment.memory(),
            }
        )
        say(f"  {found[-1]['executions_per_second']['median']:,.0f} executions/s")
    return found


def streams(
    deployment: Deployment,
    peers: Sequence[Peer],
    options: Options,
    figures: dict[str, Any],
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Streams at a fixed rate and at a share of the bursts' rate; beside them Celery's at the same rate."""
    rates = [STREAM_RATE]
    if "executions_per_second" in figures:
        rates.append(round(figures["executions_per_second"]["median"] * STREAM_SHARE, 1))
    found = []
    for rate in rates:
        say(f"a stream of {rate:g} events a second")
        count = max(20, min(20_000, int(rate * options.stream_seconds)))
        one = asdict(loads.stream(deployment, rate, count))
        one["peers"] = {peer.name: asdict(peer.stream(rate, count)) for peer in peers if peer.has_stream}
        found.append(one)
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, lowest and highest."""
    return {
        "median": round(statistics.median(values), 3),
        "lowest": round(min(values), 3),
        "highest": round(max(values), 3),
    }


def cpu_an_execution(rounds: Sequence[loads.Burst | Round]) -> dict[str, float]:
    """Medians in milliseconds, by process, and of the sum without the subscriber."""
    names = list(rounds[0].cpu)
    found = {name: statistics.median(one.cpu[name] / one.count for one in rounds) for name in names}
    found["all"] = statistics.median(
        sum(value for name, value in one.cpu.items() if name != "subscriber") / one.count for one in rounds
    )
    return {name: round(value, 3) for name, value in found.items()}


def _peers(
    deployment: Deployment, options: Options, stack: contextlib.ExitStack, figures: dict[str, Any]
) -> list[Peer]:
    found = []
    for name in options.peers:
        try:
            found.append(stack.enter_context(PEERS[name](deployment)))
        except LookupError as error:
            figures.setdefault("peers_left_out", {})[name] = str(error)
    return found
