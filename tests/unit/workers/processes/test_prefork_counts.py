"""What children of a prefork worker have counted is shown by their parent: all of it, and once."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import Counter, Gauge, Histogram

from functory.engine.telemetry.registry import MetricRegistry
from functory.workers.processes.prefork_counts import LOCK, MEMORY, PREFIX, PreforkCounts


class Families:
    """Families of each type, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = MetricRegistry()
        self.done = Counter("done_total", "Text.", ["function"], registry=self.registry)
        self.bare = Counter("bare_total", "Text.", registry=self.registry)
        self.seconds = Histogram("seconds", "Text.", ["op"], registry=self.registry, buckets=(1, 2))
        self.slots = Gauge("slots", "Text.", registry=self.registry, multiprocess_mode="livesum")
        for family in (self.done, self.bare, self.seconds, self.slots):
            self.registry.roles_of[family] = frozenset({"worker"})

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
def families() -> Families:
    return Families()


@pytest.fixture
def counts(families: Families) -> Iterator[PreforkCounts]:
    with PreforkCounts.open(families.registry) as opened:
        yield opened


class Child:
    """A forked child that counts when it gets a byte, and is killed."""

    def __init__(self, counts: PreforkCounts, count: Callable[[], None]) -> None:
        told, self._tell = os.pipe()
        self._said, say = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._tell)
                counts.begin_child()
                while os.read(told, 1):
                    count()
                    os.write(say, b"x")
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(told)
        os.close(say)

    def count(self) -> None:
        os.write(self._tell, b"x")
        assert os.read(self._said, 1)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._tell)
        os.close(self._said)


def test_nothing_is_lost_with_a_killed_child_and_nothing_is_counted_twice(
    families: Families, counts: PreforkCounts
) -> None:
    families.bare.inc(5)

    def count() -> None:
        families.done.labels("add").inc()
        families.bare.inc(2)
        families.seconds.labels("x").observe(1.5)
        families.slots.set(1)

    def shown() -> tuple[float | None, ...]:
        families.registry.shown()
        return (
            families.value("done_total", function="add"),
            families.value("bare_total"),
            families.value("seconds_count", op="x"),
            families.value("seconds_sum", op="x"),
            families.value("seconds_bucket", op="x", le="1.0"),
            families.value("slots"),
        )

    first, second = Child(counts, count), Child(counts, count)
    assert shown() == (None, 5, None, None, None, 0)
    first.count()
    second.count()
    assert shown() == shown() == (2, 9, 2, 3, 0, 2)
    # Counted after the last scrape, and gone.
    first.count()
    first.kill()
    assert shown() == shown() == (3, 11, 3, 4.5, 0, 1)
    third = Child(counts, count)
    third.count()
    assert shown() == (4, 13, 4, 6, 0, 2)
    second.kill()
    third.kill()
    assert shown() == (4, 13, 4, 6, 0, 0)


def test_the_folder_of_a_killed_worker_is_removed_by_the_next_one(families: Families) -> None:
    with PreforkCounts.open(families.registry):
        living = {*MEMORY.glob(f"{PREFIX}*")}
        killed = MEMORY / f"{PREFIX}killed"
        killed.mkdir()
        (killed / LOCK).touch()
        with PreforkCounts.open(Families().registry):
            assert not killed.exists()
            assert living <= {*MEMORY.glob(f"{PREFIX}*")}
