"""The server of the broker: what it may not be set to, because messages would be lost or refused.

The rows are the truth, so a lost message costs a delay. A broker that loses or refuses messages all the time makes each
execution wait for the poll of a worker, and subscribers miss events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from functory.engine.events import exchange
from functory.engine.server_problem import ServerProblem
from functory.engine.settings import Settings

# The oldest RabbitMQ that distributions in support have.
_OLDEST_RABBITMQ = (3, 8)


def problems(settings: Settings) -> list[ServerProblem]:
    """Return what is not as Functory needs it, the gravest first; nothing without a broker. Raises
    :class:`Unavailable`.
    """
    if settings.embedded or settings.brokerless:
        return []
    connection = exchange.connect(settings.broker)
    try:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=exchange.PUBLISH_SECONDS)
        channel: Any = connection.channel()
        if connection.transport.driver_type == "redis":
            found = list(_of_redis(channel.client.info()))
        else:
            found = list(_of_rabbitmq(channel.connection.server_properties))
        # What a publisher does first: it shows missing permissions, and a server that takes no writes.
        if not any(one.grave for one in found):
            exchange.topic_exchange(settings.namespace)(channel).declare()
    except Exception as error:
        raise exchange.broker_unavailable(error) from error
    finally:
        connection.release()
    return sorted(found, key=lambda problem: not problem.grave)


def _of_redis(info: dict[str, Any]) -> Iterator[ServerProblem]:
    if info.get("cluster_enabled"):
        yield ServerProblem(
            "the Redis server is part of a cluster",
            "the keys of one queue are on several nodes, and a transaction of Redis cannot use several",
            "name a Redis without cluster mode (cluster-enabled no) in FUNCTORY_BROKER_URL",
            grave=True,
        )
    if info.get("role") == "slave":
        yield ServerProblem(
            "the Redis server takes no writes",
            "it is a replica",
            "name its primary in FUNCTORY_BROKER_URL, or: REPLICAOF NO ONE",
            grave=True,
        )
    if str(info.get("maxmemory_policy", "")).startswith("allkeys"):
        yield ServerProblem(
            "Redis deletes queues when its memory is full",
            f"maxmemory-policy is {info['maxmemory_policy']}",
            "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
        )


def _of_rabbitmq(properties: dict[str, Any]) -> Iterator[ServerProblem]:
    version = str(properties.get("version", ""))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if properties.get("product") == "RabbitMQ" and len(numbers) == 2 and numbers < _OLDEST_RABBITMQ:
        yield ServerProblem(
            f"RabbitMQ {version} is old",
            f"its makers maintain no version before {'.'.join(map(str, _OLDEST_RABBITMQ))}",
            "upgrade RabbitMQ",
        )
