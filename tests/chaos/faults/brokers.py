"""Faults of the broker: unavailable, empty, stopped, blocked. Messages are hints, so no fault may lose anything."""

from __future__ import annotations

import time

from tests.chaos.fault import Chaos, fault
from tests.chaos.faults.workers import nothing_lost
from tests.chaos.outcome_counts import Counts
from tests.services.rabbitmq import RabbitMQ
from tests.services.redis import Redis

REDIS, RABBITMQ = ("redis",), ("rabbitmq",)
OWN = ("broker",)

# How long a broker is stopped: longer than the socket's timeouts, shorter than the longest wait of a run.
PAUSE_SECONDS = 10.0

# The log event of a worker that claims by polling.
POLLING = "polling instead"


def redis_of(chaos: Chaos) -> Redis:
    """The run's Redis server."""
    assert isinstance(chaos.broker, Redis)
    return chaos.broker


def rabbit_of(chaos: Chaos) -> RabbitMQ:
    """The run's RabbitMQ server."""
    assert isinstance(chaos.broker, RabbitMQ)
    return chaos.broker


def strike(chaos: Chaos) -> None:
    """Wait until the middle of the work, and record the time from which recovery is measured."""
    chaos.pause(0, 2)
    chaos.mark()


def succeeded(chaos: Chaos) -> int:
    """The number of succeeded executions."""
    return len(chaos.client.executions.list(state="succeeded", limit=1000))


def progress(chaos: Chaos) -> None:
    """Wait until a further execution has succeeded, in any state of the broker."""
    before = succeeded(chaos)
    chaos.wait(lambda: succeeded(chaos) > before, "a further success")


def all_live(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that no attempt was lost and no process has ended."""
    complaints = nothing_lost(chaos, counts)
    if chaos.deployment.exits:
        complaints.append(f"processes have ended: {dict(chaos.deployment.exits)}")
    return complaints


def polled(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that workers claimed from the database while the broker was unavailable."""
    complaints = nothing_lost(chaos, counts)
    if not chaos.lines(POLLING):
        complaints.append("no worker logged that it polls")
    return complaints


@fault("redis-restart-empty", brokers=REDIS, harms=OWN, expect=nothing_lost)
def redis_restart(chaos: Chaos) -> None:
    """Restart Redis softly and empty, three times, so quickly that a client may not notice."""
    for _ in range(3):
        strike(chaos)
        redis_of(chaos).restart()


@fault("redis-kill9", brokers=REDIS, harms=OWN, expect=nothing_lost)
def redis_kill(chaos: Chaos) -> None:
    """Kill Redis, and start it again later, empty."""
    strike(chaos)
    redis_of(chaos).kill()
    chaos.pause(0, 4)
    redis_of(chaos).start()


@fault("redis-flush", brokers=REDIS, harms=OWN, expect=nothing_lost)
def redis_flush(chaos: Chaos) -> None:
    """Delete everything in Redis repeatedly, also the bookkeeping of the queues."""
    for _ in range(5):
        strike(chaos)
        with redis_of(chaos).connect() as client:
            client.flushall()


@fault("redis-pause", brokers=REDIS, harms=OWN, expect=nothing_lost)
def redis_pause(chaos: Chaos) -> None:
    """Stop Redis with SIGSTOP; all connections stay open."""
    strike(chaos)
    with redis_of(chaos).frozen():
        time.sleep(PAUSE_SECONDS)


@fault("redis-full", brokers=REDIS, harms=OWN, expect=all_live)
def redis_full(chaos: Chaos) -> None:
    """Let Redis refuse every write for some seconds, because its memory is full: workers poll, and none ends."""
    strike(chaos)
    with redis_of(chaos).full():
        progress(chaos)
        time.sleep(PAUSE_SECONDS)


@fault("rabbit-restart", brokers=RABBITMQ, harms=OWN, expect=nothing_lost)
def rabbit_restart(chaos: Chaos) -> None:
    """Restart RabbitMQ softly."""
    strike(chaos)
    rabbit_of(chaos).restart()


@fault("rabbit-kill9", brokers=RABBITMQ, harms=OWN, expect=nothing_lost)
def rabbit_kill(chaos: Chaos) -> None:
    """Kill RabbitMQ, and start it again later with all confirmed messages."""
    strike(chaos)
    rabbit_of(chaos).kill()
    chaos.pause(0, 4)
    rabbit_of(chaos).start()


@fault("rabbit-purge", brokers=RABBITMQ, expect=nothing_lost)
def rabbit_purge(chaos: Chaos) -> None:
    """Delete the waiting messages of the deployment's queues, repeatedly."""
    for _ in range(5):
        strike(chaos)
        rabbit_of(chaos).purge(chaos.settings.broker)


@fault("rabbit-block", brokers=RABBITMQ, harms=OWN, expect=nothing_lost)
def rabbit_block(chaos: Chaos) -> None:
    """Set RabbitMQ's memory alarm, so that it reads from no publisher. Routing continues, and executions run by
    polling."""
    chaos.pause(0, 2)
    with rabbit_of(chaos).blocked():
        chaos.mark()
        id_ = chaos.client.events.emit("order.placed", {"order": -1}, dedup_key="while blocked")
        chaos.given.events.append(id_)
        chaos.wait(lambda: chaos.client.events.get(id_)["state"] == "routed", "routing while blocked")
        progress(chaos)


@fault("broker-gone", brokers=(*REDIS, *RABBITMQ), harms=OWN, unpublished=True, expect=polled)
def gone(chaos: Chaos) -> None:
    """Stop the broker for good, and start a worker without it. All executions still end."""
    strike(chaos)
    assert chaos.broker is not None
    chaos.broker.kill()
    chaos.restart(chaos.rng.choice(chaos.workers))
    progress(chaos)


@fault("broker-gone-and-back", brokers=(*REDIS, *RABBITMQ), harms=OWN, expect=polled)
def gone_and_back(chaos: Chaos) -> None:
    """Stop the broker until workers have polled, then start it. The events in the outbox are published."""
    strike(chaos)
    assert chaos.broker is not None
    chaos.broker.kill()
    chaos.wait(lambda: chaos.lines(POLLING), "that workers poll")
    progress(chaos)
    chaos.broker.start()
