"""The systemd units: systemd accepts them, they let the sandbox live, and start each role when its parts are there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from functory.cli.command_index import SECTIONS
from functory.engine.settings import Settings
from tests.services.missing_servers import leave_out, require
from tests.support import unprivileged

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "systemd"
PAGE = ROOT / "docs" / "how-to" / "run-with-systemd.md"
GRACE = Settings.model_fields["grace_seconds"].default
ROLES = [entry.name for entry in SECTIONS["Roles"]]
# They run no functions and inspect none.
WITHOUT_SANDBOX = ("router", "scheduler", "watcher", "gateway")
# With the first two only tier C is left; a /proc that is partly covered cannot be mounted for a function.
HARMFUL_TO_THE_SANDBOX = {
    "RestrictNamespaces",
    "PrivateUsers",
    "ProtectKernelTunables",
    "ProtectKernelLogs",
    "ProtectProc",
    "ProcSubset",
    "ProtectControlGroups",
}
# Runs a command as an ordinary user with what CapabilityBoundingSet= and NoNewPrivileges=yes leave of its rights.
WITHOUT_CAPABILITIES = """
import ctypes, os, sys
from tests.support import unprivileged
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, CLONE_NEWNS = 24, 38, 0x20000
libc = ctypes.CDLL(None)
assert libc.unshare(CLONE_NEWNS) == 0
unprivileged.reveal()
for capability in range(64):
    libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
os.setgroups([])
os.setresgid(*[unprivileged.UID] * 3)
os.setresuid(*[unprivileged.UID] * 3)
from pathlib import Path
assert "CapBnd:\\t0000000000000000" in Path("/proc/self/status").read_text()
os.execv(sys.argv[1], sys.argv[1:])
"""


def settings(*names: str) -> dict[str, list[str]]:
    """The values of each setting of unit files, in their order."""
    found: dict[str, list[str]] = {}
    for name in names:
        for key, value in re.findall(r"^(\w+)=(.*)$", (FOLDER / name).read_text(), re.M):
            found.setdefault(key, []).append(value)
    return found


def analyze(units: Path, *words: str) -> str:
    """What systemd-analyze prints about these units; fails when its status is not 0."""
    done = subprocess.run(
        [str(require("systemd").programs["systemd-analyze"]), *words],
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{units}:", "SYSTEMD_PAGER": "", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The unit files as an administrator installs them, with a program that exists here."""
    folder = tmp_path / "system"
    shutil.copytree(FOLDER, folder)
    for unit in folder.glob("*.service"):
        unit.write_text(unit.read_text().replace("/opt/functory/bin/", f"{Path(sys.executable).parent}/"))
    return folder


def test_systemd_accepts_the_units(units: Path) -> None:
    names = [*(f"functory@{role}.service" for role in ROLES), "functory-schema.service", "functory.target"]
    # It only warns about a key that it does not know.
    assert analyze(units, "verify", "--man=no", *names) == ""


def test_the_page_says_how_exposed_systemd_finds_the_units(units: Path) -> None:
    for names, unit in (
        (("worker", "server"), "functory@{}.service"),
        (WITHOUT_SANDBOX, "functory@{}.service"),
        (("functory-schema",), "{}.service"),
    ):
        for name in names:
            printed = analyze(units, "security", "--offline=true", unit.format(name))
            level = re.search(r"exposure level for \S+: ([\d.]+)", printed)
            assert level is not None, printed
            assert re.search(rf"^\|.*`{name}`.*\| {level[1]} \|$", PAGE.read_text(), re.M), (name, level[1])


