"""The filter of system calls gives the right verdict for every number and kind of argument, on both machines.

The policy is stated a second time here, the other way round (what is refused, everything else that
libseccomp knows is allowed), given to libseccomp, and both programs are run by an interpreter of BPF.
"""

import errno
import itertools
import os
import platform
from pathlib import Path

import pytest

from functory.workers.sandbox.confinement.seccomp import policy
from functory.workers.sandbox.confinement.seccomp.bpf import (
    AT_LEAST,
    EQUAL,
    NUMBER,
    Builder,
    Return,
    low_word,
)
from functory.workers.sandbox.confinement.seccomp.filter import Profile, architecture, program
from functory.workers.sandbox.confinement.seccomp.syscall_numbers import NUMBERS
from tests.services.missing_servers import strict
from tests.support.bpf_interpreter import Machine
from tests.support.libseccomp import ALLOW, KILL_PROCESS, TOKENS, Argument, Filter, Library, errno_verdict

EPERM, ENOSYS = errno_verdict(errno.EPERM), errno_verdict(errno.ENOSYS)
EAFNOSUPPORT, EOPNOTSUPP = errno_verdict(errno.EAFNOSUPPORT), errno_verdict(errno.EOPNOTSUPP)
PID = 4711
HIGH = 1 << 32

PROFILES = [
    Profile(name="child"),
    Profile(name="child", signals=False),
    Profile(name="child", subprocess=True),
    Profile(name="child", network=True),
    Profile(name="child", reusable=True),
    Profile(name="child", subprocess=True, signals=False, network=True, reusable=True),
    Profile(name="child", signals=False, metadata=False),
    Profile(name="zygote"),
    Profile(name="zygote", metadata=False),
    Profile(name="zygote", signals=False),
    Profile(name="zygote", subprocess=True, network=True),
    Profile(name="import", signals=False, reusable=True),
    Profile(name="import", signals=False, reusable=True, subprocess=True, metadata=False),
]
PROGRAMS = [
    (arch, profile, pid)
    for arch in NUMBERS
    for profile in PROFILES
    for pid in ([None] if profile.signals else [None, PID])
]


def title(value: object) -> str | None:
    if isinstance(value, Profile):
        on = [f for f in ("subprocess", "signals", "network", "reusable", "metadata") if getattr(value, f)]
        return "-".join((value.name, *on))
    return None


def words(text: str) -> list[str]:
    return text.split()


# The policy again.

REFUSED_TO_ALL = words("""
socket connect bind listen accept accept4
memfd_create memfd_secret splice tee vmsplice
shmat shmctl shmdt shmget semctl semget semop semtimedop msgctl msgget msgrcv msgsnd
mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink
ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd get_robust_list
io_uring_setup io_uring_enter io_uring_register io_setup io_submit io_getevents io_pgetevents io_cancel io_destroy
bpf perf_event_open userfaultfd add_key request_key keyctl
name_to_handle_at open_by_handle_at
open_tree move_mount fsopen fsconfig fsmount fspick chroot
inotify_init inotify_init1 inotify_add_watch inotify_rm_watch fanotify_init fanotify_mark
init_module finit_module delete_module create_module query_module get_kernel_syms kexec_load kexec_file_load
clock_settime clock_adjtime adjtimex settimeofday sethostname setdomainname
iopl ioperm modify_ldt set_thread_area get_thread_area
swapon swapoff quotactl quotactl_fd acct reboot syslog vhangup sync syncfs
sched_setattr sched_setparam sched_setscheduler ioprio_set
mbind set_mempolicy get_mempolicy set_mempolicy_home_node move_pages migrate_pages remap_file_pages mlockall
pkey_alloc pkey_free pkey_mprotect cachestat
_sysctl sysfs uselib ustat nfsservctl lookup_dcookie
afs_syscall tuxcall security vserver getpmsg putpmsg epoll_ctl_old epoll_wait_old
""")

ATTRIBUTES = words("setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr")

REFUSED_TO_CHILDREN = words("""
mount umount2 mount_setattr pivot_root unshare setns
setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset
landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp pidfd_open
""")

