"""A deployment as deploy/compose.yaml runs it, without a container engine.

The installation is made by the steps of deploy/Dockerfile. Every role then runs in a root of its own
(`tests/support/clean_root.py`): read-only, as user 10001, without capabilities, with secrets as files.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from functory.cli.command_index import SECTIONS
from tests.services.missing_servers import leave_out
from tests.services.port import free_port
from tests.support import build_context, clean_root
from tests.support.patience import patient
from tests.support.processes import Role

ROOT = Path(__file__).parents[3]
UV = Path(sys.executable).parent / "uv"
WAIT = patient(90.0)
# From the start of a process to its ready line, in seconds on a machine with two busy cores. Measured: 2 to 4.
START_SECONDS = patient(30.0)

HELLO = """
from functory import register_function

@register_function(timeout=30)
def hello(name: str = "you") -> str:
    return f"Hello, {name}!"
"""
# What a function sees of the container.
WHERE = """
from functory import register_function

@register_function(timeout=30)
def where() -> list:
    import os
    import tempfile
    with open(tempfile.gettempdir() + "/file", "w") as file:
        file.write("its own folder can be written")
    seen = []
    for place in ("/run/secrets/database_url", "/var/lib/functory/.functory", "/work/hello.py"):
        try:
            os.stat(place)
            open(place).close()
        except OSError:
            continue
        seen.append(place)
    return [os.getuid() != 0, seen]