def test_the_users_and_folders_are_made_as_systemd_reads_them(tmp_path: Path) -> None:
    for program, file, made in (
        ("systemd-sysusers", "sysusers.d/functory.conf", "etc/passwd"),
        ("systemd-tmpfiles", "tmpfiles.d/functory.conf", "etc/functory"),
    ):
        # A change of the file system in a folder of its own needs root, and the second the user root in it.
        if os.geteuid() != 0:
            leave_out(f"{program} --root needs root")
        (tmp_path / "etc").mkdir(exist_ok=True)
        found = str(require("systemd").programs[program])
        words = ["--create"] if program == "systemd-tmpfiles" else []
        done = subprocess.run(
            [found, *words, f"--root={tmp_path}", str(FOLDER / file)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert (tmp_path / made).exists()
    users = (tmp_path / "etc" / "passwd").read_text()
    name, _, _, _, _, home, shell = users.strip().splitlines()[-1].split(":")
    assert (name, home) == (*settings("functory@.service")["User"], "/var/lib/functory")
    assert shell.endswith("nologin")
    assert (tmp_path / "etc" / "functory").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["functory@.service", "functory-schema.service"])
def test_the_units_run_without_root_in_a_folder_of_their_own(name: str) -> None:
    unit = settings(name)
    assert unit["User"] == ["functory"] and unit["NoNewPrivileges"] == ["yes"]
    home = Path(re.search(r"FUNCTORY_HOME=(\S+)", unit["Environment"][0])[1])  # type: ignore[index]
    assert home.is_relative_to(f"/var/lib/{unit['StateDirectory'][0]}")
    for variable in re.findall(r"FUNCTORY_(\w+)=", " ".join(unit["Environment"])):
        assert variable.lower() in Settings.model_fields


def test_the_units_let_the_sandbox_of_worker_and_server_live() -> None:
    unit = settings("functory@.service")
    assert not unit.keys() & HARMFUL_TO_THE_SANDBOX
    # The sandbox mounts, makes namespaces, sets limits and changes its rights.
    (refused,) = unit["SystemCallFilter"]
    assert refused.startswith("~")
    assert not set(refused[1:].split()) & {
        "@mount",
        "@privileged",
        "@process",
        "@resources",
        "@setuid",
        "@debug",
    }
    dropped_in = {folder.name.split("@")[1].split(".")[0] for folder in FOLDER.glob("functory@*.service.d")}
    assert dropped_in == set(WITHOUT_SANDBOX) < set(ROLES)
    for role in WITHOUT_SANDBOX:
        (file,) = (FOLDER / f"functory@{role}.service.d").iterdir()
        hardened = settings(str(file.relative_to(FOLDER)))
        assert HARMFUL_TO_THE_SANDBOX - {"PrivateUsers"} <= hardened.keys()
        # The empty value ends the list of what is refused; without it the next one would only shorten that list.
        assert hardened["SystemCallFilter"] == ["", "@system-service"]


def test_the_sandbox_needs_no_capability_of_the_unit(tmp_path: Path) -> None:
    assert settings("functory@.service")["CapabilityBoundingSet"] == [""]
    if os.geteuid() != 0 or unprivileged.missing():
        leave_out("another user id and an empty bounding set need root")
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            WITHOUT_CAPABILITIES,
            f"{Path(sys.executable).parent}/functory",
            "doctor",
            "sandbox",
        ],
        cwd=ROOT,
        env=os.environ | {"FUNCTORY_HOME": str(tmp_path / "home"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "tier B; it stopped all" in done.stdout, done.stdout + done.stderr


def test_the_schema_is_made_before_the_first_role_starts() -> None:
    role, schema = settings("functory@.service"), settings("functory-schema.service")
    assert "functory-schema.service" in role["After"][0] and "functory-schema.service" in role["Wants"][0]
    assert schema["ExecStart"] == ["/opt/functory/bin/functory db upgrade"]
    # A role that is started again must not upgrade under the others that run.
    assert (schema["Type"], schema["RemainAfterExit"]) == (["oneshot"], ["yes"])


def test_the_target_starts_and_stops_all_roles() -> None:
    role = settings("functory@.service")
    assert role["PartOf"] == role["WantedBy"] == ["functory.target"]
    assert settings("functory.target")["WantedBy"] == ["multi-user.target"]


def test_systemd_waits_for_a_role_and_watches_it() -> None:
    unit = settings("functory@.service")
    assert (unit["Type"], unit["NotifyAccess"]) == (["notify"], ["main"])
    # A database that is away is waited for; a restart would not bring it back.
    assert unit["TimeoutStartSec"] == ["infinity"]
    # The role writes its stacks, and then has time for them.
    assert unit["WatchdogSignal"] == ["SIGUSR1"] and int(unit["WatchdogSec"][0]) > 10
    assert unit["Restart"] == ["always"] and "75" not in unit["RestartPreventExitStatus"][0].split()


def test_the_unit_leaves_a_role_its_grace_and_its_children() -> None:
    unit = settings("functory@.service")
    assert unit["KillMode"] == ["mixed"]
    assert int(unit["TimeoutStopSec"][0]) > GRACE


def test_the_key_is_no_variable_and_belongs_to_root() -> None:
    unit = settings("functory@.service")
    assert unit["LoadCredential"] == ["secret.key:/etc/functory/secret.key"]
    assert "FUNCTORY_SECRET_KEY_FILE=%d/secret.key" in unit["Environment"][0]
