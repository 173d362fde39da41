"""``python -m benchmarks.soak [--minutes 30] [--broker rabbitmq|redis] [--out FILE] [--plot FILE.svg]``

Half of the highest rate for a long time, and whether anything grows: memory, open files and threads of each role,
connections of the database, its size, rows of the tables that work makes, what waits. The highest rate is measured
first, in the same run. Old rows are pruned while it runs, so that the size has a level.

The verdict compares the mean of the second quarter with that of the last: the first is warming up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa

from benchmarks.speed.servers import programs
from functory.client.functory import Functory
from functory.engine.database.connection import Database
from functory.engine.maintenance import invariants, tree_deletion
from tests.support.processes import Role, Roles

SLOTS = 4
SAMPLE_SECONDS = 10.0
WARM_UP = 300

# What finished longer ago than this is deleted: a scheduler would keep it for days, and there would be no level.
KEEP_FOR = timedelta(minutes=5)

TABLES = ("event", "outbox", "firing", "execution", "attempt", "log", "span", "budget", "suppression")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--broker", choices=("rabbitmq", "redis"), default="rabbitmq")
    parser.add_argument("--rate", type=float, help="executions a second; half of the highest when not given")
    parser.add_argument("--out", type=Path, help="write every sample, one JSON object a line")
    parser.add_argument("--plot", type=Path, help="draw the samples into this SVG file (needs matplotlib)")
    parser.add_argument("--from", dest="source", type=Path, help="draw and judge samples of an earlier run")
    given = parser.parse_args()
    if given.source is not None:
        samples = [json.loads(line) for line in given.source.read_text().splitlines()]
    else:
        samples = soak(given.minutes * 60, given.broker, given.rate, given.out)
    steady = compare_quarters(samples)
    if given.plot is not None:
        from benchmarks.plot import draw

        draw(samples, given.plot)
    return 0 if steady else 1


def soak(seconds: float, broker: str, rate: float | None, out: Path | None) -> list[dict[str, Any]]:
    """Run for this number of seconds. Returns a sample for every ten."""
    with deployment(broker) as (engine, roles):
        engine.functions.save("def noop(event=None):\n    return 1\n")
        engine.register_trigger("soak", on={"type": ["soak.tick"]}, function="noop")
        engine.call("noop")
        if rate is None:
            highest = highest_rate(engine)
            rate = highest / 2
            print(f"highest rate {highest:.1f} executions/s; soaking at {rate:.1f}", flush=True)
        samples: list[dict[str, Any]] = []
        ending = threading.Event()
        sent = [0]
        sender = threading.Thread(target=send, args=(engine, rate, sent, ending), daemon=True)
        pruner = threading.Thread(target=prune, args=(engine.database, ending), daemon=True)
        sender.start()
        pruner.start()
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            samples.append(
                {"seconds": round(passed, 1), "sent": sent[0]} | take_sample(engine.database, roles)
            )
            if out is not None:
                with out.open("a") as stream:
                    stream.write(json.dumps(samples[-1]) + "\n")
            ending.wait(max(0.0, len(samples) * SAMPLE_SECONDS - (time.monotonic() - began)))
        ending.set()
        sender.join()
        pruner.join()
        engine.settle(600)
        broken = [r for r in invariants.verify(engine.database, roles.settings, patience=0) if r.count]
        print(f"sent {sent[0]} events; invariants broken: {[r.code for r in broken] or 'none'}", flush=True)
        for result in broken:
            print(f"  {result.code} {result.title}: {result.count}; {result.examples[0]}")
    return samples


def highest_rate(engine: Functory, count: int = WARM_UP) -> float:
    """Executions per second from events, all sent at once."""
    start = time.perf_counter()
    for number in range(count):
        engine.events.emit("soak.tick", {"n": number})
    engine.settle(600)
    return count / (time.perf_counter() - start)


def send(engine: Functory, rate: float, sent: list[int], stopping: threading.Event) -> None:
    """Emit at this rate, whatever the other side does."""
    began = time.monotonic()
    while not stopping.is_set():
        due = int((time.monotonic() - began) * rate) - sent[0]
        for _ in range(due):
            engine.events.emit("soak.tick", {"n": sent[0]})
            sent[0] += 1
        stopping.wait(0.02)


def prune(database: Database, stopping: threading.Event) -> None:
    """Delete what is old, as the scheduler's pruner does: it rests as long after each step as the step took."""
    while not stopping.wait(SAMPLE_SECONDS):
        began = time.monotonic()
        for _ in tree_deletion.prune(database, tree_deletion.RetentionLimits(KEEP_FOR, KEEP_FOR)):
            if stopping.wait(time.monotonic() - began):
                return
            began = time.monotonic()


