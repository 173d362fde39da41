"""The gateway of an embedded engine: a child that starts with the first call, and ends with its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.patience import patient
from tests.support.processes import Roles
from tests.support.waiting import wait_for

# Asks a model through an embedded engine, and ends as it is asked to.
PROGRAM = """
import sys
from pathlib import Path
from functory.client.functory import Functory
from functory.engine.settings import Settings

def ask() -> str:
    from functory import llm
    return llm("hello")["text"]

if __name__ == "__main__":
    home, script = map(Path, sys.argv[1:])
    with Functory(Settings(home=home)) as engine:
        model = {"adapter": "script", "provider_model": str(script), "price_in": 0, "price_out": 0}
        engine.models.add("small", model, author="ada")
        engine.register_function(ask, models=["small"])
        print(engine.call("ask"), flush=True)
        sys.stdin.readline()
    print("closed", flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The running program, whose model has answered."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "answers.json").write_text(json.dumps([{"text": "hello back"}]))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FUNCTORY_")}
    started = subprocess.Popen(
        [sys.executable, "program.py", str(tmp_path / "home"), str(tmp_path / "answers.json")],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "stderr").open("w"),
        text=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "hello back\n", (tmp_path / "stderr").read_text()
    yield started
    started.kill()
    started.communicate()


def child_of(pid: int) -> psutil.Process | None:
    """The gateway below a process."""
    for process in psutil.Process(pid).children(recursive=True):
        if "functory.roles.gateway_child" in process.cmdline():
            return process
    return None


def gateway_of(pid: int) -> psutil.Process:
    found = child_of(pid)
    assert found is not None
    return found


def test_it_ends_with_an_engine_that_is_closed_and_shows_nothing(
    program: subprocess.Popen[str], tmp_path: Path
) -> None:
    gateway = gateway_of(program.pid)
    said, _ = program.communicate("\n", timeout=patient(30))
    assert (program.returncode, said) == (0, "closed\n")
    assert not gateway.is_running()
    assert "gateway" not in (tmp_path / "stderr").read_text()


def test_it_ends_with_an_engine_that_is_killed(program: subprocess.Popen[str]) -> None:
    gateway = gateway_of(program.pid)
    program.send_signal(signal.SIGKILL)
    wait_for(lambda: not gateway.is_running() or gateway.status() == psutil.STATUS_ZOMBIE, "its end")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_it_ends_with_functory_dev_and_has_no_key_in_its_arguments(tmp_path: Path, how: int) -> None:
    script = tmp_path / "answers.json"
    script.write_text(json.dumps([{"text": "hello back"}]))
    key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    with Roles(tmp_path, secret_key=key, port=0) as roles:
        dev = roles.start("dev")
        with roles.client() as client:
            model = {"adapter": "script", "provider_model": str(script), "price_in": 0, "price_out": 0}
            client.models.add("small", model, author="ada")
            client.functions.save(
                'def ask() -> str:\n    from functory import llm\n    return llm("hello")["text"]\n',
                models=["small"],
            )
            assert client.submit("ask").result(patient(60)) == "hello back"
        gateway = gateway_of(dev.pid)
        assert key not in " ".join(gateway.cmdline())
        dev.signal(how)
        dev.wait()
        wait_for(lambda: not gateway.is_running() or gateway.status() == psutil.STATUS_ZOMBIE, "its end")
        assert "role=gateway" not in dev.output
