"""The scheduler hands out whole groups, and goes on when processes of the run die."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.groups import VARIABLE, GroupScheduling

TESTS = ["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3", "d1", "d2", "d3"]


class Process:
    """A process of a run, as far as the scheduler sees it."""

    gateway = SimpleNamespace(id="gw")
    shutting_down = False

    def __init__(self) -> None:
        self.given: list[str] = []

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.given += [TESTS[number] for number in numbers]

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def scheduling(tmp_path, monkeypatch) -> GroupScheduling:
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({test: test[0] for test in TESTS}))
    monkeypatch.setenv(VARIABLE, str(file))
    config: Any = SimpleNamespace(option=SimpleNamespace(), getvalue={"tx": ["2*popen"]}.get)
    return GroupScheduling(config, None)


def ready(scheduling: GroupScheduling) -> Any:
    process: Any = Process()
    scheduling.add_node(process)
    return process


def begin(scheduling: GroupScheduling) -> tuple[Any, Any]:
    processes = ready(scheduling), ready(scheduling)
    for process in processes:
        scheduling.add_node_collection(process, TESTS)
    scheduling.schedule()
    return processes


def test_a_process_gets_a_group_and_the_next_one_when_it_has_nearly_ended(scheduling):
    first, second = begin(scheduling)
    assert (first.given, second.given) == (TESTS[:3], TESTS[3:6])
    scheduling.mark_test_complete(first, 0)
    assert first.given == TESTS[:3] + TESTS[6:9]
    for test in (1, 2):
        scheduling.mark_test_complete(first, test)
    assert second.given == TESTS[3:6]


def test_tests_of_processes_that_die_together_go_to_those_that_replace_them(scheduling):
    first, second = begin(scheduling)
    assert scheduling.remove_node(first) == "a1"
    third = ready(scheduling)
    # The third process is still collecting when the second one dies.
    scheduling.remove_node(second)
    fourth = ready(scheduling)
    for process in (third, fourth):
        scheduling.add_node_collection(process, TESTS)
        scheduling.schedule()
    for process in (third, fourth) * 3:
        for test in process.given:
            if test in scheduling.assigned_work[process].get(test[0], {}):
                scheduling.mark_test_complete(process, TESTS.index(test))
    assert sorted(third.given + fourth.given) == TESTS
