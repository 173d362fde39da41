"""A worker serves only with the sandbox that its settings demand, and only after attacks on it have failed.

Weaker machines are made of this one by a filter of system calls, or by a user namespace in which no
other can be made (``tests.support.restricted_kernel``), and by dropping root's rights (``tests.support.unprivileged``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from functory.client.functory import Functory
from functory.engine.errors import Conflict, Invalid, Refused, Unavailable
from functory.engine.settings import Settings
from functory.engine.telemetry import sandbox_metrics
from functory.workers.sandbox.checks import tiers
from functory.workers.sandbox.checks.canary_attacks import ATTACKS, run_canaries
from functory.workers.sandbox.checks.startup import check_startup
from functory.workers.sandbox.runner import Runner
from tests.support import unprivileged
from tests.support.patience import patient
from tests.support.processes import SCRIPTS
from tests.support.runner_world import FakeHost, job

ROOT = Path(__file__).resolve().parents[5]

here = pytest.mark.usefixtures("namespaces")


@pytest.fixture(scope="module")
def namespaces() -> None:
    """Skip where no weaker machine can be made: that takes namespaces."""
    best = tiers.survey().best
    if best not in ("A", "B"):
        pytest.skip(f"this machine offers tier {best}")


def reported(mode: str, code: str, *, as_ordinary: bool = False) -> Any:
    """Return what ``code`` prints as JSON on a machine that is restricted by ``mode``."""
    argv = [sys.executable, "-c", code]
    if mode:
        argv = [sys.executable, "-m", "tests.support.restricted_kernel", mode, "--", *argv]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FUNCTORY_LOG_LEVEL": "error"}
    if as_ordinary:
        done = unprivileged.run(argv, env=environment, timeout=patient(100))
    else:
        done = subprocess.run(
            argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=patient(100), check=False
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


SURVEY = """
import msgspec
from functory.workers.sandbox.checks import tiers
print(msgspec.json.encode(tiers.choose_tier(tiers.collect_facts())).decode())
"""

GATE = """
import json
from functory.engine.errors import FunctoryError
from functory.engine.settings import Settings
from functory.workers.sandbox.checks.startup import check_startup
from functory.workers.sandbox.runner import Runner
settings = Settings(**{})
try:
    with Runner.from_settings(settings) as runner:
        print(json.dumps({{"attacks": len(check_startup(settings, runner)), "tier": runner.tier}}))
except FunctoryError as error:
    print(json.dumps({{"refused": type(error).__name__, "what": error.what, "why": error.why, "try": error.try_}}))
"""


@here
@pytest.mark.parametrize("as_ordinary", [False, True])
@pytest.mark.parametrize(
    ("mode", "best", "why", "try_"),
    [
        ("filter", "C", "make a user namespace: Operation not permitted", ""),
        ("mounts", "C", "mount none on /: Permission denied", ""),
        ("full", "C", "make a user namespace: No space left on device", "user.max_user_namespaces"),
    ],
)
def test_a_survey_names_the_step_that_a_poorer_machine_refuses(mode, best, why, try_, as_ordinary):
    found = reported(mode, SURVEY, as_ordinary=as_ordinary)
    assert found["best"] == best
    gap = found["gaps"][-1]
    assert gap["name"] == "B"
    assert gap["why"] == why
    assert try_ in gap["try_"]


@here
def test_without_namespaces_and_landlock_there_is_no_sandbox_and_nothing_is_served():
    refused = reported("nothing", GATE.format({}), as_ordinary=True)
    assert refused["refused"] == "Refused"
    assert "tier C or better" in refused["what"]
    assert "ask for Landlock: Function not implemented" in refused["why"]
    assert "CONFIG_SECURITY_LANDLOCK" in refused["try"]


@here
@pytest.mark.parametrize(("mode", "tier"), [("", "B"), ("full", "C")])
def test_an_ordinary_user_serves_in_the_best_tier_of_the_machine_and_all_attacks_fail(mode, tier):
    assert reported(mode, GATE.format({}), as_ordinary=True) == {"attacks": len(ATTACKS), "tier": tier}


@here
def test_below_the_demanded_tier_a_worker_refuses_and_says_what_the_machine_lacks():
    refused = reported("full", GATE.format({"min_tier": "B"}), as_ordinary=True)
    assert refused["refused"] == "Refused"
    assert refused["what"] == "functions would run in tier C; tier B or better is demanded"
    assert "No space left on device" in refused["why"]
    assert "user.max_user_namespaces" in refused["try"]


@here
def test_a_tier_that_is_set_is_not_exchanged_for_a_weaker_one():
    refused = reported("full", GATE.format({"sandbox_tier": "B"}), as_ordinary=True)
    assert refused["refused"] == "Refused"
    assert refused["what"].startswith("functions cannot be confined")


@here
def test_the_gate_opens_when_every_attack_fails_and_the_metric_says_the_tier():
    settings = Settings()
    with Runner.from_settings(settings) as runner:
        assert {canary.id for canary in check_startup(settings, runner)} == set(ATTACKS)
        reported_tiers = {
            tier: sandbox_metrics.sandbox_tier.labels(tier)._value.get() for tier in sandbox_metrics.TIERS
        }
        assert reported_tiers == {tier: float(tier == runner.tier) for tier in sandbox_metrics.TIERS}


@here
def test_every_attack_gets_through_where_nothing_confines():
    with Runner(tier="none") as runner:
        assert [canary.id for canary in run_canaries(runner) if canary.breaches] == list(ATTACKS)


def test_a_sandbox_that_an_attack_gets_through_serves_nothing():
    class Porous(Runner):
        """Claims to confine, and does not."""

        @property
        def tier(self):
            return "A"

    with Porous(tier="none") as runner, pytest.raises(Conflict) as refused:
        check_startup(Settings(), runner)
    assert "does not hold" in refused.value.what
    assert "A12, read a secret file of the worker" in refused.value.why
    assert sandbox_metrics.sandbox_tier.labels("none")._value.get() == 1


def zygotes() -> set[Path]:
    """The folders of this process's zygotes, one each."""
    return set(Path(tempfile.gettempdir()).glob(f"functory-run-{os.getpid()}-*"))


