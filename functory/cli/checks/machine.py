"""Checks of this machine: versions, packages, files, disk, sandbox and the dashboard's files."""

from __future__ import annotations

import importlib.util
import os
import resource
import shlex
import shutil
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from functory.cli.checks.finding import Finding, failed
from functory.cli.checks.installation import Installation
from functory.engine.extras import install_command
from functory.os_user import os_user

# Below this much free space a warning; SQLite and PostgreSQL both fail badly on a full disk.
MIN_FREE_BYTES = 1_000_000_000
# Below this nothing can be written.
NO_SPACE_BYTES = 1_000_000
# A role has connections, sockets and pipes of children: some hundreds under load.
MIN_OPEN_FILES = 256
# The stacks of its threads alone take some hundred megabytes of addresses.
MIN_ADDRESS_BYTES = 4_000_000_000
# The modules of each extra; what needs it follows from the settings.
EXTRAS = {
    "server": ("fastapi", "uvicorn", "argon2"),
    "oidc": ("authlib", "joserfc"),
    "postgres": ("psycopg",),
    "redis": ("redis",),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "agents": ("litellm",),
}


def python() -> Finding:
    """The version of Python."""
    return Finding("python", "ok", ".".join(map(str, sys.version_info[:3])))


def settings(installation: Installation) -> list[Finding]:
    """The kind of installation that the settings describe."""
    embedded = installation.settings.embedded
    kind = "embedded: all roles in one process" if embedded else "client of a deployment"
    return [Finding("settings", "ok", kind)]


def versions(installation: Installation) -> list[Finding]:
    """Versions of Functory and of what it runs on."""
    from functory._version import __version__
    from functory.engine.database import server_version

    stored = ""
    # A database that does not answer is a finding of the check "database".
    if installation.database.file is not None or installation.data is not None:
        stored = f"{server_version.describe(installation.database)}, "
    broker = f"Celery {_version_of('celery')}, kombu {_version_of('kombu')}"
    return [Finding("versions", "ok", f"Functory {__version__}, {stored}{broker}")]


def extras(installation: Installation) -> list[Finding]:
    """Extras that the settings need and that are not installed."""
    settings = installation.settings
    broker = settings.broker_url.get_secret_value()
    needed = {
        "oidc": "FUNCTORY_OIDC_ISSUER is set" if settings.oidc_issuer else "",
        "postgres": "" if settings.database.startswith("sqlite") else "FUNCTORY_DATABASE_URL is PostgreSQL's",
        "redis": "FUNCTORY_BROKER_URL is Redis's" if broker.startswith("redis") else "",
        "otel": "FUNCTORY_TRACES is on" if settings.traces == "on" else "",
    }
    absent = {
        extra: [name for name in modules if not _is_installed(name)] for extra, modules in EXTRAS.items()
    }
    present = [extra for extra, modules in absent.items() if not modules]
    others = [extra for extra, modules in absent.items() if modules and not needed.get(extra)]
    text = f"installed: {', '.join(present) or 'none'}"
    if others:
        text += f"; not installed: {', '.join(others)}"
    return [
        Finding("extras", "ok", text),
        *(
            Finding(
                "extras",
                "fail",
                f"{needed[extra]}, and there is no module {modules[0]}",
                install_command(extra),
            )
            for extra, modules in absent.items()
            if modules and needed.get(extra)
        ),
    ]


def files(installation: Installation) -> list[Finding]:
    """What other users can read, and what this user cannot write."""
    from functory.engine import private_files

    settings = installation.settings
    user = os_user()
    found = [
        Finding(
            "files",
            "fail",
            f"{place} is on a read-only file system",
            "mount it with write access, or set FUNCTORY_HOME to a folder on another one",
        )
        if os.statvfs(place).f_flag & os.ST_RDONLY
        else Finding(
            "files",
            "fail",
            f"{user} cannot write {place}",
            f"sudo chown -R {shlex.quote(user)} {shlex.quote(str(place))}; or run it as the user whose files these are",
        )
        for place in _needed_places(installation)
        if not os.access(place, os.W_OK)
    ]
    found += [
        Finding("files", "warn", f"other users can read {path}", advice)
        for path, advice in private_files.find_open(settings)
    ]
    return found or [Finding("files", "ok", "this user can write the data, and no other user can read it")]


