"""Finds the programs of the servers, and installs the missing ones.

`find` only searches; `install` uses Debian's and Ubuntu's packages and needs root. What Debian does not have comes from
wheels (`tests/services/wheel_programs.py`). `make test` installs before the test run, and nothing is installed during
it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.services import wheel_programs

POLICY = Path("/usr/sbin/policy-rc.d")
# invoke-rc.d(8): 101 forbids the action, so that an installed package does not start its own service.
POLICY_TEXT = "#!/bin/sh\nexit 101\n"


@dataclass(frozen=True)
class Service:
    """A server that tests can have: its title, its Debian package, and the programs that it needs."""

    title: str
    package: str  # empty: wheels bring it
    programs: tuple[str, ...]
    folders: tuple[str, ...]  # glob patterns, looked into before PATH, the highest version first


SERVICES: Mapping[str, Service] = {
    "postgres": Service(
        title="PostgreSQL",
        package="postgresql",
        programs=("initdb", "postgres"),
        folders=("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"),
    ),
    "redis": Service(title="Redis", package="redis-server", programs=("redis-server",), folders=()),
    "rabbitmq": Service(
        title="RabbitMQ",
        package="rabbitmq-server",
        programs=("rabbitmq-server", "epmd"),
        # Debian's /usr/sbin/rabbitmq-server is a wrapper that changes to the system's own broker folder.
        folders=("/usr/lib/rabbitmq/bin", "/usr/lib/erlang/bin"),
    ),
    "pgbouncer": Service(
        title="pgbouncer", package="pgbouncer", programs=("pgbouncer",), folders=("/usr/sbin",)
    ),
    "nginx": Service(title="nginx", package="nginx-light", programs=("nginx",), folders=("/usr/sbin",)),
    "prometheus": Service(
        title="Prometheus", package="prometheus", programs=("prometheus", "promtool"), folders=()
    ),
    # No servers, but found, installed and counted like one.
    "alertmanager": Service(
        title="Alertmanager", package="prometheus-alertmanager", programs=("amtool",), folders=()
    ),
    "systemd": Service(
        title="systemd",
        package="systemd",
        programs=("systemd-analyze", "systemd-sysusers", "systemd-tmpfiles"),
        folders=(),
    ),
    "helm": Service(
        title="Helm", package="", programs=("helm",), folders=(str(wheel_programs.FOLDER / "bin"),)
    ),
    "chromium": Service(title="Chromium", package="chromium", programs=("chromium",), folders=("/usr/bin",)),
}


@dataclass(frozen=True)
class Found:
    """A service with all its programs: program name to path."""

    service: str
    programs: Mapping[str, Path]


@dataclass(frozen=True)
class Missing:
    """A service that cannot be started here, with the reason."""

    service: str
    why: str


class InstallRefused(Exception):
    """The packages could not be installed; the message says why."""


def find(service: str) -> Found | Missing:
    """Look for the programs of `service` (a key of SERVICES) in its usual folders, then on PATH."""
    wanted = SERVICES[service]
    programs = {name: _program(name, wanted.folders) for name in wanted.programs}
    absent = [name for name, path in programs.items() if path is None]
    if absent:
        places = ", ".join((*wanted.folders, "PATH"))
        return Missing(service, f"{' and '.join(absent)} not found in {places}")
    return Found(service, {name: path for name, path in programs.items() if path is not None})


def _program(name: str, folders: Iterable[str]) -> Path | None:
    for pattern in folders:
        matches = [
            path for path in Path("/").glob(f"{pattern.lstrip('/')}/{name}") if os.access(path, os.X_OK)
        ]
        if matches:
            return max(matches, key=_numbers)
    on_path = shutil.which(name)
    return Path(on_path) if on_path else None


def _numbers(path: Path) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", str(path))]


def how_to_get(services: Iterable[str]) -> str:
    """The command that installs the given services on Debian or Ubuntu."""
    packages = [SERVICES[service].package for service in services]
    if not all(packages):
        return "python -m tests.services --install"
    return f"apt-get install --no-install-recommends {' '.join(packages)}"


def install(services: Iterable[str]) -> None:
    """Install the packages of `services` with apt-get, keeping the packages' own services stopped, and the wheels.

    Raises InstallRefused when this is not root on Debian or Ubuntu, or when apt-get or uv fails; what can be installed
    is installed all the same.
    """
    wanted = [SERVICES[service].package for service in services]
    refusals: list[str] = []
    if not all(wanted):
        try:
            wheel_programs.install()
        except wheel_programs.NotInstalled as error:
            refusals.append(str(error))
    try:
        _install_packages([package for package in wanted if package])
    except InstallRefused as error:
        refusals.append(str(error))
    if refusals:
        raise InstallRefused("\n".join(refusals))


def _install_packages(packages: list[str]) -> None:
    if not packages:
        return
    if shutil.which("apt-get") is None:
        raise InstallRefused("this system has no apt-get (only Debian and Ubuntu are served)")
    if os.geteuid() != 0:
        raise InstallRefused("packages are installed only by root")
    _apt_get("update", "-q")
    with services_kept_stopped(POLICY):
        _apt_get("install", "-q", "-y", "--no-install-recommends", *packages)


def _apt_get(*arguments: str) -> None:
    command = ["apt-get", *arguments]
    print("+", *command, file=sys.stderr, flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise InstallRefused(f"{' '.join(command)} ended with {done.returncode}:\n{tail}")


@contextmanager
def services_kept_stopped(policy: Path) -> Iterator[None]:
    """While inside, installed packages do not start their services; afterwards `policy` is as it was."""
    kept = policy.with_name(policy.name + ".kept")
    had_policy = policy.exists()
    if had_policy:
        policy.replace(kept)
    try:
        policy.write_text(POLICY_TEXT)
        policy.chmod(0o755)
        yield
    finally:
        policy.unlink(missing_ok=True)
        if had_policy:
            kept.replace(policy)


def survey() -> list[Found | Missing]:
    """Look for every service, in the order of SERVICES."""
    return [find(service) for service in SERVICES]
