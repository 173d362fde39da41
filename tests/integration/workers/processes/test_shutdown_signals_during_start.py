"""A process that is asked to end while it starts: it ends, at every point of its start."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.processes import Roles

pytestmark = pytest.mark.timeout(300)

# Asked just before a step of its start, by a signal of its own.
ASKED = """
import signal
import sys

import {module} as module

owner, name = {owner}, {name!r}
step = getattr(owner, name)

def asked(*arguments, **options):
    signal.raise_signal(signal.SIGTERM)
    return step(*arguments, **options)

setattr(owner, name, staticmethod(asked) if isinstance(owner, type) and {bound} else asked)

from functory.cli.main import main

sys.exit(main())
"""


# Where it is asked: module, owner, name, and whether the step is bound when it is read.
STEPS = {
    "before the handlers are taken over": (
        "functory.workers.processes.shutdown_signals",
        "module.ShutdownSignals",
        "install",
        False,
    ),
    "before its database is opened": ("functory.workers.execution.executor", "module.Executor", "open", True),
    "before its sandbox is tried": ("functory.workers.execution.executor", "module", "check_startup", False),
    "before it polls": ("functory.workers.execution.poller", "module.Poller", "start", False),
}
CASES = [
    pytest.param(step, pool, id=f"{where}-{pool}".replace(" ", "-"))
    for where, step in STEPS.items()
    for pool in ("none", "threads", "solo", "prefork")
    # The other steps are those of its children, which end by the word of their parent.
    if pool != "prefork" or step[2] == "install"
]


@pytest.mark.parametrize(("step", "pool"), CASES)
def test_a_worker_that_is_asked_to_end_while_it_starts_ends(
    tmp_path: Path, redis_url: str, step: tuple[str, str, str, bool], pool: str
) -> None:
    module, owner, name, bound = step
    script = tmp_path / "asked.py"
    script.write_text(textwrap.dedent(ASKED).format(module=module, owner=owner, name=name, bound=bound))
    with Roles(
        tmp_path,
        database_url=f"sqlite:///{tmp_path}/rows.db",
        broker_url="none://" if pool == "none" else redis_url,
        grace_seconds=20,
    ) as roles:
        roles.migrate()
        arguments = [] if pool == "none" else ["--pool", pool]
        worker = roles.spawn([sys.executable, str(script), "worker", *arguments], name="worker")
        assert worker.wait() == 0, worker.output
        assert "did not end in time" not in worker.output
        assert "Traceback" not in worker.output
