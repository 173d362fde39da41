"""The facts of a machine determine its tier, what it lacks for a better one, and what to change."""

from __future__ import annotations

import errno
import os

import pytest

from functory.workers.sandbox.checks.kernel_probes import Probe
from functory.workers.sandbox.checks.tiers import Facts, choose_tier, container, weaker


def refused(**steps: int | str) -> dict[str, Probe]:
    """Build the failed probes: their errno, or their message without one. ``_`` in a name stands for a space."""
    found = {}
    for name, how in steps.items():
        step = name.replace("_", " ")
        number = how if isinstance(how, int) else 0
        found[step] = Probe(step, number, f"{step}: {os.strerror(how)}" if isinstance(how, int) else how)
    return found


NO_NAMESPACES = refused(
    filtered=errno.EPERM, user_namespace=errno.EPERM, namespaces=errno.EPERM, mounts=errno.EPERM
)
FULL = refused(user_namespace=errno.ENOSPC, namespaces=errno.ENOSPC, mounts=errno.ENOSPC)
NO_MOUNTS = refused(mounts=errno.EACCES)


@pytest.mark.parametrize(
    ("facts", "best", "gaps"),
    [
        # (facts, best tier, for each better tier: words of its reason and of its advice)
        (Facts(root=True), "A", []),
        (Facts(), "B", [("it needs root", "run the worker as root")]),
        (
            Facts(root=True, failed_probes=refused(many_ids="no 257 free ids are mapped")),
            "B",
            [("no 257 free ids", "/etc/subuid")],
        ),
        (
            Facts(root=True, failed_probes=refused(many_ids=errno.EPERM), container="docker"),
            "B",
            [("many ids: Operation not permitted", "SETUID")],
        ),
        (
            Facts(root=True, container="docker", filtered=True, failed_probes=NO_NAMESPACES),
            "C",
            [("user namespace: Operation not permitted", "seccomp=unconfined")] * 2,
        ),
        (
            Facts(container="podman", filtered=True, failed_probes=NO_NAMESPACES),
            "C",
            [("it needs root", "as root"), ("user namespace", "label=disable")],
        ),
        (
            Facts(container="kubernetes", filtered=True, failed_probes=NO_NAMESPACES),
            "C",
            [("it needs root", "as root"), ("user namespace", "seccompProfile")],
        ),
        (
            Facts(filtered=True, failed_probes=refused(user_namespace=errno.EPERM)),
            "C",
            [("it needs root", "as root"), ("Operation not permitted", "RestrictNamespaces=no")],
        ),
        (
            Facts(root=True, failed_probes=FULL, settings={"user.max_user_namespaces": "0"}),
            "C",
            [("No space left", "user.max_user_namespaces=15000 (now 0)")] * 2,
        ),
        (
            Facts(container="docker", failed_probes=FULL, settings={"user.max_user_namespaces": "0"}),
            "C",
            [("it needs root", "as root"), ("No space left", "on the host")],
        ),
        (
            Facts(
                failed_probes=refused(user_namespace=errno.EPERM),
                settings={"kernel.unprivileged_userns_clone": "0"},
            ),
            "C",
            [("it needs root", "as root"), ("user namespace", "kernel.unprivileged_userns_clone=1")],
        ),
        (
            # Ubuntu: the namespace is made, and means nothing.
            Facts(failed_probes=NO_MOUNTS, settings={"kernel.apparmor_restrict_unprivileged_userns": "1"}),
            "C",
            [
                ("it needs root", "as root"),
                ("mounts: Permission denied", "kernel.apparmor_restrict_unprivileged_userns=0"),
            ],
        ),
        (
            Facts(root=True, container="docker", failed_probes=NO_MOUNTS),
            "C",
            [("mounts: Permission denied", "apparmor=unconfined")] * 2,
        ),
        (
            Facts(root=True, failed_probes=NO_MOUNTS, settings={"selinux": "1"}),
            "C",
            [("mounts: Permission denied", "SELinux")] * 2,
        ),
        (
            Facts(failed_probes=refused(user_namespace=errno.ENOSYS)),
            "C",
            [("it needs root", "as root"), ("Function not implemented", "CONFIG_USER_NS")],
        ),
        (
            Facts(failed_probes=FULL | refused(landlock=errno.EOPNOTSUPP)),
            "none",
            [("it needs root", ""), ("No space left", ""), ("Operation not supported", "lsm=")],
        ),
        (
            Facts(failed_probes=FULL | refused(landlock=errno.ENOSYS)),
            "none",
            [("it needs root", ""), ("No space left", ""), ("Function not implemented", "5.13")],
        ),
        (
            Facts(root=True, failed_probes=refused(filter=errno.EINVAL)),
            "none",
            [("filter: Invalid argument", "CONFIG_SECCOMP_FILTER")] * 3,
        ),
        (
            Facts(
                root=True, failed_probes={"tier A": Probe("tier A", message="enter the world: it is full")}
            ),
            "B",
            [("it is full", "report this")],
        ),
        (
            Facts(
                root=True,
                failed_probes={"tier A": Probe("tier A", message="fork: Resource temporarily unavailable")},
            ),
            "B",
            [("fork", "ulimit -u")],
        ),
        (
            Facts(
                root=True,
                failed_probes=FULL
                | {"tier C": Probe("tier C", message="os.py cannot be read by user 1879048192")},
            ),
            "none",
            [("No space left", ""), ("No space left", ""), ("cannot be read", "every user may read")],
        ),
        (
            Facts(
                root=True,
                failed_probes={"tier A": Probe("tier A", message="[Errno 1] Operation not permitted")},
            ),
            "B",
            [("not permitted", "capabilities CHOWN")],
        ),
        # What really starts decides: a trial may ask for more than is needed.
        (Facts(root=True, failed_probes=NO_MOUNTS, working_tier="A"), "A", []),
        (
            Facts(root=True, failed_probes=NO_MOUNTS, working_tier="C", container="docker"),
            "C",
            [("mounts: Permission denied", "apparmor=unconfined")] * 2,
        ),
        (Facts(system="Darwin", machine="arm64"), "none", [("Darwin is not Linux", "on Linux")] * 3),
        (Facts(machine="riscv64"), "none", [("riscv64", "x86_64 and aarch64")] * 3),
    ],
)
def test_facts_lead_to_a_tier_and_to_what_to_change_for_a_better_one(facts, best, gaps):
    found = choose_tier(facts)
    assert found.best == best
    assert [gap.name for gap in found.gaps] == ["A", "B", "C"][: len(gaps)]
    for gap, (why, try_) in zip(found.gaps, gaps, strict=True):
        assert why in gap.why
        assert try_ in gap.try_


