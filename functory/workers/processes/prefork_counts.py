"""Prefork counts: the metrics of a prefork worker's children, shown by their parent.

Each child keeps its values in files that it has mapped into its memory (the multi-process values of prometheus_client,
one file for each kind of metric), so what a child has counted is there after it was killed. At a scrape the parent adds
to its own families what has been added to the files since the last scrape. The file of a child that has ended is read
once more and removed.

The library's own collector for such files was not taken: it keeps the files of all children that ever were, and reads
them at each scrape. A push of counts over a pipe was not taken either: a killed child takes along what it has counted
since its last push. Exemplars of children are lost, which the library does not keep in files.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client import Histogram, values
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.utils import floatToGoString

from functory.engine.telemetry import metrics, sandbox_metrics
from functory.engine.telemetry.registry import MetricRegistry

# A file system in memory, where there is one: the files are written with every count.
MEMORY = Path("/dev/shm")  # noqa: S108 - the folder in it is made by mkdtemp
PREFIX = "functory-metrics-"
LOCK = "lock"
_BUDGETS = {
    "function": metrics.function_label,
    "trigger": metrics.trigger_label,
    "type": metrics.type_label,
}

# The library has no public access to the values of a metric.
# pyright: reportPrivateUsage=false


class PreforkCounts:
    """Counts of the children of this process, in files of ``folder``. :meth:`open` in the parent, before it forks."""

    def __init__(self, registry: MetricRegistry, folder: Path) -> None:
        self._registry = registry
        self._folder = folder
        self._families = {family._name: family for family in registry.roles_of}
        self._lock = threading.Lock()
        # What was added from each file so far, by the library's keys, and the keys of gauges that were shown.
        self._added: dict[Path, dict[str, float]] = defaultdict(dict)
        self._gauges: set[str] = set()

    @classmethod
    @contextlib.contextmanager
    def open(cls, registry: MetricRegistry) -> Iterator[PreforkCounts]:
        """Show the counts of children inside the block."""
        within = MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir())
        _remove_stale(within)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=within))
        counts = cls(registry, folder)
        with (folder / LOCK).open("w") as lock:
            # Children inherit the lock: the folder is in use until the last of them has ended.
            fcntl.flock(lock, fcntl.LOCK_EX)
            registry.before_scrape.append(counts.add_new)
            try:
                yield counts
            finally:
                registry.before_scrape.remove(counts.add_new)
                shutil.rmtree(folder, ignore_errors=True)

    def begin_child(self) -> None:
        """In a child, before it counts: begin anew, with values in files. What the parent had is its own."""
        identity = f"{os.getpid()}-{secrets.token_hex(4)}"
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(self._folder)
        values.ValueClass = values.MultiProcessValue(lambda: identity)
        for family in self._families.values():
            if family._labelnames:
                # The lock may have been held at the fork.
                family._lock = threading.Lock()
                family._metrics = {}
            else:
                family._metric_init()

    def add_new(self) -> None:
        """Add what children have counted since the last call."""
        with self._lock:
            gauges: dict[str, list[float]] = defaultdict(list)
            ended: set[str] = set()
            for file in sorted(self._folder.glob("*.db")):
                # Asked before the file is read: nothing is written after the end.
                alive = _is_alive(file)
                kind = file.name.partition("_")[0]
                for key, value in _read(file):
                    if kind != "gauge":
                        self._add(key, value - self._added[file].get(key, 0.0))
                        self._added[file][key] = value
                    elif alive:
                        gauges[key].append(value)
                if not alive:
                    ended.add(_identity(file))
                    self._added.pop(file, None)
                    file.unlink()
            self._gauges |= gauges.keys()
            for key in self._gauges:
                self._set(key, gauges[key])
            sandbox_metrics.restarts.labels("child").inc(len(ended))

    def _add(self, key: str, more: float) -> None:
        if not more:
            return
        name, sample, labels, _ = json.loads(key)
        family = self._families[name]
        held: Any = self._held(family, labels)
        if not isinstance(family, Histogram):
            held._value.inc(more)
        elif sample.endswith("_sum"):
            held._sum.inc(more)
        else:
            bounds = [floatToGoString(bound) for bound in family._upper_bounds]
            held._buckets[bounds.index(labels["le"])].inc(more)

    def _set(self, key: str, found: list[float]) -> None:
        name, _, labels, _ = json.loads(key)
        family: Any = self._families[name]
        combine = sum if family._multiprocess_mode == "livesum" else max
        if found or combine is sum:
            self._held(family, labels).set(combine(found))

    def _held(self, family: MetricWrapperBase, labels: dict[str, str]) -> Any:
        """Return what holds the values of a series. Each child has label budgets of its own."""
        if not family._labelnames:
            return family
        return family.labels(
            *(
                _BUDGETS[name](labels[name]) if name in _BUDGETS else labels[name]
                for name in family._labelnames
            )
        )


def _remove_stale(within: Path) -> None:
    """Remove the folders of workers that were killed: nothing holds their lock."""
    for folder in within.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), (folder / LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


def _read(file: Path) -> Iterator[tuple[str, float]]:
    """Yield the values of a file by their keys; none of one that its child has not begun to write."""
    if file.stat().st_size:
        for key, value, *_ in MmapedDict.read_all_values_from_file(file):
            yield key, value


def _identity(file: Path) -> str:
    return file.stem.rpartition("_")[2]


def _is_alive(file: Path) -> bool:
    try:
        os.kill(int(_identity(file).partition("-")[0]), 0)
    except ProcessLookupError:
        return False
    return True
