"""The metrics of each role in a process of its own: what it can move, in a form that Prometheus' own tool accepts."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support import docs_reference_tables
from tests.support.patience import patient
from tests.support.processes import Role, Roles
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.services.redis import Redis

pytestmark = pytest.mark.redis

NAMES = ("server", "router", "scheduler", "watcher", "worker", "gateway")
ADD = "def add(a: int, b: int) -> int:\n    return a + b\n"


def scrape(role: Role) -> str:
    with urllib.request.urlopen(role.metrics, timeout=patient(10)) as answer:
        return answer.read().decode()


def total(role: Role, name: str, **labels: str) -> float:
    """The sum of a metric over the series with these labels."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(scrape(role))
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


@pytest.fixture(scope="module")
def scrapes(redis_server: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What each role of a deployment shows once a function was called by a client and by a trigger."""
    folder = tmp_path_factory.mktemp("deployment")
    with (
        Roles(
            folder,
            database_url=f"sqlite:///{folder}/rows.db",
            broker_url=redis_server.empty_database(),
            metrics_port=0,
            port=0,
        ) as roles,
    ):
        roles.migrate()
        pinned: dict[str, Any] = {"metrics_name_labels": "pinned", "metrics_pinned_names": '["add"]'}
        running = {name: roles.start(name, wait=False, **pinned) for name in NAMES}
        for role in running.values():
            role.wait_ready()
        with roles.client() as functory:
            functory.functions.save(ADD)
            functory.functions.save(ADD.replace("add", "other"))
            functory.register_trigger(
                "again",
                on={"type": ["execution.succeeded"], "subject": ["other"]},
                function="add",
                input={"a": 1, "b": 2},
            )
            assert functory.submit("other", 1, 2).result(patient(30)) == 3
        worker, scheduler = running["worker"], running["scheduler"]
        wait_for(lambda: total(worker, "functory_executions_finished_total") == 2, "both executions")
        wait_for(lambda: total(scheduler, "functory_functions") > -1, "a reading of the stored rows")
        yield {name: scrape(role) for name, role in running.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_role_shows_the_families_that_it_can_move_and_no_other(scrapes: dict[str, str], name: str) -> None:
    shown = {
        family.name for family in text_string_to_metric_families(scrapes[name]) if family.type != "unknown"
    }
    assert {one for one in shown if one.startswith("functory_")} == {
        family.removesuffix("_total")
        for family, _, _, _, roles in docs_reference_tables.families()
        if name in roles
    }
    assert "process_resident_memory_bytes" in shown
    assert f'role="{name}"' in scrapes[name]


@pytest.mark.parametrize("name", NAMES)
def test_prometheus_has_nothing_to_say_about_the_metrics(
    scrapes: dict[str, str], name: str, promtool: Path
) -> None:
    found = subprocess.run(
        [promtool, "check", "metrics"], input=scrapes[name], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_only_pinned_names_are_labels_where_the_settings_say_so(scrapes: dict[str, str]) -> None:
    names = {
        sample.labels["function"]
        for family in text_string_to_metric_families(scrapes["worker"])
        for sample in family.samples
        if "function" in sample.labels
    }
    assert names == {"add", "_other"}


def test_the_counts_of_a_killed_child_of_a_prefork_pool_stay(tmp_path: Path, redis_url: str) -> None:
    with Roles(
        tmp_path, database_url=f"sqlite:///{tmp_path}/rows.db", broker_url=redis_url, metrics_port=0
    ) as roles:
        roles.migrate()
        worker = roles.start("worker", "--pool", "prefork", "--slots", "2")
        roles.start("router")

        def idle() -> bool:
            return total(worker, "functory_worker_slots", state="idle") == 2

        with roles.client() as functory:
            functory.functions.save(ADD)
            assert functory.gather([functory.submit("add", n, 1) for n in range(10)], timeout=patient(60))
            wait_for(lambda: _finished(worker) == 10, "ten executions")
            wait_for(idle, "two slots that are free")
            children = {
                int(row["id"].split(":")[1])
                for row in _workers(functory)
                if int(row["id"].split(":")[1]) != worker.pid
            }
            assert len(children) == 2
            victim = children.pop()
            os.kill(victim, signal.SIGKILL)
            wait_for(lambda: not psutil.pid_exists(victim), "the end of the child")
            assert _finished(worker) == 10
            wait_for(lambda: idle() and total(worker, "functory_worker_restarts_total", reason="child") == 1)
            assert functory.gather([functory.submit("add", n, 1) for n in range(10)], timeout=patient(60))
            wait_for(lambda: _finished(worker) == 20, "twenty executions")


def _finished(worker: Role) -> float:
    return total(worker, "functory_executions_finished_total", function="add", status="succeeded")


def _workers(functory: object) -> list[dict[str, str]]:
    from functory.engine.executions import worker_registry

    return worker_registry.alive(functory.database, 60)  # type: ignore[attr-defined]
