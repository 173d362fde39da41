"""Takes away the rights of a zygote and its children, for good: one interface over all tiers.

The executed process calls ``confine_zygote`` once. It returns in the zygote, in which foreign code may run
from then on; the calling process stays behind as its init process. The zygote forks with
``Confinement.fork``; the child puts its descriptors in place and calls ``Confinement.confine_child``.
Everything that the kernel refuses is raised as an OSError that names the step: no child continues with less.

| tier | sees | is kept in by |
|---|---|---|
| A | its own root, PID, IPC, mount and network namespaces | a user id per slot, Landlock, seccomp |
| B | the same | a user namespace of its own without any id in it, Landlock, seccomp |
| C | this machine | Landlock, seccomp; as root a user id per zygote |
| none | this machine | nothing but limits of resources |
"""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path
from typing import Literal

from functory.workers.sandbox.confinement import (
    init_process,
    landlock,
    namespaces,
    resource_limits,
    root_filesystem,
    syscalls,
)
from functory.workers.sandbox.confinement.seccomp import filter as seccomp_filter
from functory.workers.sandbox.confinement.user_ids import free_ids
from functory.workers.sandbox.confinement.visible_paths import (
    DEVICES,
    VisiblePaths,
    find_visible_paths,
    readable,
)
from functory.workers.sandbox.protocol.plan import MAX_CHILDREN, Bounds, Plan

__all__ = ["Confinement", "confine_zygote", "free_ids"]

_KEPT_CAPABILITIES = (
    syscalls.CAP_DAC_OVERRIDE,  # to make mount points in a scratch folder that is already the slot's
    syscalls.CAP_KILL,
    syscalls.CAP_SETGID,
    syscalls.CAP_SETUID,
    syscalls.CAP_SYS_ADMIN,
)
# All children of a zygote with some threads each; a bomb in preloaded code ends here.
_ZYGOTE_TASKS = MAX_CHILDREN * 32
# Where tasks are counted for the whole user: what others of the user may start while this zygote lives.
_SHARED_TASKS = 1024
_PER_NAMESPACE = (5, 14)  # since then RLIMIT_NPROC counts per user and user namespace
_LOWEST_DESCRIPTOR = 32
_MOST_PREPARED = 100  # bounds of which the limits are kept
_SCRATCH = "/tmp"  # noqa: S108 - each child's own


def confine_zygote(plan: Plan, lifeline: int | None = None) -> Confinement:
    """Become the confined zygote of ``plan``; to be called once, early, in a process with one thread.

    Returns in a new process. The calling one waits, ends as the zygote ends, and removes ``plan.base``.
    ``lifeline`` is a socket or pipe that hangs up when the worker has gone: the zygote is then given some
    seconds and killed. All of its mounts, ids and namespaces go with it.

    Raises OSError or ValueError, naming the step, in the process that met it: report it to the worker and
    exit.
    """
    ties = init_process.start_init_process(plan.base, lifeline)
    if plan.tier in ("A", "B"):
        confinement: Confinement = _NamespaceConfinement(plan, namespaces.enter(plan, ties.announce))
        ties.attach()
    else:
        ties.announce(os.getpid())
        ties.attach()
        confinement = _LandlockConfinement(plan, ties.kill_pipe) if plan.tier == "C" else Confinement(plan)
    if plan.tier != "C":
        os.close(ties.kill_pipe)
    confinement.lock_down()
    ties.close()
    return confinement


