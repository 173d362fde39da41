"""The three loads: many events at once, events one by one, and calls one after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.speed import row_checks
from benchmarks.speed.counts import BROKER_REPORTED_AFTER_SECONDS, Counts
from benchmarks.speed.deployments import Deployment

# What is still done after the last end belongs to the load: acknowledgements, statistics, batches that are deleted.
AFTERWARDS_SECONDS = 0.7
# Messages of an event and of the two events of its execution.
MESSAGES_AN_EXECUTION = 3


@dataclass(frozen=True)
class Burst:
    """One burst. ``seconds`` last until the last execution has ended, ``published_seconds`` until the subscriber has
    all events; ``cpu`` is in milliseconds by process."""

    count: int
    seconds: float
    published_seconds: float
    cpu: dict[str, float]
    counts: Counts

    @property
    def rate(self) -> float:
        """Executions a second."""
        return self.count / self.seconds


def burst(deployment: Deployment, count: int) -> Burst:
    """Emit ``count`` events at once and wait for their executions. Checks the rows afterwards."""
    since = deployment.observer.now()
    done = _burst(deployment, count, since)
    _check(deployment, since, "noop", count)
    return done


def _burst(deployment: Deployment, count: int, since: str) -> Burst:
    observer = deployment.observer
    messages = deployment.received + MESSAGES_AN_EXECUTION * count
    counts, cpu = deployment.counts(), deployment.cpu()
    began = deployment.client.ask("emit", count=count, functions=deployment.functions)
    ended = observer.wait(since, "noop", count)
    published = deployment.settle(messages)
    done = deployment.counts().since(counts)
    time.sleep(AFTERWARDS_SECONDS)
    spent = {name: value - cpu.get(name, 0.0) for name, value in deployment.cpu().items()}
    return Burst(count, ended - began, max(published, ended) - began, spent, done)


def _check(deployment: Deployment, since: str, function: str, count: int) -> None:
    # Executions that are due tomorrow rest longer than the invariants' patience of nothing.
    patience = None if deployment.left_open else 0
    row_checks.check(deployment.observer, since, function, count, patience=patience)
    if deployment.subscriber is None:
        return
    report = deployment.subscriber.ask("report")
    if report["events"] < MESSAGES_AN_EXECUTION * count or report["out_of_order"]:
        raise row_checks.RowsMissing(f"the subscriber did not get all events in order: {report}")


def warm_up(deployment: Deployment, count: int) -> None:
    """Run both functions until their caches are filled and their runners are warm."""
    for _ in range(2):
        burst(deployment, count)
    stream(deployment, 50, min(count, 50))


@dataclass(frozen=True)
class Stream:
    """Events one by one: milliseconds from before the emit to the first line of the body."""

    rate: float
    p50_ms: float
    p99_ms: float


def stream(deployment: Deployment, rate: float, count: int) -> Stream:
    """Emit ``count`` events, ``rate`` a second, whatever the other side does."""
    messages = deployment.received + MESSAGES_AN_EXECUTION * count
    since = deployment.observer.now()
    sent: dict[str, float] = deployment.client.ask("stream", rate=rate, count=count)
    deployment.observer.wait(since, "clock", count)
    deployment.settle(messages)
    started = deployment.observer.results(since, "clock")
    _check(deployment, since, "clock", count)
    return Stream(rate, *quantiles([started[id_] - time_ for id_, time_ in sent.items()]))


@dataclass(frozen=True)
class Calls:
    """One client that waits for each result before its next call."""

    per_second: float
    p50_ms: float
    p99_ms: float


def calls(deployment: Deployment, count: int) -> Calls:
    """Call ``count`` times."""
    messages = deployment.received + (MESSAGES_AN_EXECUTION - 1) * count
    seconds = deployment.client.ask("calls", count=count)
    # Each has the events of its start and its end, and no event before them.
    deployment.settle(messages)
    if deployment.subscriber is not None:
        deployment.subscriber.ask("report")
    return Calls(len(seconds) / sum(seconds), *quantiles(seconds))


def counted_burst(deployment: Deployment, count: int) -> dict[str, Any]:
    """A burst whose messages and updates in place are counted too; it ends the roles.

    Server processes report these counters when they are idle or end, so nothing is asked before that.
    """
    if deployment.counters is None:
        return {}
    # What came before, as the warm-up, is in the broker's counter first.
    messages, received = _published(deployment), deployment.received
    since = deployment.observer.now()
    done = _burst(deployment, count, since)
    deployment.stop_roles()
    all_messages = _published(deployment) - messages
    events = deployment.received - received
    _check(deployment, since, "noop", count)
    return {
        "statements": round(done.counts.plain / count, 3),
        "transaction_control_statements": round(done.counts.control / count, 3),
        "savepoint_statements": round(done.counts.savepoints / count, 3),
        "transactions": round(done.counts.transactions / count, 3),
        "messages": round(all_messages / count, 3),
        "task_messages": round((all_messages - events) / count, 3) if deployment.subscriber else None,
        "wal_bytes": round(done.counts.wal_bytes / count),
        "hot": deployment.counters.hot_shares(),
        "by_statement": {
            " ".join(text.split())[:200]: round(number / count, 4)
            for text, number in done.counts.statements.most_common(40)
        },
    }


def _published(deployment: Deployment) -> int:
    """The messages on the broker so far, once its counter has them all."""
    if deployment.name == "rabbitmq":
        time.sleep(BROKER_REPORTED_AFTER_SECONDS)
    return deployment.published()


def quantiles(seconds: Sequence[float]) -> tuple[float, float]:
    """p50 and p99 in milliseconds."""
    ordered = sorted(seconds)
    return tuple(round(ordered[int(len(ordered) * share)] * 1000, 2) for share in (0.5, 0.99))  # type: ignore[return-value]