STARTS_PROCESSES = words("fork vfork setsid setpgid")
RUNS_PROGRAMS = words(
    "execve execveat timer_create timer_settime timer_gettime timer_getoverrun timer_delete"
)
METADATA = words("chmod fchmod fchmodat chown fchown lchown fchownat utime utimes futimesat utimensat")
SIGNALS = words("kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo")

# Newer than some libseccomp, or not in its tables; from 424 on the same number everywhere.
NEWER = {
    "set_mempolicy_home_node": (450, EPERM),
    "cachestat": (451, EPERM),
    "fchmodat2": (452, ALLOW),
    "map_shadow_stack": (453, ALLOW),
    "futex_wake": (454, ALLOW),
    "futex_wait": (455, ALLOW),
    "futex_requeue": (456, ALLOW),
    "statmount": (457, EPERM),
    "listmount": (458, EPERM),
    "lsm_get_self_attr": (459, EPERM),
    "lsm_set_self_attr": (460, EPERM),
    "lsm_list_modules": (461, EPERM),
    "mseal": (462, ALLOW),
    "setxattrat": (463, EOPNOTSUPP),
    "getxattrat": (464, ALLOW),
    "listxattrat": (465, ALLOW),
    "removexattrat": (466, EOPNOTSUPP),
    "open_tree_attr": (467, EPERM),
    "file_getattr": (468, EPERM),
    "file_setattr": (469, EPERM),
    "listns": (470, EPERM),
    "rseq_slice_yield": (471, ALLOW),
}
ONLY_X86 = {"uretprobe": (335, EPERM), "uprobe": (336, EPERM)}

READS_PRCTL = (2, 3, 7, 16, 21, 23, 27, 30, 37, 39, 42, 51, 56, 66)
CHILD_PRCTL = (*READS_PRCTL, 15, 29, 38, 0x53564D41)
ZYGOTE_PRCTL = (*CHILD_PRCTL, 1, 4, 8, 22, 24, 28, 36, 47)


def conditions(profile: Profile, pid: int | None) -> dict[str, list[list[Argument]]]:
    """Calls that are allowed for some arguments: alternatives of arguments that must all fit."""
    zygote = profile.name == "zygote"
    new_namespace = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
    parent, thread = 0x8000, 0x10000
    found = {
        "clone": [[Argument(0, 0, new_namespace | parent)]],
        "fcntl": [[Argument(1, c)] for c in (0, 1, 2, 3, 4, 5, 6, 7, 9, 36, 37, 38, 1030, 1032)],
        "ioctl": [
            [Argument(1, c)] for c in (0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A)
        ],
        "prctl": [[Argument(0, option)] for option in (ZYGOTE_PRCTL if zygote else CHILD_PRCTL)],
        "personality": [[Argument(0, 0xFFFFFFFF)]],
        "prlimit64": [[Argument(0, 0)]],
        "setrlimit": [[]],
        "setpriority": [[Argument(0, 0), Argument(1, 0)]],
        "sched_setaffinity": [[Argument(0, 0)]],
        "mknod": [[Argument(1, 0o010000, 0o170000)]],
        "mknodat": [[Argument(2, 0o010000, 0o170000)]],
        "socketpair": [[Argument(0, 1), Argument(1, kind, 15)] for kind in (1, 5)],
        "getsockopt": [[Argument(1, 1)]],
        "setsockopt": [[Argument(1, 1), Argument(2, option)] for option in (2, 9, 13, 20, 21, 66, 67)],
        "sendto": [[Argument(3, 0, 0x20000001)]],
        "sendmsg": [[Argument(2, 0, 0x20000001)]],
        "sendmmsg": [[Argument(3, 0, 0x20000001)]],
        "pidfd_send_signal": [],
    }
    if profile.name == "import":
        found["clone"] = []
    elif not zygote and not profile.subprocess:
        found["clone"] = [[Argument(0, thread, new_namespace | parent | thread)]]
    if profile.reusable:
        found["prlimit64"] = [[Argument(0, 0), Argument(2, 0, 0xFFFFFFFFFFFFFFFF)]]
        found["setrlimit"] = []
    if profile.network:
        tcp = [[Argument(1, 6), Argument(2, option)] for option in (1, 4, 5, 6, 11, 12, 18)]
        found["getsockopt"] += tcp
        found["setsockopt"] += tcp
    if not profile.signals:
        found |= {name: [[Argument(0, pid)]] if pid else [] for name in SIGNALS}
    if zygote:
        found["unshare"] = [[Argument(0, 0, 0xFFFFFFFF & ~(0x10000000 | 0x20000 | 0x20000000 | 0xC000000))]]
        found["setns"] = [[Argument(1, 0x20000000)]]
        found["seccomp"] = [[Argument(0, 1), Argument(1, flags)] for flags in (0, 1)]
        found["pidfd_send_signal"] = [[]] if profile.signals else []
    return found


