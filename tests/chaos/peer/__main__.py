"""``python -m tests.chaos.peer [--broker redis|rabbitmq] [--json]``: the same kills on plain Celery and on Functory.

Twelve tasks of two seconds, one worker of two slots, one fault when the first tasks run; a supervisor starts an ended
worker anew. A task is *lost* when it has not ended 34 s after the last progress. *Begun twice* and *ended twice* are
counted from the lines that the tasks wrote. The study of reliability (section 4.2) describes the scenarios.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.chaos.peer.compared_systems import SECONDS, TASKS, Ours, PlainCelery, Side
from tests.services.installation import Missing, find
from tests.services.postgres import Postgres
from tests.services.rabbitmq import RabbitMQ
from tests.services.redis import Redis
from tests.services.server import Server
from tests.support.patience import patient

# Longer than Functory's lease and redispatch here, shorter than Celery's visibility timeout of an hour.
PATIENCE = 34.0

LATE: Mapping[str, Any] = {"task_acks_late": True}
REJECT: Mapping[str, Any] = LATE | {"task_reject_on_worker_lost": True}


def kill_group(side: Side, _: Server) -> None:
    """Kill the worker and all its descendants, as when a machine dies."""
    main, _busy = side.worker_processes()
    for process in [main, *main.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    main.wait(patient(20))
    side.new_worker()


def kill_child(side: Side, _: Server) -> None:
    """Kill one process that runs a task, as the kernel does when memory is short."""
    _main, busy = side.worker_processes()
    busy[0].kill()


def kill_main(side: Side, _: Server) -> None:
    """Kill the worker's main process alone."""
    main, _busy = side.worker_processes()
    main.kill()
    main.wait(patient(20))
    side.new_worker()


def restart_broker(_: Side, server: Server) -> None:
    """Restart the broker softly. Redis stores nothing on disk here."""
    server.restart()


def no_fault(_: Side, __: Server) -> None:
    """Do nothing, for comparison."""


@dataclass(frozen=True)
class Scenario:
    """A fault and the options of the Celery side; without options the side is Functory."""

    name: str
    act: Callable[[Side, Server], None]
    celery: Mapping[str, Any] | None = None
    seconds: float = SECONDS
    brokers: tuple[str, ...] = ("redis", "rabbitmq")


SCENARIOS = (
    Scenario("kill -9 of the whole worker", kill_group, {}),
    Scenario("kill -9 of the whole worker", kill_group, LATE),
    Scenario("kill -9 of the whole worker", kill_group),
    Scenario("kill -9 of a task's process", kill_child, {}),
    Scenario("kill -9 of a task's process", kill_child, LATE),
    Scenario("kill -9 of a task's process", kill_child, REJECT),
    Scenario("kill -9 of a task's process", kill_child),
    Scenario("kill -9 of the worker's main process", kill_main, LATE),
    Scenario("kill -9 of the worker's main process", kill_main),
    Scenario("restart of the broker", restart_broker, {}),
    Scenario("restart of the broker", restart_broker, LATE),
    Scenario("restart of the broker", restart_broker),
    Scenario(
        "no fault, tasks longer than the visibility timeout",
        no_fault,
        LATE | {
            "broker_transport_options": {
                "visibility_timeout": 3, "unacked_restore_interval": 1, "unacked_restore_throttle": 1,
            }
        },
        seconds=8.0,
        brokers=("redis",),
    ),
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.peer", description=__doc__)
    parser.add_argument(
        "--broker", choices=("redis", "rabbitmq"), action="append", help="the default is both"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a scenario")
    given = parser.parse_args()
    if not given.json:
        print(
            "| fault | broker | side | lost | begun twice | ended twice | seconds |\n|---|---|---|---|---|---|---|"
        )
    bad = 0
    for broker in given.broker or ("redis", "rabbitmq"):
        for scenario in SCENARIOS:
            if broker in scenario.brokers:
                figures = {"fault": scenario.name, "broker": broker, "side": side_of(scenario)} | run(
                    scenario, broker
                )
                print(json.dumps(figures) if given.json else row(figures), flush=True)
                bad += scenario.celery is None and bool(figures["lost"])
    return 1 if bad else 0


def run(scenario: Scenario, broker: str) -> dict[str, Any]:
    """Run one scenario on servers of its own. Returns the counts."""
    with tempfile.TemporaryDirectory(prefix="functory-peer-") as name, server_of(broker) as (server, url):
        folder = Path(name)
        folder.chmod(0o755)
        with side_for(scenario, folder, url) as side:
            side.send()
            side.wait_for_begun(2)
            time.sleep(min(0.5, SECONDS / 4))
            scenario.act(side, server)
            took = side.wait(PATIENCE)
            # A second run of a task may still be running.
            time.sleep(SECONDS * 2)
            begun, ended = side.begun(), side.ended()
    return {
        "lost": TASKS - len(ended),
        "begun_twice": sum(count > 1 for count in begun.values()),
        "ended_twice": sum(count > 1 for count in ended.values()),
        "seconds": round(took, 1),
    }


@contextlib.contextmanager
def side_for(scenario: Scenario, folder: Path, url: str) -> Iterator[Side]:
    """The side of a scenario: Celery, or Functory with a database of its own."""
    if scenario.celery is not None:
        with PlainCelery(folder, url, scenario.celery, scenario.seconds) as celery:
            yield celery
        return
    with (
        Postgres(programs("postgres")) as postgres,
        postgres.database() as database,
        Ours(folder, url, database) as ours,
    ):
        yield ours


@contextlib.contextmanager
def server_of(broker: str) -> Iterator[tuple[Server, str]]:
    """The broker's server, and the URL of an empty database or virtual host on it."""
    if broker == "redis":
        with Redis(programs("redis")) as redis:
            yield redis, redis.empty_database()
        return
    with RabbitMQ(programs("rabbitmq")) as rabbit, rabbit.virtual_host() as url:
        yield rabbit, url


def side_of(scenario: Scenario) -> str:
    """The side's name in the table."""
    if scenario.celery is None:
        return "Functory"
    if "task_reject_on_worker_lost" in scenario.celery:
        return "Celery, late ack + reject_on_worker_lost"
    return "Celery, late ack" if scenario.celery else "Celery, early ack (default)"


def row(figures: Mapping[str, Any]) -> str:
    """One row of the Markdown table."""
    keys = ("fault", "broker", "side", "lost", "begun_twice", "ended_twice", "seconds")
    return "| " + " | ".join(str(figures[key]) for key in keys) + " |"


def programs(service: str) -> Any:
    """The paths of a service's programs. Raises :class:`LookupError` when it is not installed."""
    found = find(service)
    if isinstance(found, Missing):
        raise LookupError(f"{service} is not installed: python -m tests.services --install")
    return found.programs


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    sys.exit(main())
