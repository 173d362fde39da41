"""Runs the tests of one group in one process, in their order.

pytest-xdist writes its groups into the ids of tests, which pytest 9.2 does not allow any more. Here the first process
writes the group of each test to a file, and the controller, which distributes the tests, reads it.
"""

from __future__ import annotations

import json
import os
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

VARIABLE = "TESTS_GROUPS"


def prepare() -> None:
    """Choose the file, in the controller, before the other processes start."""
    handle, name = tempfile.mkstemp(prefix="functory-groups-", suffix=".json")
    os.close(handle)
    os.environ[VARIABLE] = name


def write(items: list[pytest.Item]) -> None:
    """Write each test's group (its mark ``xdist_group``), in the first process that runs tests."""
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw0" and VARIABLE in os.environ:
        marks = {item.nodeid: item.get_closest_marker("xdist_group") for item in items}
        groups = {test: mark.args[0] for test, mark in marks.items() if mark}
        Path(os.environ[VARIABLE]).write_text(json.dumps(groups))


class GroupScheduling(LoadScopeScheduling):
    """Distributes one group at a time, in the order of the tests. A test without a group is a group of its own."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Note the end of a test, and forget a group that has ended: what is assigned is counted at each test."""
        test = self.registered_collections[node][item_index]
        group, assigned = self._split_scope(test), self.assigned_work[node]
        assigned[group][test] = True
        if all(assigned[group].values()):
            del assigned[group]
        self._reschedule(node)

    def _reschedule(self, node: WorkerController) -> None:
        # One that replaces a process that died gets its tests when it has collected them.
        if node in self.registered_collections:
            super()._reschedule(node)

    @cached_property
    def _groups(self) -> dict[str, str]:
        file = Path(os.environ[VARIABLE])
        groups = json.loads(file.read_text())
        file.unlink()
        return groups

    def _split_scope(self, nodeid: str) -> str:
        return self._groups.get(nodeid, nodeid)
