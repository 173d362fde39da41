"""Attacks that leave the sandbox: more rights, other namespaces, mounts, seldom used parts of the kernel."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Iterable

from tests.attacks.case import STOPPED, SUCCEEDS, Report, attack
from tests.attacks.prelude import Any, Tries, check, libc, read, syscall


def few_variables(report: Report) -> Iterable[str]:
    expected = {"PATH", "LANG", "HOME", "TMPDIR", "PWD", "TMP", "TEMP", "LC_ALL", "LC_CTYPE", "TZ"}
    for name in report.found.get("names", ()):
        if name not in expected and not name.startswith(
            ("PYTHON", "OPENBLAS", "OMP_", "MKL_", "MALLOC_", "NUMEXPR_")
        ):
            yield f"its environment has {name}"


@attack("A10", "Its own environment: has it the worker's secrets?", without=STOPPED, check=few_variables)
def own_environment(d: dict[str, Any]) -> Any:
    tries = Tries()
    secret = (d["canary"].encode(), b"canary-of-the-worker", b"FUNCTORY_")
    for name in ("/proc/self/environ", "/proc/self/cmdline"):
        tries.attempt(name, read, name, proof=lambda text: any(word in text for word in secret))
    for name, value in os.environb.items():
        if any(word in name or word in value for word in secret):
            tries.through.append(name.decode())
    return tries.verdict(names=sorted(os.environ))


@attack("A22", "New namespaces", without=SUCCEEDS)
def new_namespaces(d: dict[str, Any]) -> Any:
    tries = Tries()
    kinds = {
        "NEWNS": 0x20000,
        "NEWCGROUP": 0x2000000,
        "NEWUTS": 0x4000000,
        "NEWIPC": 0x8000000,
        "NEWNET": 0x40000000,
        "NEWPID": 0x20000000,
        "NEWTIME": 0x80,
        "FS": 0x200,
        "FILES": 0x400,
        "NEWUSER": 0x10000000,
    }
    for name, flag in kinds.items():
        # Sharing less with its own threads is no harm.
        tries.attempt(name, syscall, "unshare", flag, proof=lambda _, flag=flag: flag > 0x400 or flag == 0x80)
    return tries.verdict()


@attack("A22b", "Somebody else's namespaces", without="joining them takes rights that an ordinary user lacks")
def other_namespaces(d: dict[str, Any]) -> Any:
    tries = Tries()

    def join(pid: int | str, name: str) -> None:
        fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        syscall("setns", fd, 0)

    for pid in (1, d["decoy"], os.getppid(), "self"):
        for name in ("mnt", "user", "pid", "net"):
            tries.attempt(f"{pid}/{name}", join, pid, name)
    if hasattr(os, "pidfd_open"):
        tries.attempt("by a pidfd", lambda: syscall("setns", os.pidfd_open(d["decoy"]), 0x20000))
    return tries.verdict()


@attack("A23", "A child in namespaces of its own", without=SUCCEEDS)
def cloned_namespaces(d: dict[str, Any]) -> Any:
    tries = Tries()
    new_user = 0x10000000

    def split(*arguments: Any) -> None:
        if syscall(*arguments) == 0:
            os._exit(0)

    tries.attempt("clone3", split, "clone3", struct.pack("<8Q", new_user, 0, 0, 0, 17, 0, 0, 0), 64)
    tries.attempt("clone", split, "clone", new_user | 17, 0, 0, 0, 0)
    return tries.verdict()


@attack("A24", "Mounts, and another root", without=STOPPED)
def mounts(d: dict[str, Any]) -> Any:
    tries = Tries()
    os.makedirs("here", exist_ok=True)
    here, none = ctypes.c_char_p(b"here"), ctypes.c_char_p(b"none")
    tmpfs, slash, dot = ctypes.c_char_p(b"tmpfs"), ctypes.c_char_p(b"/"), ctypes.c_char_p(b".")

    def mount(source: Any, target: Any, kind: Any, flags: int) -> None:
        check(libc.mount(source, target, kind, ctypes.c_ulong(flags), None), "mount")

    def unless_allowed(*arguments: Any) -> None:
        """Fail on EINVAL: a caller with rights gets that error too, so the rights were there."""
        try:
            syscall(*arguments)
        except OSError as error:
            if error.errno not in (22, 16):
                raise

    tries.attempt("tmpfs", mount, none, here, tmpfs, 0)
    tries.attempt("bind", mount, slash, here, None, 0x1000)
    tries.attempt("remount", mount, none, slash, None, 0x1000 | 0x20)
    tries.attempt("proc", mount, none, here, ctypes.c_char_p(b"proc"), 0)
    tries.attempt("umount", lambda: check(libc.umount2(ctypes.c_char_p(b"/proc"), 2), "umount"))
    tries.attempt("pivot_root", unless_allowed, "pivot_root", dot, dot)
    tries.attempt("chroot", os.chroot, "here")
    tries.attempt("open_tree", syscall, "open_tree", -100, slash, 1)  # OPEN_TREE_CLONE
    tries.attempt("fsopen", syscall, "fsopen", tmpfs, 0)
    tries.attempt("mount_setattr", unless_allowed, "mount_setattr", -100, slash, 0, bytes(32), 32)
    return tries.verdict()


@attack("A25", "Parts of the kernel that have been broken before", without=SUCCEEDS)
def broken_before(d: dict[str, Any]) -> Any:
    tries = Tries()
    parameters = ctypes.create_string_buffer(256)
    tries.attempt("io_uring", syscall, "io_uring_setup", 4, parameters)
    array = struct.pack("<IIII", 2, 4, 8, 1) + bytes(112)  # BPF_MAP_TYPE_ARRAY, key, value, entries
    tries.attempt("bpf", syscall, "bpf", 0, array, 128)
    tries.attempt("keyctl", syscall, "keyctl", 0, -3, 1, 0, 0)  # the session's keyring, made if absent
    key = (ctypes.c_char_p(b"user"), ctypes.c_char_p(d["mark"].encode()), ctypes.c_char_p(b"x"))
    tries.attempt("add_key", syscall, "add_key", *key, 1, -1)  # kept by this thread only
    software = struct.pack("<IIQQ", 1, 128, 0, 0) + bytes(104)
    tries.attempt("perf", syscall, "perf_event_open", software, 0, -1, -1, 0)
    tries.attempt("userfaultfd", syscall, "userfaultfd", 1)  # UFFD_USER_MODE_ONLY: for everybody
    tries.attempt("fanotify", lambda: check(libc.fanotify_init(0x200, 0), "fanotify_init"))
    return tries.verdict()


@attack("A26", "Being root, or in root's group", without=STOPPED)
def become_root(d: dict[str, Any]) -> Any:
    tries = Tries()

    def setfsuid() -> None:
        libc.setfsuid(0)
        if libc.setfsuid(-1) != 0:
            raise PermissionError(1, "setfsuid")

    for name, action in {
        "setuid": lambda: os.setuid(0),
        "seteuid": lambda: os.seteuid(0),
        "setresuid": lambda: os.setresuid(0, 0, 0),
        "setreuid": lambda: os.setreuid(0, 0),
        "setgid": lambda: os.setgid(0),
        "setresgid": lambda: os.setresgid(0, 0, 0),
        "setgroups": lambda: os.setgroups([0]),
        "setfsuid": setfsuid,
    }.items():
        tries.attempt(name, action)

    if 0 in (os.getuid(), os.geteuid()):
        tries.through.append("it is root")
    return tries.verdict(ids=[os.getresuid(), os.getresgid(), os.getgroups()])


@attack("A26b", "Capabilities", without=STOPPED)
def capabilities(d: dict[str, Any]) -> Any:
    tries = Tries()
    header = struct.pack("<Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, itself
    held = ctypes.create_string_buffer(24)
    check(libc.capget(header, held), "capget")
    effective, permitted, inheritable, *_ = struct.unpack("<6I", held.raw)
    if effective or permitted or inheritable:
        tries.through.append(f"it holds {effective:x} {permitted:x} {inheritable:x}")
    everything = struct.pack("<6I", *[0xFFFFFFFF] * 3, *[0x1FF] * 3)
    tries.attempt("capset", lambda: check(libc.capset(header, everything), "capset"))
    tries.attempt("ambient", lambda: check(libc.prctl(47, 2, 21, 0, 0), "PR_CAP_AMBIENT"))  # CAP_SYS_ADMIN
    return tries.verdict()


@attack("A54", "Devices", without="which ones everybody may open differs between machines")
def devices(d: dict[str, Any]) -> Any:
    tries = Tries()
    for name in (
        "mem",
        "kmem",
        "port",
        "kmsg",
        "fuse",
        "net/tun",
        "sda",
        "vda",
        "nvme0n1",
        "loop0",
        "loop-control",
        "ptmx",
        "tty",
        "tty0",
        "console",
        "kvm",
        "vhost-net",
        "uinput",
        "rtc0",
        "dri/card0",
        "snapshot",
        "hwrng",
    ):
        opened = tries.attempt(name, os.open, f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK)
        if opened is not None:
            os.close(opened)
    return tries.verdict()


@attack("A54b", "Making a device of its own", without=STOPPED)
def own_device(d: dict[str, Any]) -> Any:
    import stat

    tries = Tries()
    for name, kind, number in (("mem", stat.S_IFCHR, (1, 1)), ("disk", stat.S_IFBLK, (8, 0))):
        tries.attempt(name, os.mknod, name, 0o600 | kind, os.makedev(*number))
    return tries.verdict()


@attack("A66", "Typing into the terminal of the worker", without="newer kernels have it turned off")
def typing(d: dict[str, Any]) -> Any:
    import fcntl

    tries = Tries()

    def type_into(fd: int) -> None:
        fcntl.ioctl(fd, 0x5412, b"x")  # TIOCSTI, asm-generic/ioctls.h

    for fd in range(4):
        tries.attempt(f"descriptor {fd}", type_into, fd)
    tries.attempt("/dev/tty", lambda: type_into(os.open("/dev/tty", os.O_RDWR)))
    tries.attempt("a terminal of its own", os.openpty)
    return tries.verdict()


@attack("A83", "Turning its own confinement off", without=SUCCEEDS)
def confinement_off(d: dict[str, Any]) -> Any:
    tries = Tries()
    no_new_privs, get_no_new_privs, set_seccomp, get_seccomp = 38, 39, 22, 21  # linux/prctl.h
    tries.attempt("no_new_privs", lambda: check(libc.prctl(no_new_privs, 0, 0, 0, 0), "prctl"))
    tries.attempt("seccomp by prctl", lambda: check(libc.prctl(set_seccomp, 0, 0, 0, 0), "prctl"))
    tries.attempt("seccomp", syscall, "seccomp", 2, 0, 0)
    tries.attempt(
        "there is no filter",
        lambda: check(libc.prctl(get_seccomp, 0, 0, 0, 0), "prctl"),
        proof=lambda mode: mode != 2,
    )
    tries.attempt(
        "new rights are possible",
        lambda: check(libc.prctl(get_no_new_privs, 0, 0, 0, 0), "prctl"),
        proof=lambda value: value != 1,
    )
    return tries.verdict()


@attack("A122", "Outliving the zygote, and letting others in", without=SUCCEEDS)
def outlive(d: dict[str, Any]) -> Any:
    tries = Tries()
    for name, option, value in (
        ("no signal when the parent dies", 1, 0),  # PR_SET_*, linux/prctl.h
        ("dumpable", 4, 1),
        ("keep capabilities", 8, 1),
        ("adopt orphans", 36, 1),
        ("traced by anybody", 0x59616D61, -1),
    ):
        tries.attempt(
            name,
            lambda option=option, value=value: check(
                libc.prctl(option, ctypes.c_long(value), 0, 0, 0), "prctl"
            ),
        )
    return tries.verdict()


@attack("A84", "A filter of its own that answers system calls itself", without=SUCCEEDS)
def own_filter(d: dict[str, Any]) -> Any:
    tries = Tries()
    allow = ctypes.create_string_buffer(struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000))  # BPF_RET, ALLOW
    program = struct.pack("<HxxxxxxQ", 1, ctypes.addressof(allow))
    libc.prctl(38, 1, 0, 0, 0)
    tries.attempt("with a listener", syscall, "seccomp", 1, 8, program)  # NEW_LISTENER
    return tries.verdict()


@attack("A108", "Administering the machine", without=STOPPED)
def administer(d: dict[str, Any]) -> Any:
    # Each with arguments without effect: only the rights are tested.
    tries = Tries()
    nowhere = ctypes.c_char_p(b"/nonexistent")

    def rights(*arguments: Any) -> None:
        try:
            syscall(*arguments)
        except OSError as error:
            if error.errno in (1, 13, 38):
                raise

    tries.attempt("reboot", rights, "reboot", 0, 0, 0, 0)  # wrong magic numbers
    tries.attempt("swapon", rights, "swapon", nowhere, 0)
    tries.attempt("delete_module", rights, "delete_module", nowhere, 0)
    tries.attempt("finit_module", rights, "finit_module", -1, nowhere, 0)
    tries.attempt("sethostname", socket.sethostname, socket.gethostname())
    if hasattr(libc, "iopl"):
        tries.attempt("iopl", lambda: check(libc.iopl(3), "iopl"))
    for path in (
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/proc/sys/fs/binfmt_misc/register",
    ):
        opened = tries.attempt(path, os.open, path, os.O_WRONLY)
        if opened is not None:
            os.close(opened)
    return tries.verdict()


@attack("A109", "Control groups", without="which of them a user may enter differs between machines")
def control_groups(d: dict[str, Any]) -> Any:
    tries = Tries()
    for path in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"):
        for name in ("cgroup.procs", "tasks", "release_agent", "cgroup.kill"):
            opened = tries.attempt(f"{path}/{name}", os.open, f"{path}/{name}", os.O_WRONLY)
            if opened is not None:
                os.close(opened)
        tries.attempt(f"make {path}", os.mkdir, f"{path}/{d['mark']}")
    return tries.verdict()


@attack("A110", "Files by their handles instead of their names", without=STOPPED)
def file_handles(d: dict[str, Any]) -> Any:
    tries = Tries()

    def open_by_handle() -> None:
        handle = ctypes.create_string_buffer(struct.pack("<Ii", 128, 0) + bytes(128))
        mount = ctypes.c_int()
        path = ctypes.c_char_p(d["secret"].encode())
        try:
            check(libc.name_to_handle_at(-100, path, handle, ctypes.byref(mount), 0), "name_to_handle_at")
        except OSError:
            # Handles can be guessed: inode 2 of generation 0 is the root of an ext4 file system.
            handle.raw = (struct.pack("<Iiii", 8, 1, 2, 0) + bytes(120)).ljust(137, b"\0")[: len(handle.raw)]
        root = os.open("/", os.O_RDONLY)
        check(libc.open_by_handle_at(root, handle, os.O_RDONLY), "open_by_handle_at")

    tries.attempt("handle", open_by_handle)
    return tries.verdict()