def limits(installation: Installation) -> list[Finding]:
    """What this process may use: open files, memory, and a folder for temporary files."""
    files, memory = (resource.getrlimit(one)[0] for one in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS))
    found: list[Finding] = []
    if files != resource.RLIM_INFINITY and files < MIN_OPEN_FILES:
        found.append(
            Finding(
                "limits",
                "warn",
                f"this user may open {files} files at once; a role with connections and children needs more",
                "ulimit -n 4096 before the role starts, or LimitNOFILE=4096 in its unit",
            )
        )
    if memory != resource.RLIM_INFINITY and memory < MIN_ADDRESS_BYTES:
        found.append(
            Finding(
                "limits",
                "warn",
                f"this process may use {memory / 1e9:.1f} GB of addresses, and each thread takes some of them",
                "ulimit -v unlimited; limit the memory of a service by MemoryMax= of systemd",
            )
        )
    # Raises an OSError that names the folders where none can be written.
    temporary = Path(tempfile.gettempdir())
    if shutil.disk_usage(temporary).free < NO_SPACE_BYTES:
        found.append(
            Finding(
                "limits",
                "fail",
                f"no space left in {temporary}",
                "free some space, or set TMPDIR to another disk",
            )
        )
    return found or [Finding("limits", "ok", f"{files} open files; temporary files are in {temporary}")]


def disk(installation: Installation) -> list[Finding]:
    """Free space where data is written."""
    file = installation.database.file
    folders = [installation.settings.home.absolute(), *([] if file is None else [file.parent.absolute()])]
    return [_free_space(place) for place in dict.fromkeys(map(_existing, folders))]


def sandbox(installation: Installation) -> list[Finding]:
    """The confinement of functions: its tier, its self-test, and what this machine lacks for a better one."""
    from functory.engine.errors import FunctoryError
    from functory.workers.sandbox.checks import startup, tiers
    from functory.workers.sandbox.runner import Runner

    settings = installation.settings
    found = tiers.survey()
    try:
        with Runner.from_settings(settings) as runner:
            attacks = startup.check_startup(settings, runner)
            tier = runner.tier
    except FunctoryError as error:
        findings = [failed("sandbox", error)]
    else:
        if tier == "none":
            findings = [
                Finding(
                    "sandbox",
                    "warn",
                    "OFF, because FUNCTORY_UNSAFE_NO_SANDBOX is set: functions can do everything that the worker can",
                    "run only functions that you trust"
                    if found.best == "none"
                    else f"unset FUNCTORY_UNSAFE_NO_SANDBOX: this machine offers tier {found.best}",
                )
            ]
        else:
            findings = [
                Finding(
                    "sandbox", "ok", f"tier {tier}; it stopped all {len(attacks)} attacks of its self-test"
                )
            ]
    return findings + [
        Finding(name, _missing_feature_verdict(found.best, name), why, try_)
        for name, why, try_ in _missing_features(found)
    ]


def dashboard(installation: Installation) -> list[Finding]:
    """Whether a server of this installation has pages."""
    if installation.settings.api == "off":
        return [Finding("dashboard", "ok", "off, because FUNCTORY_API is off")]
    if not _is_installed("fastapi"):
        return [
            Finding("dashboard", "ok", "none: the extra server is not installed, so no server can run here")
        ]
    from functory.dashboard.serving import is_built

    if is_built():
        return [Finding("dashboard", "ok", "its files are there")]
    source = _checkout()
    return [
        Finding(
            "dashboard",
            "warn",
            "its files are not built: a server has its API, and no pages",
            "pip install --force-reinstall functory; wheels contain it"
            if source is None
            else f"make -C {shlex.quote(str(source))} dashboard",
        )
    ]


def _checkout() -> Path | None:
    """The folder of the source code that this program runs from; None for an installed package."""
    import functory

    folder = Path(functory.__file__).parents[1]
    return folder if (folder / "dashboard" / "build.sh").is_file() else None


def _needed_places(installation: Installation) -> list[Path]:
    """The places that must be writable, as far as they exist."""
    file = installation.database.file
    wanted = [installation.settings.home.absolute()]
    if file is not None:
        wanted += [file.parent.absolute(), file.absolute()]
    return list(dict.fromkeys(_existing(place) for place in wanted))


def _existing(place: Path) -> Path:
    while not place.exists():
        place = place.parent
    return place


def _free_space(place: Path) -> Finding:
    free = shutil.disk_usage(place).free
    text, advice = (
        f"{free / 1e9:.1f} GB free in {place}",
        "free some space, or set FUNCTORY_HOME to another disk",
    )
    if free < NO_SPACE_BYTES:
        return Finding("disk", "fail", f"no space left on device at {place}", advice)
    return Finding("disk", "warn", text, advice) if free < MIN_FREE_BYTES else Finding("disk", "ok", text)


def _missing_features(found: Any) -> list[tuple[str, str, str]]:
    """List missing sandbox features: name, why, advice. Tiers that lack the same feature share an entry."""
    together: dict[tuple[str, str], list[str]] = {}
    for gap in found.gaps:
        together.setdefault((gap.why, gap.try_), []).append(gap.name)
    lacks = [(f"no tier {'/'.join(names)}", why, try_) for (why, try_), names in together.items()]
    return lacks + [(note.name, note.why, note.try_) for note in found.notes]


def _missing_feature_verdict(best: str, name: str) -> str:
    """The verdict on something that lacks: A is little more than B, which is much more than C."""
    return "ok" if best == "B" and name == "no tier A" else "warn"


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):
        # The package that the module is in is not there, or a test took the module away.
        return False


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
