"""Faults of the broker: away, empty, still, blocked. Its messages are hints, so none of it may cost anything."""

from __future__ import annotations

import time

from tests.chaos.fault import Chaos, fault
from tests.chaos.faults.workers import nothing_lost
from tests.chaos.outcome_counts import Counts
from tests.services.rabbitmq import RabbitMQ
from tests.services.redis import Redis

REDIS, RABBITMQ = ("redis",), ("rabbitmq",)
OWN = ("broker",)

# How long a broker stands still: longer than the socket's timeouts, shorter than the longest one of a run.
PAUSE_SECONDS = 10.0

# What a worker says when it takes its work out of the database itself.
POLLING = "polling instead"


def redis_of(chaos: Chaos) -> Redis:
    """The run's Redis."""
    assert isinstance(chaos.broker, Redis)
    return chaos.broker


def rabbit_of(chaos: Chaos) -> RabbitMQ:
    """The run's RabbitMQ."""
    assert isinstance(chaos.broker, RabbitMQ)
    return chaos.broker


def strike(chaos: Chaos) -> None:
    """A time in the middle of the work, from which recovery is counted."""
    chaos.pause(0, 2)
    chaos.mark()


def succeeded(chaos: Chaos) -> int:
    """How many executions have succeeded."""
    return len(chaos.client.executions.list(state="succeeded", limit=1000))


def progress(chaos: Chaos) -> None:
    """Wait until something has succeeded that had not, whatever has become of the broker."""
    before = succeeded(chaos)
    chaos.wait(lambda: succeeded(chaos) > before, "a further success")


def polled(chaos: Chaos, counts: Counts) -> list[str]:
    """Without the broker, workers take their work out of the database."""
    complaints = nothing_lost(chaos, counts)
    if not chaos.lines(POLLING):
        complaints.append("no worker has said that it polls")
    return complaints


@fault("redis-restart-empty", brokers=REDIS, harms=OWN, expect=nothing_lost)
def redis_restart(chaos: Chaos) -> None:
    """Restarted in order, without what it held: three times, so quickly that a client may not notice."""
    for _ in range(3):
        strike(chaos)
        redis_of(chaos).restart()


@fault("redis-kill9", brokers=REDIS, harms=OWN, expect=nothing_lost)
def redis_kill(chaos: Chaos) -> None:
    """Killed, away for a while, and back without what it held."""
    strike(chaos)
    redis_of(chaos).kill()
    chaos.pause(0, 4)
    redis_of(chaos).start()


@fault("redis-flush", brokers=REDIS, harms=OWN, expect=nothing_lost)
def redis_flush(chaos: Chaos) -> None:
    """All that it holds is thrown away, again and again, the queues' own bookkeeping too."""
    for _ in range(5):
        strike(chaos)
        with redis_of(chaos).connect() as client:
            client.flushall()


@fault("redis-pause", brokers=REDIS, harms=OWN, expect=nothing_lost)
def redis_pause(chaos: Chaos) -> None:
    """It stands still with all connections open."""
    strike(chaos)
    with redis_of(chaos).frozen():
        time.sleep(PAUSE_SECONDS)


@fault("rabbit-restart", brokers=RABBITMQ, harms=OWN, expect=nothing_lost)
def rabbit_restart(chaos: Chaos) -> None:
    """Restarted in order."""
    strike(chaos)
    rabbit_of(chaos).restart()


@fault("rabbit-kill9", brokers=RABBITMQ, harms=OWN, expect=nothing_lost)
def rabbit_kill(chaos: Chaos) -> None:
    """Killed, away for a while, and back with what it had confirmed."""
    strike(chaos)
    rabbit_of(chaos).kill()
    chaos.pause(0, 4)
    rabbit_of(chaos).start()


@fault("rabbit-purge", brokers=RABBITMQ, expect=nothing_lost)
def rabbit_purge(chaos: Chaos) -> None:
    """The messages that wait in the deployment's queues are thrown away, again and again."""
    for _ in range(5):
        strike(chaos)
        rabbit_of(chaos).purge(chaos.settings.broker)


@fault("rabbit-block", brokers=RABBITMQ, harms=OWN, expect=nothing_lost)
def rabbit_block(chaos: Chaos) -> None:
    """Its memory is short, so that it reads from no publisher: routing goes on, and so do executions, by polling."""
    chaos.pause(0, 2)
    with rabbit_of(chaos).blocked():
        chaos.mark()
        id_ = chaos.client.events.emit("order.placed", {"order": -1}, dedup_key="while blocked")
        chaos.given.events.append(id_)
        chaos.wait(lambda: chaos.client.events.get(id_)["state"] == "routed", "routing while blocked")
        progress(chaos)


@fault("broker-gone", brokers=(*REDIS, *RABBITMQ), harms=OWN, unpublished=True, expect=polled)
def gone(chaos: Chaos) -> None:
    """It never comes back, and a worker is started while it is away: everything ends all the same."""
    strike(chaos)
    assert chaos.broker is not None
    chaos.broker.kill()
    chaos.restart(chaos.rng.choice(chaos.workers))
    progress(chaos)


@fault("broker-gone-and-back", brokers=(*REDIS, *RABBITMQ), harms=OWN, expect=polled)
def gone_and_back(chaos: Chaos) -> None:
    """Away until workers have carried on without it, then back: what waited for it is published."""
    strike(chaos)
    assert chaos.broker is not None
    chaos.broker.kill()
    chaos.wait(lambda: chaos.lines(POLLING), "that workers poll")
    progress(chaos)
    chaos.broker.start()