def refused(profile: Profile) -> set[str]:
    names = {*REFUSED_TO_ALL}
    names |= set() if profile.metadata else {*METADATA}
    importing = profile.name == "import"
    if profile.name != "zygote":
        names |= {*REFUSED_TO_CHILDREN}
        names |= {*STARTS_PROCESSES} if importing or not profile.subprocess else set()
    return names | {*RUNS_PROGRAMS} if importing or not profile.subprocess else names


@pytest.fixture(scope="module")
def library() -> Library:
    try:
        return Library()
    except OSError as missing:
        if strict():
            pytest.fail(
                f"{missing}: STRICT=1 forbids to skip; it is the Debian package libseccomp2", pytrace=False
            )
        pytest.skip(f"{missing}: the Debian package libseccomp2 has it")


def known(library: Library, arch: str) -> dict[str, int]:
    """Return name to number, without this project's tables."""
    newer = NEWER | (ONLY_X86 if arch == "x86_64" else {})
    return library.names(arch, range(450)) | {name: number for name, (number, _) in newer.items()}


def second_opinion(library: Library, arch: str, profile: Profile, pid: int | None) -> Machine:
    made = Filter(library, arch, default=EPERM)
    rules = conditions(profile, pid)
    no = refused(profile)
    made.rule(EAFNOSUPPORT, "socket")
    made.rule(ENOSYS, "clone3")
    for name in ATTRIBUTES:
        made.rule(EOPNOTSUPP, name)
    for name in library.names(arch, range(450)):
        if name in ("socket", "clone3", *ATTRIBUTES) or (name in no and name not in rules):
            continue
        for alternative in rules.get(name, [[]]):
            made.rule(ALLOW, name, alternative)
    code = Machine(made.program())
    made.close()
    return code


def arguments_around(rule: list[list[Argument]]) -> list[list[int]]:
    """Return for each argument the values that a wrong comparison confuses."""
    values: list[set[int]] = [set() for _ in range(4)]
    for argument in itertools.chain.from_iterable(rule):
        low = argument.mask & 0xFFFFFFFF
        bits = {1 << bit for bit in range(32) if low >> bit & 1} if low != 0xFFFFFFFF else set()
        near = {
            argument.value,
            argument.value ^ 1,
            argument.value + 1,
            argument.value - 1,
            argument.value << 8,
        }
        near |= {argument.value | bit for bit in bits} | {argument.value & ~bit for bit in bits}
        near |= {low, 0xFFFFFFFF & ~low, argument.value | (0xFFFFFFFF & ~low)}
        near |= {value + HIGH for value in near} | {argument.value | 0xFFFFFFFF << 32, 2**64 - 1}
        values[argument.number] |= {value & (2**64 - 1) for value in near}
    return [sorted(each) or [1] for each in values]


