"""The system calls that a zygote and its children may make: every known one, by name.

A call is allowed, refused, or allowed for some arguments. A call in no list is refused too; the tests demand
that some list names it, so a new number is a decision and not an accident. The reasons are given with the
lists. Two rules explain most of them: nothing reaches beyond the process and what it was given, and no memory
is held where no limit counts it.

Arguments are compared as the kernel reads them: of an ``int`` or a flag word the lower 32 bits only, since it
ignores the others. Memory behind a pointer cannot be compared, for another thread could change it after the
check; such calls are allowed or refused as a whole.
"""

from __future__ import annotations

import errno
from typing import Literal, NamedTuple

import msgspec


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The process that a filter is for. A child's is stacked on its zygote's: a call must pass both.

    ``import`` is for one thread of a zygote, the one that imports packages: it has the rights of a child that may
    start neither processes nor threads. It is stacked on the zygote's, and ends with its thread.
    """

    name: Literal["child", "zygote", "import"]
    subprocess: bool = False
    """May start processes and run programs (a zygote always forks, and never runs programs without this)."""
    signals: bool = True
    """Signals to other processes are allowed: only where a pid namespace or Landlock bounds which."""
    network: bool = False
    """Is handed connected TCP sockets: may set their usual options. It never makes one itself."""
    metadata: bool = True
    """May change rights, owners and times of files: not where it shares its user with the worker and sees its
    files, because Landlock does not restrict these."""
    reusable: bool = False
    """Runs many executions: none may lower the limits of those after it."""


class Test(NamedTuple):
    """An argument is one of ``values`` after ``mask``; compared in its lower 32 bits, or whole if ``wide``."""

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF
    wide: bool = False


Rule = tuple[tuple[Test, ...], ...]
"""Alternatives; the call is allowed if all tests of one of them hold."""

OWN_PID = 0x7FFFFFFF
"""Placeholder in a rule for the pid of the process itself; no pid is that large."""


def _names(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


ERRNO_OVERRIDES = {
    # The flags of clone3 are behind a pointer: without it the C library uses clone.
    "clone3": errno.ENOSYS,
    # A process is given sockets and makes none: a local one would reach services of the machine, and
    # siblings, which share the zygote's network namespace.
    "socket": errno.EAFNOSUPPORT,
    # Kernel memory that no limit counts. File copies (cp -p, shutil) continue without attributes.
    **dict.fromkeys(_names("setxattr lsetxattr fsetxattr setxattrat"), errno.EOPNOTSUPP),
    **dict.fromkeys(_names("removexattr lremovexattr fremovexattr removexattrat"), errno.EOPNOTSUPP),
}
"""Refused with the error of a kernel or file system that lacks them, since callers know a way around it."""

ALLOWED = _names(
    # Files, by name and by descriptor; what they may reach is the file system's and Landlock's part.
    "open openat openat2 creat close close_range read write pread64 pwrite64 readv writev preadv pwritev",
    "preadv2 pwritev2 lseek dup dup2 dup3 flock fsync fdatasync sync_file_range truncate ftruncate fallocate",
    "fadvise64 readahead sendfile copy_file_range stat fstat lstat newfstatat statx access faccessat",
    "faccessat2 readlink readlinkat getdents getdents64 getcwd chdir fchdir rename renameat renameat2 mkdir",
    "mkdirat rmdir link linkat unlink unlinkat symlink symlinkat umask statfs fstatfs getxattr lgetxattr fgetxattr",
    "listxattr llistxattr flistxattr getxattrat listxattrat",
    # Waiting, and descriptors that wait; their number is limited with the open files.
    "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2",
    "eventfd eventfd2 pipe pipe2 timerfd_create timerfd_settime timerfd_gettime signalfd signalfd4",
    # Sockets that were handed over, and pairs of them.
    "recvfrom recvmsg recvmmsg shutdown getsockname getpeername",
    # Memory, all counted by RLIMIT_AS or bounded by RLIMIT_MEMLOCK.
    "mmap munmap mprotect mremap brk madvise msync mincore mlock mlock2 munlock munlockall mseal",
    "map_shadow_stack membarrier",
    # Threads, locks, time, and the process's view of itself.
    "futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list set_tid_address rseq",
    "rseq_slice_yield arch_prctl exit exit_group wait4 waitid restart_syscall sched_yield nanosleep",
    "clock_nanosleep clock_gettime clock_getres gettimeofday time times pause alarm getitimer setitimer",
    "rt_sigaction rt_sigprocmask rt_sigpending rt_sigreturn rt_sigsuspend rt_sigtimedwait sigaltstack",
    "getpid getppid gettid getpgid getpgrp getsid getuid geteuid getgid getegid getgroups getresuid",
    "getresgid capget getrlimit getrusage getpriority ioprio_get sched_getaffinity sched_getparam",
    "sched_getscheduler sched_getattr sched_get_priority_max sched_get_priority_min sched_rr_get_interval",
    "getcpu getrandom uname sysinfo",
)

METADATA = _names(
    "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat",
)
"""Allowed to processes that may change metadata."""

REFUSED = _names(
    # Sockets that reach out or let in.
    "connect bind listen accept accept4",
    # Memory that RLIMIT_AS does not count, or that outlives the process.
    "memfd_create memfd_secret vmsplice splice tee shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl",
    "semget semop semctl semtimedop mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
    "inotify_init inotify_init1 inotify_add_watch inotify_rm_watch fanotify_init fanotify_mark mlockall",
    # Other processes: their memory, descriptors, scheduling.
    "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp",
    "get_robust_list move_pages migrate_pages sched_setparam sched_setscheduler sched_setattr ioprio_set",
    # Interfaces that escapes were made of and that functions do not need.
    "io_uring_setup io_uring_enter io_uring_register io_setup io_destroy io_submit io_cancel io_getevents",
    "io_pgetevents bpf perf_event_open userfaultfd add_key request_key keyctl modify_ldt",
    "remap_file_pages pkey_mprotect pkey_alloc pkey_free mbind set_mempolicy get_mempolicy",
    "set_mempolicy_home_node uretprobe uprobe cachestat lsm_get_self_attr lsm_set_self_attr lsm_list_modules",
    "file_getattr file_setattr",
    # Handles that open files past their paths, and the mount tree.
    "name_to_handle_at open_by_handle_at chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount",
    "fspick statmount listmount listns ustat",
    # The machine: clocks, modules, ports, accounting, swap, names; and flushing all users' files.
    "settimeofday clock_settime adjtimex clock_adjtime init_module finit_module delete_module create_module",
    "query_module get_kernel_syms kexec_load kexec_file_load reboot iopl ioperm acct swapon swapoff quotactl",
    "quotactl_fd syslog sethostname setdomainname vhangup sysfs _sysctl nfsservctl uselib lookup_dcookie",
    "sync syncfs",
    # Never built for these machines, or removed.
    "getpmsg putpmsg afs_syscall tuxcall security vserver epoll_ctl_old epoll_wait_old set_thread_area",
    "get_thread_area",
)

ZYGOTE = _names(
    # How a child is made, watched and ended, and how it gives up its rights.
    "mount umount2 mount_setattr pivot_root setuid setgid setreuid setregid setresuid setresgid setfsuid",
    "setfsgid setgroups capset landlock_create_ruleset landlock_add_rule landlock_restrict_self",
    "pidfd_open",
)
"""Allowed to a zygote, refused to a child."""

PROCESSES = _names("fork vfork setsid setpgid")
"""Allowed to processes that may start processes."""

PROGRAMS = _names(
    # timer_* are for coreutils' timeout.
    "execve execveat timer_create timer_settime timer_gettime timer_getoverrun timer_delete",
)
"""Allowed with the grant to run programs."""

SIGNALS = _names("kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo")
"""Allowed to processes that may signal others, else only with the process's own pid as their first argument.
"""

_CLONE_THREAD, _CLONE_PARENT = 0x10000, 0x8000  # linux/sched.h
_CLONE_NEWNS, _CLONE_NEWCGROUP, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
_CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET, _CLONE_NEWTIME = 0x10000000, 0x20000000, 0x40000000, 0x80
_NAMESPACES = (
    _CLONE_NEWNS
    | _CLONE_NEWCGROUP
    | _CLONE_NEWUTS
    | _CLONE_NEWIPC
    | _CLONE_NEWUSER
    | _CLONE_NEWPID
    | _CLONE_NEWNET
)
_OWN_NAMESPACES = _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWUSER | _CLONE_NEWPID

# Without F_SETOWN, F_SETSIG and F_SETLEASE, by which a descriptor's events signal or stop others, and
# F_SETPIPE_SZ: a pipe's buffer is memory that no limit of a process counts. asm-generic/fcntl.h, linux/fcntl.h
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 9, 36, 37, 38, 1030, 1032)
# TCGETS, TCGETS2, TIOCGWINSZ, TIOCGPGRP, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX: asm-generic/ioctls.h. Above
# all without TIOCSTI and TIOCLINUX, which type on a terminal.
_IOCTL = (0x5401, 0x802C542A, 0x5413, 0x540F, 0x541B, 0x5421, 0x5451, 0x5450)
# Reading what is set; and PR_SET_NAME, PR_SET_TIMERSLACK, PR_SET_NO_NEW_PRIVS, PR_SET_VMA. linux/prctl.h
_PRCTL = (15, 29, 38, 0x53564D41, 2, 3, 7, 16, 21, 23, 27, 30, 37, 39, 42, 51, 56, 66)
# PDEATHSIG, DUMPABLE, KEEPCAPS, SECCOMP, CAPBSET_DROP, SECUREBITS, CHILD_SUBREAPER, CAP_AMBIENT
_PRCTL_ZYGOTE = (1, 4, 8, 22, 24, 28, 36, 47)

_SOL_SOCKET, _IPPROTO_TCP = 1, 6
# SO_REUSEADDR, KEEPALIVE, LINGER, RCVTIMEO and SNDTIMEO, old and new: asm-generic/socket.h. Not SO_SNDBUF,
# SO_RCVBUF nor SO_RCVLOWAT: buffers of sockets are memory that no limit counts.
_SOCKET_OPTIONS = (2, 9, 13, 20, 21, 66, 67)
# TCP_NODELAY, KEEPIDLE, KEEPINTVL, KEEPCNT, INFO, QUICKACK, USER_TIMEOUT: linux/tcp.h. Not ULP nor ZEROCOPY.
_TCP_OPTIONS = (1, 4, 5, 6, 11, 12, 18)
# MSG_FASTOPEN connects; MSG_OOB on local sockets was the start of escapes (CVE-2025-38236). linux/socket.h
_NO_SEND = 0x20000000 | 0x1

_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE = 1, 1, 5, 0xF
_S_IFMT, _S_IFIFO = 0o170000, 0o010000
_PERSONALITY_QUERY = 0xFFFFFFFF
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC = 1, 1


def allowed(profile: Profile, *, knows_pid: bool) -> dict[str, Rule | None]:
    """Return the calls that ``profile`` allows: None where any arguments will do, else the rule that they
    must pass.

    ``knows_pid``: the program will have the process's own pid in the place of ``OWN_PID``.
    """
    zygote = profile.name == "zygote"
    names = ALLOWED | (ZYGOTE if zygote else frozenset())
    if profile.name != "import":
        if zygote or profile.subprocess:
            names |= PROCESSES
        if profile.subprocess:
            names |= PROGRAMS
    if profile.metadata:
        names |= METADATA
    found: dict[str, Rule | None] = dict.fromkeys(sorted(names))
    found |= _conditional(profile)
    if profile.signals:
        found |= dict.fromkeys(SIGNALS)
        if zygote:
            found["pidfd_send_signal"] = None
    elif knows_pid:
        found |= dict.fromkeys(SIGNALS, ((Test(0, (OWN_PID,)),),))
    return found


def _conditional(profile: Profile) -> dict[str, Rule | None]:
    zygote = profile.name == "zygote"
    itself = Test(0, (0,))
    # A new process that is its creator's sibling would belong to a parent that does not wait for it.
    anew = Test(0, (0,), _NAMESPACES | _CLONE_PARENT)
    thread = Test(0, (_CLONE_THREAD,), _NAMESPACES | _CLONE_PARENT | _CLONE_THREAD)
    tcp = profile.network
    # A local datagram socket, even one of a pair, can send to any address; streams and packets cannot.
    pair = (Test(0, (_AF_UNIX,)), Test(1, (_SOCK_STREAM, _SOCK_SEQPACKET), _SOCK_TYPE))
    rules: dict[str, Rule | None] = {
        "fcntl": ((Test(1, _FCNTL),),),
        "ioctl": ((Test(1, _IOCTL),),),
        "prctl": ((Test(0, _PRCTL + (_PRCTL_ZYGOTE if zygote else ())),),),
        "prlimit64": ((itself, Test(2, (0,), wide=True)),) if profile.reusable else ((itself,),),
        "personality": ((Test(0, (_PERSONALITY_QUERY,)),),),
        "setpriority": (
            (itself, Test(1, (0,))),
        ),  # PRIO_PROCESS; PRIO_USER would be all processes of the user
        "sched_setaffinity": ((itself,),),
        "mknod": ((Test(1, (_S_IFIFO,), _S_IFMT),),),
        "mknodat": ((Test(2, (_S_IFIFO,), _S_IFMT),),),
        "socketpair": (pair,),
        "setsockopt": ((Test(1, (_SOL_SOCKET,)), Test(2, _SOCKET_OPTIONS)),),
        "getsockopt": ((Test(1, (_SOL_SOCKET,)),),),
        "sendto": ((Test(3, (0,), _NO_SEND),),),
        "sendmsg": ((Test(2, (0,), _NO_SEND),),),
        "sendmmsg": ((Test(3, (0,), _NO_SEND),),),
    }
    if tcp:
        options = (Test(1, (_IPPROTO_TCP,)), Test(2, _TCP_OPTIONS))
        rules["setsockopt"] = (*(rules["setsockopt"] or ()), options)
        rules["getsockopt"] = (*(rules["getsockopt"] or ()), options)
    if profile.name != "import":
        rules["clone"] = ((anew if zygote or profile.subprocess else thread,),)
    if not profile.reusable:
        rules["setrlimit"] = None
    if zygote:
        rules["unshare"] = ((Test(0, (0,), 0xFFFFFFFF ^ _OWN_NAMESPACES),),)
        rules["setns"] = ((Test(1, (_CLONE_NEWPID,)),),)
        # No other flags: a listener would answer calls of processes that are not the zygote's.
        rules["seccomp"] = ((Test(0, (_SECCOMP_SET_MODE_FILTER,)), Test(1, (0, _SECCOMP_FILTER_FLAG_TSYNC))),)
    return rules