class Confinement:
    """Tier ``none``: limits of resources; the other tiers add to it."""

    def __init__(self, plan: Plan) -> None:
        self.tier = plan.tier
        self.descriptors: tuple[int, ...] = ()
        """Descriptors that ``confine_child`` needs and closes: a child closes all others
        (``syscalls.close_all_but``)."""
        self._plan = plan
        self._zygote = os.getpid()
        self._shared_tasks = resource_limits.tasks_of_this_user() + _SHARED_TASKS
        self._limits: dict[Bounds, list[tuple[int, tuple[int, int]]]] = {}

    def lock_down(self) -> None:
        """Do the last steps of confining the zygote itself; its children inherit them."""
        resource_limits.forbid_unused()
        # A process that lowers them later only makes a child fail.
        self._ceilings = resource_limits.ceilings()

    def confine_import(self) -> None:
        """In a thread of the zygote that is to import packages: start no processes and no threads from here on.

        The thread alone is confined, for as long as it lives; the zygote itself must fork afterwards. Tier ``none``
        has no such filter.
        """

    def prepare(self, bounds: Bounds) -> None:
        """In the zygote, before a fork: make what ``confine_child`` needs for these bounds, once."""
        if bounds not in self._limits:
            if len(self._limits) >= _MOST_PREPARED:
                self._limits.clear()
            self._limits[bounds] = resource_limits.child_limits(bounds, self._tasks(bounds), self._ceilings)

    def _tasks(self, bounds: Bounds) -> int:
        del bounds
        return self._shared_tasks

    def fork(self) -> int:
        """os.fork(2), into a new PID namespace where the tier has them: there the child is its first process."""
        return os.fork()

    def kill(self, pid: int, handle: int) -> None:
        """In the zygote: end its child ``pid``, whose pidfd is ``handle``, and which was not waited for yet."""
        del pid
        signal.pidfd_send_signal(handle, signal.SIGKILL)

    def confine_child(self, bounds: Bounds, slot: int, scratch: str) -> None:
        """Give up all rights except those of ``bounds``; in the child, once, before any user code.

        Returns with the working folder, HOME and TMPDIR at the child's scratch. ``slot`` is a number from 1
        to ``MAX_CHILDREN`` that no other living child has. Any exception means that user code must not run.
        """
        del slot
        _allow_processes(bounds, self._plan)
        os.setsid()
        syscalls.die_with_parent()
        if os.getppid() != self._zygote:
            # What the line above asks for, had it come in time. Nothing has begun: another child takes over.
            os._exit(1)
        os.chdir(scratch)
        os.environ["HOME"] = os.environ["TMPDIR"] = scratch
        self._limit_child(bounds)

    def _limit_child(self, bounds: Bounds) -> None:
        self.prepare(bounds)
        resource_limits.set_limits(self._limits[bounds])