@pytest.mark.parametrize(("arch", "profile", "pid"), PROGRAMS, ids=title)
def test_every_number_gets_the_verdict_that_libseccomp_gives(library, arch, profile, pid):
    ours, theirs = Machine(program(arch, profile, pid)), second_opinion(library, arch, profile, pid)
    numbers = known(library, arch)
    by_number = {number: name for name, number in numbers.items()}
    newer = dict((NEWER | ONLY_X86).values())
    if not profile.metadata:
        newer[NEWER["fchmodat2"][0]] = EPERM
    for number in range(601):
        for arguments in ((), (2**64 - 1,) * 6, (PID, PID)):
            got, _ = ours.verdict(number, TOKENS[arch], arguments)
            if number not in by_number:
                assert got == ENOSYS, number
            elif number >= 450 or by_number[number] in ONLY_X86:
                assert got == newer[number], by_number[number]
            else:
                want, _ = theirs.verdict(number, TOKENS[arch], arguments)
                assert (got, by_number[number]) == (want, by_number[number])


@pytest.mark.parametrize(("arch", "profile", "pid"), PROGRAMS, ids=title)
def test_arguments_get_the_verdict_that_libseccomp_gives(library, arch, profile, pid):
    ours, theirs = Machine(program(arch, profile, pid)), second_opinion(library, arch, profile, pid)
    numbers = known(library, arch)
    verdicts = set()
    for name, rule in conditions(profile, pid).items():
        for arguments in itertools.product(*arguments_around(rule)) if name in numbers else ():
            got, _ = ours.verdict(numbers[name], TOKENS[arch], arguments)
            want, _ = theirs.verdict(numbers[name], TOKENS[arch], arguments)
            assert got == want, f"{name}{tuple(map(hex, arguments))}"
            verdicts.add((name, got))
    split = {name for name, _ in verdicts if {(name, ALLOW), (name, EPERM)} <= verdicts}
    assert len(split) >= 14, "the arguments tried show both verdicts of nearly every rule"


@pytest.mark.parametrize(("arch", "profile", "pid"), PROGRAMS, ids=title)
def test_numbers_above_all_known_do_not_exist_and_foreign_ones_kill(arch, profile, pid):
    ours = Machine(program(arch, profile, pid))
    for number in (601, 1000, 4096, 2**16, 2**29, 2**30 - 1):
        assert ours.verdict(number, TOKENS[arch])[0] == ENOSYS
    x32 = [0x40000000 + n for n in (0, 1, 59, 335, 512, 520, 547, 600)] + [2**31, 2**32 - 1]
    for number in x32:
        assert ours.verdict(number, TOKENS[arch])[0] == (KILL_PROCESS if arch == "x86_64" else ENOSYS)
    i386, arm, riscv = 0x40000003, 0x40000028, 0xC00000F3
    big_endian = TOKENS[arch] & ~0x40000000
    others = {i386, arm, riscv, big_endian, 0, 2**32 - 1, *TOKENS.values()} - {TOKENS[arch]}
    for foreign, number in itertools.product(others, (0, 1, 3, 11, 41, 59, 101, 221, 435, 471, 600)):
        assert ours.verdict(number, foreign)[0] == KILL_PROCESS


def test_numbers_are_those_of_libseccomp(library):
    for arch, table in NUMBERS.items():
        assert table == known(library, arch)
        assert len(set(table.values())) == len(table)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the header of x86_64")
def test_numbers_are_those_of_the_kernel_s_header():
    header = next(Path("/usr/include").glob("**/asm/unistd_64.h"), None)
    if header is None:
        pytest.skip("no kernel headers here (linux-libc-dev)")
    lines = (line.split() for line in header.read_text().splitlines() if line.startswith("#define __NR_"))
    named = {name.removeprefix("__NR_"): int(number) for _, name, number in lines}
    assert named.items() <= NUMBERS["x86_64"].items()


# Decided by arguments, or by more of the profile than one field.
CONDITIONAL = policy._names(
    "clone fcntl ioctl prctl prlimit64 setrlimit personality setpriority sched_setaffinity mknod mknodat socketpair"
    " setsockopt getsockopt sendto sendmsg sendmmsg unshare setns seccomp pidfd_send_signal"
)


