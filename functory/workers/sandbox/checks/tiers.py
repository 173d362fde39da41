"""Finds the confinement that this machine offers, why not a better one, and what to change.

``survey`` runs the probes (see ``functory.workers.sandbox.checks.kernel_probes``, and a zygote of each tier)
and chooses. The choice is a pure function of the facts, so that the tests cover machines that are not at hand
by a table.

    A     root: namespaces, and a user id of its own for each execution
    B     an ordinary user with user namespaces
    C     no namespaces: Landlock, a filter of system calls, limits
    none  limits only: no boundary
"""

from __future__ import annotations

import errno
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Literal

import msgspec

from functory.engine import os_errors
from functory.engine.errors import Unavailable
from functory.workers.sandbox.checks.kernel_probes import Probe
from functory.workers.sandbox.confinement import cgroup_tree
from functory.workers.sandbox.confinement.seccomp.syscall_numbers import NUMBERS
from functory.workers.sandbox.protocol.plan import Tier
from functory.workers.sandbox.runner import Runner

TIERS: tuple[Tier, ...] = ("A", "B", "C", "none")
"""Best first."""

Container = Literal["", "docker", "podman", "kubernetes", "other"]

# A zygote keeps its own descriptors from 32 on, and its worker has a database, a broker and the pipes of children.
LEAST_OPEN_FILES = 64
# What a limit of this process refuses, and not the kernel's settings or a filter.
_SPENT = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC)
_SECONDS = 60.0  # for all probes; they take a tenth of a second
_BOOT = (
    "import sys; sys.path[:0] = sys.argv[1:]; "
    "from functory.workers.sandbox.checks.kernel_probes import main; main()"
)
_NAMESPACES = ("user namespace", "namespaces", "mounts")
_NEEDS: dict[Tier, tuple[str, ...]] = {
    "A": ("user namespace", "namespaces", "many ids", "mounts", "filter", "tier A"),
    "B": (*_NAMESPACES, "filter", "tier B"),
    "C": ("landlock", "filter", "tier C"),
    "none": (),
}
# What explains a refusal; a machine has those of its kernel and security modules.
_SETTINGS = {
    "user.max_user_namespaces": "/proc/sys/user/max_user_namespaces",
    "kernel.unprivileged_userns_clone": "/proc/sys/kernel/unprivileged_userns_clone",
    "kernel.apparmor_restrict_unprivileged_userns": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "selinux": "/sys/fs/selinux/enforce",
}
_CAPABILITIES = (
    "CHOWN, DAC_OVERRIDE, KILL, SETGID and SETUID (a container engine's default; in a systemd unit: "
    "CapabilityBoundingSet=)"
)
_CALLS = "unshare, setns, mount, umount2, pivot_root, open_tree, move_mount and mount_setattr"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a machine; ``failed_probes`` holds the probes that failed, by their step."""

    system: str = "Linux"
    machine: str = "x86_64"
    root: bool = False
    container: Container = ""
    filtered: bool = False
    """A filter of system calls was active before ours."""
    settings: dict[str, str] = {}
    failed_probes: dict[str, Probe] = {}
    working_tier: Tier | None = None
    """The best tier in which a zygote could be started, which decides; None if that was not tried."""
    cgroup: str = ""
    """The reason why no control group can be made, empty where one can."""


class Gap(msgspec.Struct, frozen=True):
    """A stronger tier that this machine does not offer: what failed, and what to change."""

    name: str
    why: str
    try_: str


class Survey(msgspec.Struct, frozen=True):
    """``gaps`` has one entry for each better tier, best first; ``notes`` lists what is missing within the
    best one."""

    best: Tier
    gaps: tuple[Gap, ...]
    notes: tuple[Gap, ...]


def check_process() -> None:
    """Raise ``Unavailable`` where this process has no /proc, or may open so few files that no sandbox can start.

    Each step of its start would fail with an error of its own, which hides the reason.
    """
    if not Path("/proc/self").exists():
        raise Unavailable(
            "functions cannot run",
            "/proc is not mounted, where the kernel says what a process uses",
            "mount -t proc proc /proc",
        )
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most != resource.RLIM_INFINITY and most < LEAST_OPEN_FILES:
        raise Unavailable(
            "functions cannot run",
            f"this process may open {most} files at once (ulimit -n), and a sandbox needs {LEAST_OPEN_FILES}",
            os_errors.explain(OSError(errno.EMFILE, "")).try_,
        )


def advice_on_limits(message: str) -> str:
    """Return what to change where a message of the kernel names a limit of this process; else an empty text."""
    spent = next((number for number in _SPENT if os.strerror(number) in message), None)
    return "" if spent is None else os_errors.explain(OSError(spent, "")).try_


def survey() -> Survey:
    """Try what this machine offers: some tenths of a second, in processes of its own.

    Raises ``Unavailable`` as :func:`check_process` does, and where no process can be started.
    """
    check_process()
    facts = collect_facts()
    refused = dict(facts.failed_probes)
    works: Tier = "none"
    for tier in TIERS[:-1] if facts.system == "Linux" and facts.machine in NUMBERS else ():
        if tier == "A" and not facts.root:
            continue
        refusal = _try_start(tier)
        if refusal is None:
            works = tier
            break
        refused[refusal.step] = refusal
    return choose_tier(msgspec.structs.replace(facts, failed_probes=refused, working_tier=works))


def _try_start(tier: Tier) -> Probe | None:
    """Start a zygote as a worker does; return its error when it could not start."""
    runner = Runner(tier=tier)
    try:
        runner.start()
    except Unavailable as error:
        return Probe(f"tier {tier}", message=error.why.removeprefix(f"tier {tier}: "))
    finally:
        runner.close()
    return None


def weaker(tier: Tier, than: Tier) -> bool:
    return TIERS.index(tier) > TIERS.index(than)


def collect_facts() -> Facts:
    """Collect the facts of this machine. Raises ``Unavailable`` when the probes themselves cannot be started."""
    system, machine = platform.system(), platform.machine()
    if system != "Linux" or machine not in NUMBERS:
        return Facts(system=system, machine=machine, root=os.geteuid() == 0)
    here = Path(__file__).resolve().parents[4]
    paths = dict.fromkeys([str(here), str(Path(msgspec.__file__).resolve().parents[1])])
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and constants
            [sys.executable, "-I", "-S", "-B", "-c", _BOOT, *paths],
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(
            "this machine's sandbox cannot be tried",
            str(error),
            advice_on_limits(str(error)) or "start Python as the worker's user",
        ) from None
    try:
        probes = msgspec.json.decode(done.stdout, type=list[Probe])
    except msgspec.DecodeError:
        said = (done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}").split(
            "\n"
        )[-1]
        raise Unavailable(
            "this machine's sandbox cannot be tried",
            f"the process that tries it ended early: {said}",
            advice_on_limits(said) or "start Python as the worker's user",
        ) from None
    return Facts(
        system=system,
        machine=machine,
        root=os.geteuid() == 0,
        container=container(os.environ.get("KUBERNETES_SERVICE_HOST")),
        filtered=_text("/proc/self/status").partition("\nSeccomp:")[2].split("\n")[0].strip() == "2",
        settings={name: text for name, path in _SETTINGS.items() if (text := _text(path).strip())},
        failed_probes={probe.step: probe for probe in probes if probe.message},
        cgroup=cgroup_tree.unavailable_reason(),
    )


def container(kubernetes: str | None, root: Path = Path("/")) -> Container:
    """Return the kind of container that this process runs in, by the marks that container engines leave."""
    if kubernetes:
        return "kubernetes"
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    return "other" if (root / "run/systemd/container").exists() else ""


def choose_tier(facts: Facts) -> Survey:
    """Return the best tier for these facts, and what is missing for the better ones."""
    gaps: list[Gap] = []
    for tier in TIERS:
        gap = _gap(tier, facts)
        if tier == facts.working_tier or (gap is None and facts.working_tier is None):
            return Survey(tier, tuple(gaps), tuple(_notes(tier, facts)))
        if gap is not None:
            gaps.append(gap)
    raise AssertionError("the last tier needs nothing")


def _gap(tier: Tier, facts: Facts) -> Gap | None:
    if tier == "none":
        return None
    if facts.system != "Linux":
        return Gap(
            tier,
            f"{facts.system} is not Linux",
            "run the workers on Linux, in a virtual machine or a container",
        )
    if facts.machine not in NUMBERS:
        supported = " and ".join(NUMBERS)
        return Gap(
            tier,
            f"the numbers of system calls on {facts.machine} are not known, so they cannot be filtered",
            f"run the workers on {supported}",
        )
    if tier == "A" and not facts.root:
        return Gap(
            "A",
            "it needs root, to give each execution a user id of its own; this is an ordinary user",
            "where tier B is not enough, run the worker as root: functions never run as root",
        )
    probe = next((facts.failed_probes[step] for step in _NEEDS[tier] if step in facts.failed_probes), None)
    return Gap(tier, probe.message, _advice(probe, facts)) if probe is not None else None


def _advice(probe: Probe, facts: Facts) -> str:
    """Return what to change so that a probe succeeds."""
    if probe.step in ("landlock", "filter"):
        return _advice_on_filters(probe, facts)
    if probe.step == "many ids":
        return _advice_on_ids(probe, facts)
    if probe.step in _NAMESPACES:
        return _advice_on_namespaces(probe, facts)
    if "cannot be read by user" in probe.message:
        return "install Python and Functory where every user may read them: not below /root or a home folder"
    if facts.root and "not permitted" in probe.message.lower():
        return f"leave the worker the capabilities {_CAPABILITIES}"
    return (
        advice_on_limits(probe.message)
        or "report this with the output of functory doctor --json: all that it needs was there by itself"
    )


def _advice_on_namespaces(probe: Probe, facts: Facts) -> str:
    where = " on the host" if facts.container else ""
    if facts.root and probe.message.startswith("map "):
        return f"leave the worker the capabilities {_CAPABILITIES}"
    if "filtered" in facts.failed_probes:
        return _UNFILTERED[facts.container]
    if probe.errno in (errno.ENOSPC, errno.EUSERS):
        limit = facts.settings.get("user.max_user_namespaces", "")
        now = f" (now {limit})" if limit else ""
        return f"sysctl user.max_user_namespaces=15000{where}{now}, and the other user.max_*_namespaces"
    if probe.errno in (errno.ENOSYS, errno.EINVAL):
        return "a kernel from 5.12 on with CONFIG_USER_NS=y; a filter above this process may also pretend it has none"
    if not facts.root and facts.settings.get("kernel.unprivileged_userns_clone") == "0":
        return f"sysctl kernel.unprivileged_userns_clone=1{where}"
    if not facts.root and facts.settings.get("kernel.apparmor_restrict_unprivileged_userns", "0") != "0":
        return (
            f"sysctl kernel.apparmor_restrict_unprivileged_userns=0{where}, "
            "or an AppArmor profile with 'userns,' for the worker's Python"
        )
    if facts.container:
        return _UNFILTERED[facts.container]
    if facts.filtered:
        return _UNFILTERED[""]
    if facts.settings.get("selinux") == "1":
        return "let SELinux allow the worker's domain to make user namespaces and mount in them (ausearch -m avc)"
    return (
        "the kernel's log says which security module refused it (dmesg); a worker in a chroot cannot have it"
    )


_UNFILTERED: dict[Container, str] = {
    "docker": "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined (or a seccomp profile "
    f"that allows {_CALLS}), or run the worker in rootless Podman",
    "podman": "podman run --security-opt seccomp=unconfined --security-opt label=disable (or a seccomp profile that "
    f"allows {_CALLS})",
    "kubernetes": "in the pod's securityContext: a seccompProfile of type Localhost that allows "
    f"{_CALLS} (or Unconfined), and an appArmorProfile of type Unconfined",
    "other": f"let the container's filter of system calls allow {_CALLS}",
    "": f"let the filter of system calls above the worker allow {_CALLS}; in a systemd unit: "
    "RestrictNamespaces=no, and SystemCallFilter= with @mount",
}


def _advice_on_ids(probe: Probe, facts: Facts) -> str:
    if probe.errno == errno.EPERM:
        return f"leave the worker the capabilities {_CAPABILITIES}"
    return "map more user ids into the container: 65,536 in /etc/subuid and /etc/subgid are usual"


def _advice_on_filters(probe: Probe, facts: Facts) -> str:
    if probe.step == "filter":
        return "a kernel with CONFIG_SECCOMP_FILTER=y, in a container whose own filter allows seccomp"
    if probe.errno == errno.EOPNOTSUPP:
        where = "the host's kernel" if facts.container else "the kernel"
        return f"start {where} with landlock in its parameter lsm= (for example lsm=landlock,lockdown,yama,apparmor)"
    if probe.errno == errno.EPERM and (facts.container or facts.filtered):
        return "let the filter of system calls above the worker allow the three landlock_* calls"
    newer = ", and a container engine that knows Landlock (Docker 23)" if facts.container else ""
    return f"a kernel from 5.13 on with CONFIG_SECURITY_LANDLOCK=y{newer}"


def _notes(tier: Tier, facts: Facts) -> list[Gap]:
    notes: list[Gap] = []
    if tier in ("A", "B") and (probe := facts.failed_probes.get("proc")) is not None:
        advice = {
            "docker": "docker run --security-opt systempaths=unconfined",
            "podman": "podman run --security-opt unmask=ALL",
            "kubernetes": "procMount: Unmasked in the container's securityContext (with hostUsers: false)",
            "other": "uncover /proc of the container: parts of it are hidden",
            "": "uncover /proc: in a systemd unit ProtectKernelTunables=no, ProtectProc=default, ProcSubset=all",
        }[facts.container]
        notes.append(Gap("proc", f"functions find no /proc ({probe.message})", advice))
    if tier in ("A", "B") and (probe := facts.failed_probes.get("landlock")) is not None:
        why = f"the second wall behind the namespaces is missing ({probe.message})"
        notes.append(Gap("landlock", why, _advice_on_filters(probe, facts)))
    if facts.system == "Linux" and facts.cgroup:
        advice = {
            "docker": "docker run --security-opt writable-cgroups=true, where this Docker has it; or a limit for "
            "the container (--memory)",
            "podman": "podman run --security-opt unmask=/sys/fs/cgroup, or a limit for the container (--memory)",
            "kubernetes": "a memory limit for the container",
        }.get(facts.container, "as root; or in the worker's systemd unit: Delegate=yes")
        notes.append(Gap("cgroup", f"memory is limited as address space only: {facts.cgroup}", advice))
    return notes


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
