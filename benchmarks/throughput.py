"""Executions per second, and the time from ``emit()`` to the start of the function, beside plain Celery.

Three deployments: embedded (SQLite, in-memory transport), PostgreSQL + Redis, PostgreSQL + RabbitMQ. In
each the same worker slots run a no-op function and, in the same run and taking turns, a no-op task
of plain Celery on the same broker. The function's start is the time that it writes itself.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from celery import Celery

from functory.client import Functory
from functory.engine.settings import load_settings
from tests.services.installation import Missing, find
from tests.support.processes import Roles

COUNT = 400
RATE = 20
LATENCY_SAMPLES = 100
ROUNDS = 3
SLOTS = 4

SOURCE = "def noop(event=None):\n    import time\n    return time.time()\n"


def run(*, quiet: bool = False) -> dict[str, Any]:
    """All deployments that this machine can run; prints a table unless ``quiet``. Returns the figures."""
    figures: dict[str, Any] = {}
    for name, deployment in (
        ("embedded", embedded),
        ("postgres+redis", on_redis),
        ("postgres+rabbitmq", on_rabbitmq),
    ):
        with tempfile.TemporaryDirectory() as folder:
            try:
                with deployment(Path(folder)) as (engine, peer):
                    figures[name] = compare(engine, peer)
            except LookupError as error:
                figures[name] = {"skipped": str(error)}
        if not quiet:
            show(name, figures[name])
    return figures


def compare(engine: Functory, peer: CeleryPeer) -> dict[str, Any]:
    """Interleaved rounds of ours and the peer's."""
    engine.functions.save(SOURCE)
    engine.register_trigger("bench", on={"type": ["bench.tick"]}, function="noop")
    engine.call("noop")
    peer.rate(20)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(throughput(engine))
        theirs.append(peer.rate(COUNT))
    late, peer_late = latency(engine), peer.latencies(LATENCY_SAMPLES, RATE)
    result = {
        "executions_per_second": statistics.median(ours),
        "celery_tasks_per_second": statistics.median(theirs),
        "throughput_ratio": statistics.median(a / b for a, b in zip(ours, theirs, strict=True)),
        "emit_to_start_ms": quantiles(late),
        "celery_send_to_start_ms": quantiles(peer_late),
    }
    result["latency_ratio_p50"] = result["emit_to_start_ms"]["p50"] / result["celery_send_to_start_ms"]["p50"]
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in result.items()}


def throughput(engine: Functory) -> float:
    """Executions per second, from the first submit to the last result."""
    start = time.perf_counter()
    handles = [engine.submit("noop") for _ in range(COUNT)]
    engine.gather(handles, timeout=300)
    return COUNT / (time.perf_counter() - start)


def latency(engine: Functory) -> list[float]:
    """Seconds from before ``emit()`` to the first line of the triggered function, at ``RATE`` events a second."""
    sent: dict[str, float] = {}
    for _ in range(LATENCY_SAMPLES):
        now = time.time()
        sent[engine.emit("bench.tick", {})] = now
        time.sleep(max(0.0, 1 / RATE - (time.time() - now)))
    engine.settle(120)
    rows = engine.executions.list(function="noop", limit=1000)
    return [row["result"] - sent[row["event_id"]] for row in rows if row["event_id"] in sent]


class CeleryPeer:
    """Plain Celery with a worker of its own."""

    def __init__(self, broker: str, folder: Path) -> None:
        self._file = folder / "peer.txt"
        self._environment = os.environ | {
            "PEER_BROKER": broker,
            "PEER_FILE": str(self._file),
            "C_FORCE_ROOT": "1",
        }
        os.environ["PEER_FILE"] = str(self._file)
        self._app = Celery("peer", broker=broker, set_as_current=False)
        self._app.conf.task_default_queue = "peer"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> CeleryPeer:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "celery",
                "-A",
                "benchmarks.plain",
                "worker",
                "--pool",
                "threads",
                "-c",
                str(SLOTS),
                "--without-gossip",
                "--without-mingle",
                "--without-heartbeat",
                "-l",
                "ERROR",
            ],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)

    def rate(self, count: int) -> float:
        """Tasks per second, from the first send to the last start."""
        self._file.write_text("")
        start = time.perf_counter()
        for _ in range(count):
            self._app.send_task("peer.noop", args=[time.time()])
        self._wait(count)
        return count / (time.perf_counter() - start)

    def latencies(self, count: int, rate: int) -> list[float]:
        """Seconds from before the send to the start of the task."""
        self._file.write_text("")
        for _ in range(count):
            now = time.time()
            self._app.send_task("peer.noop", args=[now])
            time.sleep(max(0.0, 1 / rate - (time.time() - now)))
        self._wait(count)
        return [float(line) for line in self._file.read_text().split()]

    def _wait(self, count: int) -> None:
        deadline = time.monotonic() + 120
        while self._file.read_bytes().count(b"\n") < count:
            if time.monotonic() > deadline:
                raise RuntimeError("the peer did not finish")
            time.sleep(0.002)