def test_every_known_call_is_decided_once_and_by_name():
    lists = [
        policy.ALLOWED,
        policy.REFUSED,
        policy.ZYGOTE,
        policy.METADATA,
        policy.PROCESSES,
        policy.PROGRAMS,
        policy.SIGNALS,
        CONDITIONAL,
        frozenset(policy.ERRNO_OVERRIDES),
    ]
    for one, other in itertools.combinations(lists, 2):
        assert not one & other
    assert frozenset().union(*lists) == NUMBERS["x86_64"].keys() | NUMBERS["aarch64"].keys()


@pytest.mark.parametrize("arch", NUMBERS)
def test_a_zygote_may_do_all_that_its_children_may(arch):
    """Filters stack: what the zygote's refuses, its children's cannot allow."""
    for subprocess, signals, network in itertools.product((False, True), repeat=3):
        options = {"subprocess": subprocess, "signals": signals, "network": network}
        child = Machine(program(arch, Profile(name="child", **options)))
        zygote = Machine(program(arch, Profile(name="zygote", **options)))
        rules = conditions(Profile(name="child", **options), None)
        for name, number in NUMBERS[arch].items():
            for arguments in itertools.product(*arguments_around(rules.get(name, []))):
                if child.verdict(number, TOKENS[arch], arguments)[0] == ALLOW:
                    assert zygote.verdict(number, TOKENS[arch], arguments)[0] == ALLOW, name


@pytest.mark.parametrize("arch", NUMBERS)
def test_a_program_is_always_the_same_and_stays_small(arch):
    for profile in PROFILES:
        code = program(arch, profile, PID)
        assert code == program(arch, profile, PID)
        assert len(code) // 8 < 300
        machine = Machine(code)
        longest = max(machine.verdict(number, TOKENS[arch])[1] for number in range(500))
        assert longest < 50, "no call pays for a walk through all of the list"


def test_the_pid_changes_nothing_but_the_pid():
    assert program("x86_64", Profile(name="child"), PID) == program("x86_64", Profile(name="child"))
    profile = Profile(name="child", signals=False)
    one, other = (Machine(program("x86_64", profile, pid)).code for pid in (1111, 2222))
    assert {(a.operand, b.operand) for a, b in zip(one, other, strict=True) if a != b} == {(1111, 2222)}
    for no_pid in (0, -1, 2**31 - 1, 2**32):
        with pytest.raises(ValueError, match="no pid"):
            program("x86_64", profile, no_pid)


@pytest.mark.parametrize("between", [0, 1, 2, *range(245, 265), *range(500, 520), 1000])
def test_jumps_arrive_however_far_they_go(between):
    """Two places and a verdict at the end, ``between`` jumps to them in turn, then one with two far targets."""
    code = Builder()
    same = code.jump(EQUAL, 77_777, Return(7), Return(8))
    loads = code.load(low_word(0))
    targets, wanted = (same, loads, Return(9)), (8, 7, 9)  # for arguments that begin with 77,777
    place = code.jump(EQUAL, 5000, Return(5), same)
    for number in range(between):
        place = code.jump(EQUAL, 2000 + number, targets[number % 3], place)
    for number in range(between):  # now with the other branch; below 1, below 2, …
        place = code.jump(AT_LEAST, between - number, place, targets[number % 3])
    place = code.jump(EQUAL, 8000, loads, place)
    place = code.jump(EQUAL, 8001, same, place)
    place = code.jump(EQUAL, 8002, Return(9), place)
    code.jump(EQUAL, 8003, Return(3), place)
    code.load(NUMBER)
    machine = Machine(code.program())
    calls = {2000 + number: wanted[number % 3] for number in range(between)}
    calls |= {between - number - 1: wanted[number % 3] for number in range(between)}
    calls |= {8000: 7, 8001: 8, 8002: 9, 8003: 3, 5000: 5, 5001: 8}
    assert {number: machine.verdict(number, 0, [77_777])[0] for number in calls} == calls

    both = Builder()
    same = both.jump(EQUAL, 77_777, Return(7), Return(8))
    loads = both.load(low_word(0))
    for number in range(between):
        both.jump(EQUAL, number, same, same)
    both.jump(EQUAL, 1, same, loads)
    both.load(NUMBER)
    assert [Machine(both.program()).verdict(number, 0, [77_777])[0] for number in (1, 2)] == [8, 7]