class _SeccompConfinement(Confinement):
    """Apply the steps that all tiers with a boundary share: capabilities, seccomp."""

    def __init__(self, plan: Plan, *, own_namespaces: bool) -> None:
        super().__init__(plan)
        self._metadata = own_namespaces or bool(plan.first_id)
        # A process that sees others of its own user, and is not held by Landlock, must not send signals: the
        # init process ends its children on request. A zygote with a user id for itself can reach no other
        # process.
        contained = own_namespaces or landlock.scopes_signals()
        self._may_signal = contained or (plan.first_id != 0 and os.geteuid() == 0)
        self._machine = seccomp_filter.architecture()
        self._zygote_profile = self._profile("zygote", self._may_signal)
        self._child_profiles = (
            self._profile("child", contained),
            self._profile("child", contained, reusable=True),
        )
        # Made here, a child only finds them; those that name the child's pid are made twice.
        self._child_filters = [self._child_filter(profile) for profile in self._child_profiles]

    def confine_import(self) -> None:
        # As in a child that is used again, it may not lower limits for those that come later.
        seccomp_filter.load(self._code(self._profile("import", False, reusable=True)), all_threads=False)

    def _profile(
        self, name: Literal["zygote", "child", "import"], signals: bool, *, reusable: bool = False
    ) -> seccomp_filter.Profile:
        return seccomp_filter.Profile(
            name=name,
            subprocess=self._plan.subprocess,
            signals=signals,
            network=self._plan.network,
            reusable=reusable,
            metadata=self._metadata,
        )

    def _code(self, profile: seccomp_filter.Profile) -> bytes:
        return seccomp_filter.program(self._machine, profile, os.getpid())

    def _child_filter(self, profile: seccomp_filter.Profile) -> seccomp_filter.PreparedFilter:
        """Return what a child's filter adds to that of the zygote, which a child is under since the fork."""
        code = seccomp_filter.program(self._machine, profile, os.getpid(), self._zygote_profile)
        return seccomp_filter.PreparedFilter(code)

    def _load_child_filter(self, bounds: Bounds) -> None:
        profile = self._child_profiles[bounds.reusable]
        prepared = self._child_filters[bounds.reusable] if profile.signals else self._child_filter(profile)
        prepared.load()

    def _close_descriptors(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


class _NamespaceConfinement(_SeccompConfinement):
    """Tiers A and B."""

    def __init__(self, plan: Plan, world: namespaces.ZygoteNamespaces) -> None:
        super().__init__(plan, own_namespaces=True)
        self._namespaces = world
        self._counts_alone = plan.tier == "A" or syscalls.release() >= _PER_NAMESPACE
        self._rules = self._ruleset(plan) if landlock.abi() else None
        self._pid_namespace = _move_above_child_fds(world.pid_namespace)
        self.descriptors = (self._pid_namespace,)
        if self._rules is not None:
            self._rules.descriptor = _move_above_child_fds(self._rules.descriptor)
            self.descriptors += (self._rules.descriptor,)

    def _ruleset(self, plan: Plan) -> landlock.Ruleset:
        """Landlock rules, made once: no path in them changes from child to child, whatever is mounted below."""
        rules = landlock.Ruleset()
        rules.allow("/", landlock.READ | (landlock.EXECUTE if plan.subprocess else 0))
        rules.allow("/rw", landlock.WRITE)
        for path in plan.write:
            rules.allow(path, landlock.WRITE)
        for path in DEVICES:
            if Path(path).exists():
                rules.allow(path, landlock.WRITE_FILE)
        return rules

    def lock_down(self) -> None:
        if self._counts_alone:
            resource_limits.lower_tasks(_ZYGOTE_TASKS)
        super().lock_down()
        # A child only has to enter the folder: changing the environment costs more than a mount.
        os.environ["HOME"] = os.environ["TMPDIR"] = _SCRATCH
        syscalls.bound_capabilities(_KEPT_CAPABILITIES)
        syscalls.keep_capabilities(_KEPT_CAPABILITIES)
        syscalls.no_new_privileges()
        seccomp_filter.load(self._code(self._zygote_profile))

    def _tasks(self, bounds: Bounds) -> int:
        return bounds.threads + bounds.processes - 1 if self._counts_alone else self._shared_tasks

    def fork(self) -> int:
        # Entering the own namespace again makes a second new one possible.
        syscalls.setns(self._pid_namespace, syscalls.CLONE_NEWPID, "return to the own PID namespace")
        syscalls.unshare(syscalls.CLONE_NEWPID, "make a PID namespace")
        return os.fork()

    def confine_child(self, bounds: Bounds, slot: int, scratch: str) -> None:
        if not 1 <= slot <= MAX_CHILDREN:
            raise ValueError(f"slot {slot} is not one of 1 to {MAX_CHILDREN}")
        _allow_processes(bounds, self._plan)
        # The first process of a PID namespace dies with the one around it: no request is needed.
        os.setsid()
        syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC, "make namespaces of the child")
        own_id = slot if self.tier == "A" else 0
        root_filesystem.mount_child_filesystem(
            bounds.scratch_bytes,
            bounds.scratch_files,
            own_id,
            self._namespaces.scratch_mounts,
            proc=self._namespaces.has_proc,
            execute=self._plan.subprocess,
        )
        os.chdir(_SCRATCH)
        if self.tier == "A":
            os.setresgid(own_id, own_id, own_id)
            os.setresuid(own_id, own_id, own_id)
        else:
            # Without maps: no process in it has a user id, and all its tasks are counted by themselves.
            syscalls.unshare(syscalls.CLONE_NEWUSER, "make a user namespace of the child")
        self._limit_child(bounds)
        syscalls.give_up_capabilities()
        if self._rules is not None:
            self._rules.restrict_self()
        self._close_descriptors()
        self._load_child_filter(bounds)


