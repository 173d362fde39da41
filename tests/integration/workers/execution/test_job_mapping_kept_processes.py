"""Which executions run in a process that is kept: what was declared, else those of functions without rights."""

from __future__ import annotations

import pytest

from functory.workers.execution.job_mapping import job_from_claim
from tests.support.granted_claims import SERVED, claimed
from tests.support.world import embedded

pytest_plugins = ["tests.support.world"]


def kept(world) -> tuple[bool, bool]:
    job = job_from_claim(claimed(world), (), {})
    return job.reuse, job.tidy


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [
        ({}, (True, True)),
        ({"reuse": True}, (True, False)),
        ({"reuse": False}, (False, False)),
        ({"hosts": ["a.example.com"]}, (False, True)),
        ({"permissions": ["functions:read"]}, (False, True)),
        ({"subprocess": True}, (False, True)),
        ({"hosts": ["a.example.com"], "reuse": True}, (True, False)),
    ],
    ids=str,
)
def test_a_process_is_kept_where_nothing_but_a_result_leaves_it_or_where_it_was_declared(
    world, declared, wanted
):
    world.function("work", **declared)
    assert kept(world) == wanted


def test_a_right_that_waits_for_approval_counts(make_world):
    served = make_world(**SERVED)
    served.function("work", subprocess=True)
    assert kept(served) == (False, True)


def test_a_dependency_with_a_right_or_with_reuse_false_decides_for_all(world):
    world.function("part", reuse=False)
    world.function("work", dependencies=["part"])
    assert kept(world) == (False, True)


COUNT = "seen = []\ndef count():\n    seen.append(1)\n    return len(seen)"


@pytest.mark.parametrize(("declared", "counts"), [({}, [1, 2, 3]), ({"reuse": False}, [1, 1, 1])], ids=str)
def test_what_a_module_keeps_is_seen_by_the_next_execution_unless_it_was_declared_otherwise(
    tmp_path, declared, counts
):
    with embedded(tmp_path, worker_slots=1) as engine:
        engine.functions.save(COUNT, **declared)
        assert [engine.call("count") for _ in range(3)] == counts
