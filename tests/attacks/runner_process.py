"""Runs one tier's runner in a process of its own, which takes attacks by name and answers with reports.

The tests start it as root or as an ordinary user, and talk to it in lines of JSON. It is in a worker's place:
it has a secret in its environment, the decoys run as its user, and the runner is its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import msgspec
import structlog

from functory.workers.sandbox.pool.pool import Options
from functory.workers.sandbox.protocol.job import ChildGrants, ChildLimits, Code, Job
from functory.workers.sandbox.runner import Runner
from tests.attacks.case import PARTS, Case, Report, stored
from tests.attacks.catalogue import CASES
from tests.attacks.decoys import ROOT, Decoys
from tests.support.runner_world import FakeHost
from tests.support.unprivileged import command, reveal

_READY_SECONDS = 20.0


def runner_of(tier: Any, options: Options | None = None) -> Runner:
    """Return a started runner of exactly this tier; raises when this machine does not have it."""
    runner = Runner(tier=tier, options=options)
    runner.start()
    return runner


class World:
    """A runner, its targets, and the view from outside."""

    def __init__(self, tier: str) -> None:
        self._tier = tier
        # Attacks without grants run in processes that could be kept, as such functions do. One that is kept would be
        # found among what an attack has left.
        self.runner = runner_of(tier, Options(reuse_calls=1))
        self._keeping: Runner | None = None
        self.decoys = Decoys()

    def run(self, case: Case) -> Report:
        token = f"atk{secrets.token_hex(4)}"
        self.decoys.prepare(token)
        zygote = self.runner.zygote_pid
        _reset_peak()
        peak = _peak()
        facts = self.decoys.facts
        host = FakeHost()
        if case.planted:
            self._plant(case, facts)
        if case.before:
            self._execute(case, PARTS[case.before], case.before, facts, host)
        with self._beside(case, facts, host):
            outcome = self._execute(case, case.source, case.name, facts, host)
        grown = _peak() - peak
        touched = self.decoys.touched()
        clean = self._execute(case, "def nothing(d):\n    return 'clean'", "nothing", facts, host)
        return Report(
            outcome={
                "status": outcome.status,
                "result": outcome.result,
                "error": outcome.error,
                "signal": outcome.signal,
                "kill_reason": outcome.kill_reason,
                "seconds": outcome.duration_seconds,
                "log": [log.text for log in outcome.logs[:50]],
            },
            touched=touched,
            grown=grown,
            clean=clean.result == "clean",
            same_zygote=self.runner.zygote_pid == zygote,
        )

    def _plant(self, case: Case, facts: dict[str, Any]) -> None:
        """Make a folder of packages, as environments have one, whose code runs when the sandbox starts."""
        folder = self.decoys.folder.with_name(f"packages-{facts['mark']}")
        folder.mkdir(mode=0o755)
        facts["packages"] = str(folder)
        # It must not carry the mark: it keeps living after the attack.
        text = stored(PARTS[case.planted], "planted")
        (folder / "planted.py").write_text(f"{text}\nFOUND = {case.planted}({facts!r})\n")
        left = f"open('/tmp/{facts['mark']}', 'x')"
        (folder / "planted.pth").write_text(f"import os; {left}\n")
        (folder / "sitecustomize.py").write_text(f"{left}\n")
        (folder / "usercustomize.py").write_text(f"{left}\n")

    def _execute(self, case: Case, source: str, name: str, facts: dict[str, Any], host: FakeHost) -> Any:
        raw = case.raw and source == case.source
        # What is to be used again stays, by design: it is not to be found among what was left.
        text = source if raw else stored(source, "reused" if case.reuse else facts["mark"])
        code = Code(name=name, version=1, source=text)
        if case.reuse and self._keeping is None:
            self._keeping = runner_of(self._tier)
        runner = self._keeping if case.reuse and self._keeping else self.runner
        return runner.run(
            Job(
                execution_id="e-1",
                root_id="r-1",
                function=name,
                version=1,
                entry=code.key,
                codes={code.key: code},
                input={} if raw else {"d": facts},
                limits=ChildLimits(**case.limits),
                reuse=case.reuse or not case.grants,
                tidy=not case.reuse,
                packages=(facts["packages"],) if case.planted else (),
                preload=("planted",) if case.planted else (),
                grants=ChildGrants(**(case.grants or {})),
            ),
            host,
        )

    @contextlib.contextmanager
    def _beside(self, case: Case, facts: dict[str, Any], host: FakeHost):
        """Run another execution as long as the attack; the attack gets what that one reports about itself."""
        if not case.beside:
            yield
            return
        ready, done = threading.Event(), threading.Event()

        def say(reported: Any) -> None:
            facts["beside"] = reported
            ready.set()
            done.wait(_READY_SECONDS)

        host.calls["ready"] = say
        outcomes: list[Any] = []
        thread = threading.Thread(
            target=lambda: outcomes.append(
                self._execute(case, PARTS[case.beside], case.beside, dict(facts), host)
            )
        )
        thread.start()
        try:
            if not ready.wait(_READY_SECONDS):
                raise RuntimeError(f"{case.beside} did not get ready: {outcomes}")
            yield
        finally:
            done.set()
            thread.join()
        if outcomes[0].status != "succeeded" or outcomes[0].result != "unharmed":
            raise RuntimeError(f"the execution beside the attack was harmed: {outcomes[0]}")

    def close(self) -> None:
        self.runner.close()
        if self._keeping is not None:
            self._keeping.close()
        self.decoys.close()


def _reset_peak() -> None:
    # proc(5): 5 resets the peak of resident memory to what it is now.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


class Remote:
    """The tests' handle on a world in another process: root or, for ``ordinary``, a user without rights."""

    def __init__(self, tier: str, ordinary: bool) -> None:
        self.lost = False
        """It ended, or did not answer in time: its next answer may be about an earlier attack."""
        self._folder = Path(tempfile.mkdtemp(prefix="attacks-"))
        self._folder.chmod(0o1777)
        argv = [sys.executable, "-m", "tests.attacks.runner_process", tier]
        self._process = subprocess.Popen(
            command(argv) if ordinary else argv,
            cwd=ROOT,
            env=os.environ
            | {
                "FUNCTORY_DATABASE_URL": "postgresql://canary-of-the-worker",
                "TMPDIR": str(self._folder),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        reported = self._hear()
        self.missing = reported.get("missing", "")

    def run(self, case_id: str) -> Report:
        """Run one attack and return its report."""
        assert self._process.stdin is not None
        self.lost = True
        self._process.stdin.write(case_id + "\n")
        self._process.stdin.flush()
        reported = self._hear()
        self.lost = self._process.poll() is not None
        if "broken" in reported:
            raise AssertionError(reported["broken"])
        return msgspec.convert(reported, Report)

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"missing": "its process ended", "broken": "its process ended"}

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        if self.lost:
            self._process.kill()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def main(tier: str) -> None:
    """Serve until stdin closes. Whatever else is printed goes to stderr: stdout belongs to the reports."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))

    def say(**reported: Any) -> None:
        print(json.dumps(reported), file=out, flush=True)

    try:
        if tier == "C" and os.geteuid() == 0:
            # The runner of root runs functions as a user without rights, which must be able to read Python.
            reveal()
        world = World(tier)
    except Exception as error:
        say(missing=f"{type(error).__name__}: {error}")
        return
    say(tier=tier)
    try:
        for line in sys.stdin:
            try:
                say(**msgspec.to_builtins(world.run(CASES[line.strip()])))
            except Exception as error:
                say(broken=f"{type(error).__name__}: {error}")
    finally:
        world.close()


if __name__ == "__main__":
    main(sys.argv[1])