class _LandlockConfinement(_SeccompConfinement):
    """Tier C: the zygote is ruled by Landlock, each child once more, down to its own scratch folder.

    Its tasks are counted with all others of its user, so RLIMIT_NPROC is a bound for all of them: what they
    are when the zygote starts, and ``_SHARED_TASKS`` more. What one child has is bounded by its memory, for
    the stacks of threads, and by its control group where there is one; processes it has none.
    """

    def __init__(self, plan: Plan, kill_pipe: int) -> None:
        if plan.subprocess:
            raise ValueError(
                "the subprocess grant needs PID namespaces (tier A or B): nothing would end them"
            )
        super().__init__(plan, own_namespaces=False)
        if not landlock.abi():
            raise OSError("Landlock: this kernel has none, or forbids it")
        self._visible_paths = find_visible_paths(plan)
        self._scratch_rights = landlock.applicable_rights(plan.base, landlock.READ | landlock.WRITE)
        self._handles = self._open(self._visible_paths)
        self._kill_pipe = _move_above_child_fds(kill_pipe)
        self.descriptors = (self._kill_pipe, *(handle for handle, _ in self._handles))

    def _open(self, seen: VisiblePaths) -> list[tuple[int, int]]:
        """Open the paths that every child may see, once: adding a rule is then one system call.

        Packages that the zygote may not see need no check here: a child is held by its rules too.
        """
        # As in ``root_filesystem.copy_mounts``: no link is followed on the way to a granted path.
        granted = {*self._plan.read, *self._plan.write}
        wanted = [(path, landlock.READ) for path in (*seen.shared, *seen.read)]
        wanted += [(path, landlock.READ | landlock.WRITE) for path in seen.write]
        wanted += [
            (path, landlock.READ_FILE | landlock.WRITE_FILE) for path in DEVICES if Path(path).exists()
        ]
        return [
            (
                _move_above_child_fds(syscalls.open_path(path, links=path not in granted)),
                landlock.applicable_rights(path, rights),
            )
            for path, rights in wanted
        ]

    def lock_down(self) -> None:
        super().lock_down()
        rules = landlock.Ruleset()
        for folder in self._visible_paths.shared:
            for path, whole in readable(folder, self._visible_paths.hidden):
                rules.allow(path, landlock.READ if whole else landlock.READ_DIR)
        for handle, rights in self._handles[len(self._visible_paths.shared) :]:
            rules.add(handle, rights)
        rules.allow(self._plan.base, landlock.READ | landlock.WRITE)
        _leave_root(self._plan)
        syscalls.no_new_privileges()
        rules.restrict_self()
        rules.close()
        seccomp_filter.load(self._code(self._zygote_profile))

    def kill(self, pid: int, handle: int) -> None:
        if self._may_signal:
            super().kill(pid, handle)
        else:
            init_process.request_kill(self._kill_pipe, pid)

    def confine_child(self, bounds: Bounds, slot: int, scratch: str) -> None:
        super().confine_child(bounds, slot, scratch)
        rules = landlock.Ruleset()
        for handle, rights in self._handles:
            rules.add(handle, rights)
        folder = os.open(scratch, os.O_PATH | os.O_CLOEXEC)
        rules.add(folder, self._scratch_rights)
        os.close(folder)
        rules.restrict_self()
        rules.close()
        self._close_descriptors()
        self._load_child_filter(bounds)


def _move_above_child_fds(descriptor: int) -> int:
    """Move a descriptor to a number that no child uses."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LOWEST_DESCRIPTOR)
    os.close(descriptor)
    return moved


def _leave_root(plan: Plan) -> None:
    """In tier C as root: become the plan's user where that is possible, and drop all capabilities in any
    case."""
    if os.geteuid() != 0:
        return
    if plan.first_id:
        os.chown(plan.base, plan.first_id, plan.first_id)
        os.setgroups([])
        os.setresgid(plan.first_id, plan.first_id, plan.first_id)
        os.setresuid(plan.first_id, plan.first_id, plan.first_id)
        library = os.__file__
        if not os.access(library, os.R_OK):
            raise PermissionError(
                f"{library} cannot be read by user {plan.first_id}, whom functions run as: "
                "install Python where everybody may read it"
            )
    syscalls.give_up_capabilities()


def _allow_processes(bounds: Bounds, plan: Plan) -> None:
    if bounds.processes > 1 and not plan.subprocess:
        raise ValueError("more than one process needs the subprocess grant")
