"""Runs failed tests again, each alone in a process of its own, when a run has ended (`--second-look`).

Tests run side by side, and a busy machine can make one fail that finds no defect. Such a test passes alone: it is named
under PASSED ALONE, with its first failure and the command that repeats it, and does not make the run red. A test that
fails alone, too, does. Each test gets fresh servers and folders, and the seed of the run.

There is no second look at a run that was ended early, that could not import a test, or in which more than ``MOST``
tests failed: those are not the work of a busy machine.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

import pytest

# More failed tests than these are a defect of the product, or of the machine.
MOST = 25
# A test that still runs after these seconds hangs: pytest-timeout should have ended it long before.
SECONDS = 900
# The category of pytest's closing line.
CATEGORY = "passed alone"
# Lines that are shown of a second failure.
LINES = 40


class Alone(NamedTuple):
    """How a test ended alone: whether it passed, and what pytest printed."""

    passed: bool
    output: str


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("functory").addoption(
        "--second-look",
        action="store_true",
        help=f"run up to {MOST} failed tests again, each alone; what passes then does not make the run red",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Take part in the process that prints the summary, and in no other."""
    if config.getoption("--second-look") and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(_SecondLook(config), "second-look-of-this-run")


def command(config: pytest.Config, test: str) -> list[str]:
    """The arguments of pytest that run one test alone, as in this run."""
    arguments = ["-n", "0"] if config.pluginmanager.has_plugin("xdist") else []
    if (seed := getattr(config.option, "hypothesis_seed", None)) is not None:
        arguments.append(f"--hypothesis-seed={seed}")
    if getattr(config.option, "long", "none") != "none":
        arguments.append(f"--long={config.option.long}")
    return [*arguments, test]


class _SecondLook:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reasons: dict[str, str] = {}

    # After pytest-xdist has ended its processes and with them the servers, and before the summary is printed.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        reports = [report for kind in ("failed", "error") for report in terminal.stats.get(kind, [])]
        tests = list(dict.fromkeys(report.nodeid for report in reports))
        if exitstatus != pytest.ExitCode.TESTS_FAILED or session.shouldfail or session.shouldstop:
            return
        if not tests or not all(isinstance(report, pytest.TestReport) for report in reports):
            return
        terminal.ensure_newline()
        if len(tests) > MOST:
            terminal.line(f"no second look: {len(tests)} tests failed, more than {MOST}")
            return
        terminal.section("A SECOND LOOK", sep="=")
        for test in tests:
            began = time.monotonic()
            alone = self._run(test)
            took = f"{time.monotonic() - began:.1f} s"
            terminal.line(f"{'passed' if alone.passed else 'FAILED'} alone in {took}: {test}")
            if alone.passed:
                first = next(report for report in reports if report.nodeid == test)
                self._reasons[test] = _reason(first)
            else:
                terminal.line("\n".join(alone.output.splitlines()[-LINES:]))
        self._forgive(terminal)
        if len(self._reasons) == len(tests):
            session.exitstatus = pytest.ExitCode.OK

    def _forgive(self, terminal: Any) -> None:
        """Count what passed alone in a category of its own, once for each test."""
        for kind in ("failed", "error"):
            for report in [each for each in terminal.stats.get(kind, []) if each.nodeid in self._reasons]:
                terminal.stats[kind].remove(report)
                forgiven = terminal.stats.setdefault(CATEGORY, [])
                if report.nodeid not in {each.nodeid for each in forgiven}:
                    forgiven.append(report)
            if not terminal.stats.get(kind, True):
                del terminal.stats[kind]
        terminal._set_main_color()

    def _run(self, test: str) -> Alone:
        """Run one test alone."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("TESTS_GROUPS", "PYTEST_CURRENT_TEST")
        }
        argv = [sys.executable, "-m", "pytest", *command(self._config, test)]
        # A file and no pipe: what a test leaves behind would keep a pipe open.
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(
                argv,
                cwd=self._config.rootpath,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            output.seek(0)
            said = output.read()
        if status is None:
            said += f"\nstill running after {SECONDS} s"
        # A test that is skipped alone has not passed.
        return Alone(status == 0 and re.search(r"(?m)^(=+ )?1 passed\b", said) is not None, said)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._reasons:
            return
        terminalreporter.section("PASSED ALONE", sep="!", yellow=True, bold=True)
        terminalreporter.line("These tests failed beside others and passed alone: mend each, by its kind.")
        for test, reason in self._reasons.items():
            terminalreporter.line(f"{test}\n  {reason}\n  {again(self._config, test)}")


def again(config: pytest.Config, test: str) -> str:
    """The command that runs a test alone."""
    arguments = shlex.join(command(config, test))
    plain = not set(arguments) & set('"$`\\')
    return f'make test ARGS="{arguments}"' if plain else f"make test ARGS={shlex.quote(arguments)}"


def _reason(report: pytest.TestReport) -> str:
    """Where a test failed, and the first line of what it said."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        lines = report.longreprtext.strip().splitlines()
        return lines[-1] if lines else "it said nothing"
    said = (crash.message.splitlines() or [""])[0]
    return f"{os.path.relpath(crash.path)}:{crash.lineno}: {said}"