def take_sample(database: Database, roles: Roles) -> dict[str, Any]:
    """One sample."""
    found: dict[str, Any] = {}
    for role in roles.started:
        found |= {f"{role.name}.{key}": value for key, value in process_usage(role).items()}
    with database.read() as tx:
        found["database.mib"] = tx.scalar(sa.text("SELECT pg_database_size(current_database())")) / 2**20
        found["database.connections"] = tx.scalar(
            sa.text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        )
        for table in TABLES:
            found[f"rows.{table}"] = tx.scalar(sa.text(f"SELECT count(*) FROM {table}"))
        for state in ("queued", "running"):
            found[f"executions.{state}"] = tx.scalar(
                sa.text("SELECT count(*) FROM execution WHERE state = :state").bindparams(state=state)
            )
    return {key: round(float(value), 2) for key, value in found.items()}


def process_usage(role: Role) -> Mapping[str, float]:
    """Memory (MiB, without what is shared), open files, threads and processes of a role with all below it."""
    main = psutil.Process(role.pid)
    memory, files, threads, count = 0, 0, 0, 0
    for process in [main, *main.children(recursive=True)]:
        try:
            memory += process.memory_full_info().uss
            files += process.num_fds()
            threads += process.num_threads()
            count += 1
        except psutil.Error:
            # A function's process lives for milliseconds.
            continue
    return {"mib": memory / 2**20, "files": files, "threads": threads, "processes": count}


def compare_quarters(samples: Sequence[Mapping[str, float]]) -> bool:
    """Print the second and the last quarter of each figure; False when one of a role or of the database grows."""
    quarter = max(1, len(samples) // 4)
    second, last = samples[quarter : 2 * quarter], samples[-quarter:]
    print(f"{'':28}{'2nd quarter':>12}{'last':>12}{'ratio':>8}")
    steady = True
    for key in samples[0]:
        if key in ("seconds", "sent"):
            continue
        before, after = (statistics.fmean(sample[key] for sample in part) for part in (second, last))
        ratio = after / before if before else float(after > 0)
        # A few rows or threads more or less are no growth.
        grows = ratio > 1.1 and after - before > 10
        steady = steady and not grows
        print(f"{key:28}{before:>12.1f}{after:>12.1f}{ratio:>8.2f}{'  grows' if grows else ''}")
    return steady


@contextmanager
def deployment(broker: str) -> Iterator[tuple[Functory, Roles]]:
    """Router, scheduler and one worker on PostgreSQL and a broker."""
    from tests.services.postgres import Postgres
    from tests.services.rabbitmq import RabbitMQ
    from tests.services.redis import Redis

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database = stack.enter_context(stack.enter_context(Postgres(programs("postgres"))).database())
        if broker == "redis":
            url = stack.enter_context(Redis(programs("redis"))).empty_database()
        else:
            url = stack.enter_context(stack.enter_context(RabbitMQ(programs("rabbitmq"))).virtual_host())
        roles = stack.enter_context(
            Roles(
                folder,
                by_exec=True,
                database_url=database,
                broker_url=url,
                worker_slots=SLOTS,
                log_level="warning",
            )
        )
        roles.migrate()
        for role in (("router",), ("scheduler",), ("worker", "--slots", str(SLOTS))):
            roles.start(*role)
        yield stack.enter_context(roles.client()), roles


if __name__ == "__main__":
    sys.exit(main())