@pytest.mark.parametrize(
    ("facts", "names"),
    [
        (Facts(), []),
        (Facts(failed_probes=refused(proc=errno.EPERM), container="podman"), ["proc"]),
        (Facts(failed_probes=refused(landlock=errno.EOPNOTSUPP)), ["landlock"]),
        (Facts(cgroup="none can be written"), ["cgroup"]),
        # Without namespaces there is no /proc of its own to miss.
        (Facts(failed_probes=FULL | refused(proc=errno.ENOSPC)), []),
    ],
)
def test_what_lacks_within_the_best_tier_is_noted(facts, names):
    found = choose_tier(facts)
    assert [note.name for note in found.notes] == names
    assert all(note.why and note.try_ for note in found.notes)


def test_a_masked_proc_in_podman_names_podmans_option():
    (note,) = choose_tier(Facts(failed_probes=refused(proc=errno.EPERM), container="podman")).notes
    assert "unmask=ALL" in note.try_


def test_containers_are_known_by_the_marks_that_their_engines_leave(tmp_path):
    assert container(None, tmp_path) == ""
    (tmp_path / ".dockerenv").touch()
    assert container(None, tmp_path) == "docker"
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.containerenv").touch()
    assert container(None, tmp_path) == "podman"
    assert container("10.0.0.1", tmp_path) == "kubernetes"


def test_tiers_are_ordered():
    assert weaker("none", "C") and weaker("C", "B") and weaker("B", "A")
    assert not weaker("B", "B") and not weaker("A", "C")
