"""Faults of connections: half-open, swallowed, delayed, reset. The servers themselves are well, and new connections
work again afterwards."""

from __future__ import annotations

import time

from tests.chaos.fault import Chaos, fault
from tests.chaos.faults.brokers import progress, strike
from tests.chaos.faults.databases import all_live, recovered
from tests.chaos.faults.workers import nothing_lost
from tests.chaos.outcome_counts import Counts

MESSAGES = ("redis", "rabbitmq")

# How long a network is away, in seconds: longer than a lease of the deployment.
AWAY_SECONDS = 8.0
# The delay of every piece of data, in seconds: a statement takes twice as long at least.
DELAY_SECONDS = 0.05


@fault("pg-half-open", proxied=("postgres",), expect=all_live)
def database_half_open(chaos: Chaos) -> None:
    """Forward nothing on the open connections to the database, while new ones work."""
    strike(chaos)
    chaos.proxies["postgres"].half_open()
    recovered(chaos)


@fault("pg-swallow", proxied=("postgres",), expect=all_live)
def database_swallowed(chaos: Chaos) -> None:
    """Forward nothing to the database for longer than a lease, on new connections neither."""
    strike(chaos)
    chaos.proxies["postgres"].swallow()
    time.sleep(AWAY_SECONDS)
    chaos.proxies["postgres"].heal()
    recovered(chaos)


@fault("pg-reset", proxied=("postgres",), expect=all_live)
def database_reset(chaos: Chaos) -> None:
    """Reset all connections to the database, five times."""
    for _ in range(5):
        strike(chaos)
        chaos.proxies["postgres"].reset()
    recovered(chaos)


@fault("pg-delay", proxied=("postgres",), expect=all_live)
def database_delayed(chaos: Chaos) -> None:
    """Delay everything between the roles and the database."""
    strike(chaos)
    chaos.proxies["postgres"].delay(DELAY_SECONDS)
    recovered(chaos)
    chaos.proxies["postgres"].heal()


@fault("pooler-restart", pooled=True, expect=all_live)
def pooler_restarted(chaos: Chaos) -> None:
    """Kill pgbouncer, through which all roles reach the database, and start it again; three times."""
    assert chaos.pooler is not None
    for _ in range(3):
        chaos.pause(0.5, 1.5)
        chaos.mark()
        chaos.pooler.kill()
        chaos.pause(0, 2)
        chaos.pooler.start()
        recovered(chaos)


def named_right(chaos: Chaos, counts: Counts) -> list[str]:
    """Check that no attempt was lost, and that no role took the broker's fault for one of the database."""
    complaints = nothing_lost(chaos, counts)
    if wrong := chaos.lines("the database .* cannot be used"):
        complaints.append(f"a fault of the broker is logged as one of the database: {wrong[0]}")
    return complaints


@fault("broker-half-open", brokers=MESSAGES, proxied=("broker",), traces=True, expect=named_right)
def broker_half_open(chaos: Chaos) -> None:
    """Forward nothing on the open connections to the broker, while new ones work."""
    strike(chaos)
    chaos.proxies["broker"].half_open()
    progress(chaos)


@fault("broker-swallow", brokers=MESSAGES, proxied=("broker",), traces=True, expect=named_right)
def broker_swallowed(chaos: Chaos) -> None:
    """Forward nothing to the broker for some seconds, on new connections neither."""
    strike(chaos)
    chaos.proxies["broker"].swallow()
    progress(chaos)
    time.sleep(AWAY_SECONDS)
    chaos.proxies["broker"].heal()


@fault("broker-reset", brokers=MESSAGES, proxied=("broker",), traces=True, expect=named_right)
def broker_reset(chaos: Chaos) -> None:
    """Reset all connections to the broker, five times."""
    for _ in range(5):
        strike(chaos)
        chaos.proxies["broker"].reset()