def test_the_self_test_and_the_first_function_share_a_zygote():
    before = zygotes()
    with Runner.from_settings(Settings()) as runner:
        check_startup(Settings(), runner)
        assert runner.run(job("def f():\n    return 1"), FakeHost()).result == 1
        assert len(zygotes() - before) == 1


def test_saving_a_function_starts_only_the_zygote_that_reads_its_signature(tmp_path):
    before = zygotes()
    # A number of its own keeps the engine from the zygotes that the tests share.
    with Functory(Settings(home=tmp_path, zygotes=31)) as engine:
        engine.functions.save("def f(n: int):\n    return n\n")
        assert len(zygotes() - before) == 1


def test_the_prey_of_the_attacks_is_gone_afterwards(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Runner(tier="none") as runner:
        run_canaries(runner)
    assert list(tmp_path.iterdir()) == []


def test_without_confinement_nothing_is_served_unless_the_settings_say_so():
    with Runner(tier="none") as runner:
        with pytest.raises(Refused, match="without any confinement"):
            check_startup(Settings(), runner)
        assert check_startup(Settings(unsafe_no_sandbox="i-understand"), runner) == []
        with pytest.raises(Invalid, match="min_tier"):
            check_startup(Settings(unsafe_no_sandbox="i-understand", min_tier="B"), runner)


def test_a_worker_does_not_serve_when_its_self_test_does_not_finish():
    class Broken(Runner):
        def run(self, job, host, control=None):
            return super().run(
                job if job.execution_id != "self-test" else _without_source(job), host, control
            )

    with Broken() as runner, pytest.raises(Unavailable, match="could not test itself"):
        check_startup(Settings(), runner)


def _without_source(job):
    codes = {
        key: msgspec.structs.replace(code, source="def canaries(prey): 1/0")
        for key, code in job.codes.items()
    }
    return msgspec.structs.replace(job, codes=codes)


@here
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_worker_below_the_demanded_tier_ends_with_the_reason(tmp_path: Path, redis_url: str, pool: str):
    worker = [str(SCRIPTS / "functory"), "worker", "--migrate", "--pool", pool, "--slots", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.restricted_kernel", "full", "--", *worker],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "FUNCTORY_DATABASE_URL": f"sqlite:///{tmp_path}/rows.db",
            "FUNCTORY_BROKER_URL": redis_url,
            "FUNCTORY_MIN_TIER": "B",
        },
        capture_output=True,
        text=True,
        timeout=patient(100),
        check=False,
    )
    assert done.returncode == Refused.code
    assert "ready" not in done.stdout
    assert "Traceback" not in done.stderr
    assert "error: functions would run in tier C; tier B or better is demanded" in done.stderr
    assert "user.max_user_namespaces" in done.stderr


@here
def test_a_client_does_not_read_the_hints_of_a_source_below_the_demanded_tier(tmp_path: Path):
    code = """
        import json
        from pathlib import Path
        from functory.engine.errors import Refused
        from functory.engine.settings import Settings
        from functory.client.functory import Functory
        try:
            with Functory(Settings(home=Path({home!r}), min_tier="B")) as functory:
                functory.functions.save("def f(x=open({mark!r}, 'w')) -> int:\\n    return 1\\n")
        except Refused as error:
            print(json.dumps(error.what))
    """
    home, mark = str(tmp_path / "home"), str(tmp_path / "mark")
    what = reported("full", textwrap.dedent(code.format(home=home, mark=mark)))
    assert what == "functions would run in tier C; tier B or better is demanded"
    assert not Path(mark).exists()
