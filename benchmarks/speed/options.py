"""The command line: ``python -m benchmarks.speed --help``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path

DEPLOYMENTS = ("rabbitmq", "redis", "embedded")
PEERS = ("celery", "celery-results", "dbos", "procrastinate", "babyagi")
LOADS = ("burst", "stream", "calls")


@dataclass(frozen=True)
class Options:
    """What to measure. Field names are those of the command line."""

    deployments: tuple[str, ...] = DEPLOYMENTS
    peers: tuple[str, ...] = PEERS
    loads: tuple[str, ...] = LOADS
    events: int = 4000
    pairs: int = 5
    calls: int = 300
    stream_seconds: float = 10.0
    workers: int = 1
    routers: int = 1
    slots: int = 4
    together: bool = False
    reuse: bool = True
    subscriber: bool = True
    fsync: bool = True
    statements: bool = False
    history: tuple[int, ...] = ()
    triggers: int = 0
    functions: int = 0
    queued: int = 0
    folder: Path | None = None
    profile: Path | None = None
    check: bool = False
    json: bool = False


def parse(arguments: list[str]) -> Options:
    """Read the command line; ends the process on a wrong one."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed", description="Measure whole deployments beside other systems."
    )
    default = Options()
    add = parser.add_argument
    add("--deployments", nargs="+", choices=DEPLOYMENTS, help="PostgreSQL with a broker, or embedded SQLite")
    add("--peers", nargs="*", choices=PEERS, help="the other systems that take turns with this one")
    add("--loads", nargs="+", choices=LOADS, help="all by default")
    add("--events", type=int, help=f"events of a burst ({default.events})")
    add("--pairs", type=int, help=f"bursts of each system ({default.pairs})")
    add("--calls", type=int, help=f"calls, one after the other ({default.calls})")
    add("--stream-seconds", type=float, help=f"length of each stream ({default.stream_seconds:g})")
    add("--workers", type=int, help="worker processes, also of the peers (1)")
    add("--routers", type=int, help="router processes (1)")
    add("--together", action="store_true", help="router and scheduler in one process")
    add("--slots", type=int, help=f"slots of a worker, also of the peers' ({default.slots})")
    add(
        "--fork", dest="reuse", action="store_false", help="a new child for each execution, not a warm runner"
    )
    add("--no-subscriber", dest="subscriber", action="store_false", help="no process is bound to the events")
    add("--fsync", choices=("on", "off"), help="off: PostgreSQL does not wait for the disk (on)")
    add("--statements", action="store_true", help="list the SQL statements of an execution")
    add(
        "--history",
        type=int,
        nargs="+",
        help="then fill in this number of executions of the past, and measure again",
    )
    add("--triggers", type=int, help="then add triggers that match none of the events, and measure again")
    add("--queued", type=int, help="then queue executions that are due tomorrow, and measure again")
    add(
        "--functions",
        type=int,
        help="then send the bursts to this number of functions in turn, and measure again",
    )
    add("--folder", type=Path, help="where the databases are written; its disk is measured (the system's)")
    add(
        "--profile",
        type=Path,
        help="write a CPU profile of each process there; the rates are then worth nothing",
    )
    add(
        "--check",
        action="store_true",
        help="one small burst, whose counts must be below benchmarks/speed/gates.toml",
    )
    add("--json", action="store_true", help="the last line is one JSON object")
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    if "fsync" in given:
        given["fsync"] = given["fsync"] == "on"
    for name in ("deployments", "peers", "loads", "history"):
        if name in given:
            given[name] = tuple(given[name])
    assert set(given) <= {field.name for field in fields(Options)}
    return Options(**given)
