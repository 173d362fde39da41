"""Real processes are harmed while they work: no execution is lost or doubled, and every invariant holds.

These are the hardest runs of ``python -m tests.chaos``. ``make test`` makes one of them, ``make test-all`` all of
them, ``make chaos`` every fault on every broker with many seeds. The seed follows from the commit: each commit gets
another seed, and a failure can be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chaos.deployment import Servers
from tests.chaos.fault import named
from tests.chaos.run import commit, run
from tests.services.missing_servers import leave_out

CASES = {
    "redis": (
        "worker-kill9-group",
        "worker-stop-resume-blind",
        "dispatcher-kill-after-publish",
        "celery-deaf",
        "redis-restart-empty",
    ),
    "rabbitmq": (
        "prefork-kill9-child",
        "router-kill-before-commit",
        "worker-term-twice",
        "rabbit-kill9",
        "server-kill",
    ),
    "none": (
        "worker-stop-before-claim-commit",
        "worker-oom",
        "reaper-kill",
        "watcher-kill",
        "pg-immediate",
        "pg-clock-back",
        "pg-failover-async",
        "pg-failover-sync",
    ),
}


@pytest.fixture(scope="module")
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """The session's servers; a run that harms a server has its own."""
    with Servers(lambda name: request.getfixturevalue(f"{name}_server")) as lent:
        yield lent


def cases() -> Iterator[Any]:
    for broker, names in CASES.items():
        marks = [pytest.mark.postgres]
        if broker != "none":
            marks.append(getattr(pytest.mark, broker))
        for name in names:
            yield pytest.param(broker, name, marks=marks, id=f"{broker}-{name}")


# The run waits for facts, with deadlines that a slow machine can keep.
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("broker", "name"), list(cases()))
def test_nothing_is_lost_and_nothing_is_doubled(broker: str, name: str, servers: Servers) -> None:
    tested = commit()
    seed = int(tested[:8], 16) if tested else 1
    (fault,) = named([name])
    line = run(fault, broker, seed, servers, commit=tested)
    print(json.dumps(line))
    if "skipped" in line:
        leave_out(line["skipped"])
    again = f"python -m tests.chaos --seed {seed} --broker {broker} --fault {name}"
    # Anything else that is lost is a complaint.
    forgotten = line["lost"] if fault.forgets else 0
    assert line["attempted"] > 0 and line["executed"] + forgotten == line["attempted"], again
    assert not line["violations"] + line["complaints"], f"{again}\n{json.dumps(line, indent=2)}"