"""


class Container:
    """Starts commands of one deployment in clean roots."""

    def __init__(self, tree: Path, folder: Path, database_url: str, broker_url: str) -> None:
        self.folder = folder
        self._tree = tree
        self._secrets = folder / "secrets"
        self._volume, self.work = folder / "volume", folder / "work"
        self.work.mkdir()
        self._volume.mkdir()
        os.chown(self._volume, clean_root.USER, clean_root.USER)
        subprocess.run([ROOT / "deploy/make-secrets.sh", self._secrets], check=True, capture_output=True)
        (self._secrets / "database_url").write_text(f"{database_url}\n")
        (self._secrets / "broker_url").write_text(f"{broker_url}\n")
        read = yaml.safe_load(
            re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (ROOT / "deploy/compose.yaml").read_text())
        )
        self.services: dict[str, dict] = read["services"]

    def command(self, *command: str, profile: str = "default") -> list[str]:
        mounts = [f"{file}:/run/secrets/{file.name}" for file in self._secrets.iterdir()]
        options = [part for mount in (*mounts, f"{self.work}:/work") for part in ("--mount", mount)]
        return [
            *(sys.executable, "-m", "tests.support.clean_root", "--tree", str(self._tree)),
            *("--volume", str(self._volume), "--profile", profile, *options, "--", *command),
        ]

    def environment(self, service: str, **further: str) -> dict[str, str]:
        """What the container has; the launcher itself needs the repository."""
        return {"PATH": os.defpath, **self.services[service]["environment"], **further}

    def start(self, name: str, profile: str = "default", **further: str) -> Role:
        """Start a role, and wait until it is ready."""
        return Role(
            name,
            self.command("functory", *self.services[name]["command"], profile=profile),
            self.environment(name, **further),
            ROOT,
            by_exec=True,
        ).wait_ready(WAIT)

    def run(
        self, *command: str, profile: str = "default", **further: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, in the environment of the service `cli`."""
        return subprocess.run(
            self.command(*command, profile=profile),
            env=self.environment("cli", **further),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=WAIT,
        )

    def cli(self, *arguments: str) -> str:
        done = self.run("functory", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment that the Dockerfile's stage `build` makes: locked packages, and the wheel without its own."""
    if reason := clean_root.unavailable():
        leave_out(f"no clean root: {reason}")
    if not (ROOT / "functory/dashboard/static/index.html").is_file():
        leave_out("the dashboard is not built, so there is no wheel", "make dashboard")
    folder = tmp_path_factory.mktemp("image")
    context = build_context.copy(folder / "src")
    steps = (ROOT / "deploy/Dockerfile").read_text()
    ((options, lock),) = re.findall(
        r"/opt/functory/bin/python install (--require-hashes .*) -r (locks/\S+)", steps
    )
    made = folder / "tree"
    install = ("pip", "install", "--quiet", "--compile-bytecode", "--python", str(made / "bin/python"))
    for command in (
        (
            "build",
            "--quiet",
            "--wheel",
            "--no-build-isolation",
            "--python",
            sys.executable,
            "--out-dir",
            str(folder),
            str(context),
        ),
        ("venv", "--quiet", "--relocatable", "--python", sys.executable, str(made)),
        (*install, *options.split(), "-r", str(ROOT / lock)),
        (*install, "--no-deps"),
    ):
        wheels = map(str, folder.glob("*.whl")) if command[-1] == "--no-deps" else ()
        done = subprocess.run([UV, *command, *wheels], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def container(tree: Path, tmp_path: Path, postgres_url: str, rabbitmq_url: str) -> Container:
    """A deployment on a database and a broker of its own."""
    return Container(tree, tmp_path, postgres_url, rabbitmq_url)


@pytest.fixture(params=["default", "worker"])
def running(
    container: Container, request: pytest.FixtureRequest
) -> Iterator[dict[str, tuple[Role, float, int]]]:
    """Every role with the seconds of its start and its metrics port, under each profile of system calls."""
    with contextlib.ExitStack() as stack:
        container.cli(*container.services["schema"]["command"])
        started: dict[str, tuple[Role, float, int]] = {}
        for name in sorted(entry.name for entry in SECTIONS["Roles"]):
            port, began = free_port(), time.monotonic()
            role = container.start(name, request.param, FUNCTORY_METRICS_PORT=str(port), FUNCTORY_PORT="0")
            stack.callback(role.destroy)
            started[name] = (role, time.monotonic() - began, port)
        yield started


def health(container: Container, name: str, running: dict[str, tuple[Role, float, int]]) -> int:
    """The exit status of the health check of a service."""
    role, _, port = running[name]
    command = [
        part.replace("http://127.0.0.1:7400", role.ready.get("url", ""))
        for part in container.services[name]["healthcheck"]["test"][1:]
    ]
    return container.run(*command, FUNCTORY_METRICS_PORT=str(port)).returncode


@pytest.mark.timeout(300)
def test_every_role_works_with_a_read_only_root_as_another_user(
    container: Container, running: dict[str, tuple[Role, float, int]]
) -> None:
    slow = {name: round(seconds, 1) for name, (_, seconds, _) in running.items()}
    print("seconds of each start:", slow)
    assert max(slow.values()) < START_SECONDS, slow
    for name, source in (("hello", HELLO), ("where", WHERE)):
        (container.work / f"{name}.py").write_text(source)
        container.cli("function", "add", f"/work/{name}.py")
    assert "Hello, Ada!" in container.cli("run", "hello", "--input", "name=Ada")
    assert json.loads(container.cli("run", "where")) == [True, []]
    template = '{"name": "{{ event.data.name }}"}'
    container.cli(
        "trigger", "add", "greet", "--on", '{"type": ["visit"]}', "--function", "hello", "--input", template
    )
    container.cli("event", "emit", "visit", "--data", '{"name": "Grace"}', "--wait")
    assert "Hello, Grace!" in container.cli("execution", "list", "--function", "hello", "--json", "--full")
    assert {name: health(container, name, running) for name in running} == dict.fromkeys(running, 0)
    for name, (role, _, _) in running.items():
        assert role.stop(60) == 0, (name, role.output)
        assert "Traceback" not in role.output, (name, role.output)
    assert {name: health(container, name, running) for name in ("server", "worker")} == {
        "server": 1,
        "worker": 1,
    }


def test_nothing_but_the_volume_and_tmp_can_be_written(container: Container) -> None:
    places = "/ /opt/functory /usr/lib /etc /run/secrets /work /dev /var/lib/functory /tmp"
    script = f"for place in {places}; do (echo x >$place/x) 2>/dev/null && echo $place; done"
    assert container.run("sh", "-c", script).stdout.split() == ["/var/lib/functory", "/tmp"]


@pytest.mark.parametrize(("profile", "tier"), [("default", "C"), ("worker", "B")])
def test_the_profile_of_system_calls_decides_about_the_tier(
    container: Container, profile: str, tier: str
) -> None:
    shown = container.run("functory", "doctor", "sandbox", profile=profile).stdout
    assert f"tier {tier}; it stopped all" in shown


def test_the_demo_runs_in_the_image(container: Container) -> None:
    environment = {"PATH": os.defpath, "HOME": "/var/lib/functory"}
    done = subprocess.run(
        container.command("functory", "demo"),
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All of this was checked against the database." in done.stdout