def test_unknown_machines_are_refused(monkeypatch):
    for machine in ("riscv64", "i686", "aarch64_be", "armv7l", ""):
        with pytest.raises(OSError, match="no filter of system calls") as refusal:
            program(machine, Profile(name="child"))
        assert refusal.value.errno == errno.ENOSYS
    uname = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*uname[:4], "riscv64")))
    with pytest.raises(OSError, match="riscv64"):
        architecture()


def stacked(below: Machine, above: Machine, number: int, token: int, arguments: tuple[int, ...]) -> int:
    """Return the kernel's verdict on a call of a process under ``above``, and since later under ``below``.

    seccomp(2): the strictest action counts, and of two equal ones the data of the filter that was loaded last.
    """
    later, earlier = (machine.verdict(number, token, arguments)[0] for machine in (below, above))

    def strictness(verdict: int) -> int:
        action = verdict & 0xFFFF0000
        return action - (1 << 32) if action & 0x80000000 else action

    return earlier if strictness(earlier) < strictness(later) else later


def children_of_tiers() -> list[tuple[Profile, Profile]]:
    """Return the pairs of a zygote's profile and a child's that the tiers make."""
    pairs = []
    for subprocess, network, reusable in itertools.product((False, True), repeat=3):
        # Tiers A and B; then C: as root with a user for itself or without, each on old and new kernels.
        tiers = [(True, True, True)]
        if not subprocess:
            tiers += [(True, True, False), (True, False, True), (False, False, False)]
        for may_signal, contained, metadata in tiers:
            shared = {"subprocess": subprocess, "network": network, "metadata": metadata}
            zygote = Profile(name="zygote", signals=may_signal, **shared)
            pairs.append((zygote, Profile(name="child", signals=contained, reusable=reusable, **shared)))
    return pairs


@pytest.mark.parametrize("arch", NUMBERS)
@pytest.mark.parametrize(("zygote", "child"), children_of_tiers(), ids=title)
def test_what_a_child_s_filter_adds_gives_the_verdicts_of_the_whole_one(arch, zygote, child):
    """All system calls, with all arguments that a rule of either filter looks at, in each tier."""
    zygote_pid, child_pid = 4001, PID
    above = Machine(program(arch, zygote, zygote_pid))
    whole = Machine(program(arch, child, child_pid))
    added = Machine(program(arch, child, child_pid, zygote))
    assert len(added.code) < len(whole.code) / 2, "it is only a difference"
    rules = [conditions(child, child_pid), conditions(zygote, zygote_pid)]
    names = {number: name for name, number in NUMBERS[arch].items()}
    tried = 0
    for number in [*range(601), 1000, 2**16, 2**30, 2**30 + 59, 2**31, 2**32 - 1]:
        several: set[tuple[int, ...]] = {(), (2**64 - 1,) * 6, (child_pid,) * 2, (zygote_pid,) * 2}
        for rule in rules:
            several |= {*itertools.product(*arguments_around(rule.get(names.get(number, ""), [])))}
        for arguments in several:
            for token in (TOKENS[arch], 0x40000003) if len(several) < 99 else (TOKENS[arch],):
                want = stacked(whole, above, number, token, arguments)
                got = stacked(added, above, number, token, arguments)
                assert got == want, f"{names.get(number, number)}{tuple(map(hex, arguments))}"
                tried += 1
    assert tried > 5000


def test_a_filter_under_another_one_keeps_its_own_pid():
    """The rule about a process's own pid is written alike in both, and means another process in each."""
    zygote = Profile(name="zygote", signals=False)
    child = Profile(name="child", signals=False)
    added = Machine(program("x86_64", child, PID, zygote))
    kill = NUMBERS["x86_64"]["kill"]
    assert added.verdict(kill, TOKENS["x86_64"], (PID, 9))[0] == ALLOW
    assert added.verdict(kill, TOKENS["x86_64"], (4001, 9))[0] == EPERM