class EmbeddedCeleryPeer(CeleryPeer):
    """Plain Celery over the in-memory transport, its worker in a thread, as a test would run it."""

    def __enter__(self) -> CeleryPeer:
        from benchmarks import plain
        from functory.workers.processes.embedded_worker import EmbeddedWorker

        self._app = plain.app
        self._app.conf.broker_transport_options = {"polling_interval": 0.01}
        # Our thread for a Celery worker, with an app that has no executor to close.
        self._app.close_executor = lambda: None
        self._worker = EmbeddedWorker(self._app, SLOTS)
        self._worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()


@contextlib.contextmanager
def embedded(folder: Path) -> Iterator[tuple[Functory, CeleryPeer]]:
    """SQLite and the in-memory transport."""
    with (
        Functory(load_settings(home=folder, worker_slots=SLOTS)) as engine,
        EmbeddedCeleryPeer("memory://", folder) as peer,
    ):
        yield engine.start(), peer


@contextlib.contextmanager
def on_redis(folder: Path) -> Iterator[tuple[Functory, CeleryPeer]]:
    """PostgreSQL and Redis."""
    from tests.services.redis import Redis

    with (
        Redis(_programs("redis")) as redis,
        servers(folder, redis.empty_database(), redis.empty_database()) as both,
    ):
        yield both


@contextlib.contextmanager
def on_rabbitmq(folder: Path) -> Iterator[tuple[Functory, CeleryPeer]]:
    """PostgreSQL and RabbitMQ."""
    from tests.services.rabbitmq import RabbitMQ

    with (
        RabbitMQ(_programs("rabbitmq")) as rabbit,
        rabbit.virtual_host() as ours,
        rabbit.virtual_host() as theirs,
        servers(folder, ours, theirs) as both,
    ):
        yield both


@contextlib.contextmanager
def servers(folder: Path, broker: str, peer_broker: str) -> Iterator[tuple[Functory, CeleryPeer]]:
    """Router, scheduler and one worker as processes, beside the peer's worker."""
    from tests.services.postgres import Postgres

    with (
        Postgres(_programs("postgres")) as postgres,
        postgres.database() as database,
        Roles(
            folder,
            by_exec=True,
            database_url=database,
            broker_url=broker,
            worker_slots=SLOTS,
            log_level="warning",
        ) as roles,
    ):
        roles.migrate()
        for role in (("router",), ("scheduler",), ("worker", "--slots", str(SLOTS))):
            roles.start(*role)
        with roles.client() as engine, CeleryPeer(peer_broker, folder) as peer:
            yield engine, peer


def _programs(service: str) -> Any:
    found = find(service)
    if isinstance(found, Missing):
        raise LookupError(f"{service} is not installed")
    return found.programs


def quantiles(values: list[float]) -> dict[str, float]:
    """p50 and p99 in milliseconds."""
    ordered = sorted(values)
    return {
        "p50": round(ordered[len(ordered) // 2] * 1000, 2),
        "p99": round(ordered[int(len(ordered) * 0.99)] * 1000, 2),
    }


def show(name: str, figures: dict[str, Any]) -> None:
    """One deployment's figures, for people."""
    print(f"\n{name}")
    if "skipped" in figures:
        print(f"  skipped: {figures['skipped']}")
        return
    rate, peer = figures["executions_per_second"], figures["celery_tasks_per_second"]
    print(
        f"  executions/s       {rate:>9.1f}   plain Celery {peer:>9.1f}"
        f"   ratio {figures['throughput_ratio']:.3f}"
    )
    late = figures["latency_ratio_p50"]
    ours, theirs = figures["emit_to_start_ms"], figures["celery_send_to_start_ms"]
    print(
        f"  emit → start p50   {ours['p50']:>9.2f} ms  plain Celery {theirs['p50']:>9.2f} ms  ratio {late:.2f}"
    )
    print(f"  emit → start p99   {ours['p99']:>9.2f} ms  plain Celery {theirs['p99']:>9.2f} ms")


if __name__ == "__main__":
    run()
