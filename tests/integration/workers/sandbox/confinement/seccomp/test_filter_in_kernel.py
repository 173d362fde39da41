"""The filter in the kernel: forked processes load it and try what functions do, and what they must not."""

import asyncio
import concurrent.futures
import contextlib
import ctypes
import fcntl
import mmap
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from functory.workers.sandbox.confinement.seccomp.filter import Profile, architecture, load, program
from tests.support.seccomp_process import Ended, call, error_of, forked, libc, raw, under

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")

CHILD, ZYGOTE = Profile(name="child"), Profile(name="zygote")
GRANTED = Profile(name="child", subprocess=True)


REFUSED = {
    "connect": (),
    "bind": (),
    "listen": (),
    "accept4": (),
    "execve": (),
    "execveat": (),
    "memfd_create": (),
    "splice": (),
    "vmsplice": (),
    "ptrace": (0, 0),
    "process_vm_readv": (),
    "pidfd_open": (1,),
    "pidfd_getfd": (),
    "pidfd_send_signal": (),
    "kcmp": (),
    "unshare": (0x10000000,),
    "setns": (),
    "mount": (),
    "umount2": (),
    "pivot_root": (),
    "chroot": (),
    "open_tree": (),
    "fsopen": (),
    "mount_setattr": (),
    "io_uring_setup": (),
    "io_setup": (),
    "bpf": (),
    "keyctl": (0, -3, 0),
    "add_key": (),
    "perf_event_open": (),
    "userfaultfd": (),
    "shmget": (0, 4096, 0o1600),
    "msgget": (0, 0o1600),
    "semget": (0, 1, 0o1600),
    "mq_open": (),
    "setresuid": (0, 0, 0),
    "setgroups": (),
    "capset": (),
    "sethostname": (),
    "personality": (0x0040000,),
    "seccomp": (1, 8, 0),
    "landlock_create_ruleset": (0, 0, 1),
    "open_by_handle_at": (),
    "name_to_handle_at": (),
    "init_module": (),
    "kexec_load": (),
    "reboot": (),
    "settimeofday": (),
    "sched_setscheduler": (0, 1, 0),
    "ioprio_set": (1, 0, 0),
    "sync": (),
    "mlockall": (1,),
    "inotify_init1": (),
    "clone": (0x10000000 | 17,),
}


def test_what_no_function_needs_is_refused():
    found = under(CHILD, lambda: {name: call(name, *arguments) for name, arguments in REFUSED.items()})
    assert found == dict.fromkeys(REFUSED, "EPERM")


def test_processes_are_refused_without_the_grant():
    assert under(CHILD, lambda: error_of(os.fork)) == "EPERM"
    assert under(CHILD, lambda: error_of(lambda: os.execv("/bin/true", ["true"]))) == "EPERM"
    assert under(CHILD, lambda: error_of(lambda: subprocess.run(["/bin/true"]))) == "EPERM"
    assert under(CHILD, lambda: call("clone", signal.SIGCHLD)) == "EPERM"


@pytest.mark.parametrize("profile", [CHILD, GRANTED, ZYGOTE], ids=lambda profile: profile.name)
def test_no_process_makes_a_socket(profile):
    families = range(46)
    answers = under(profile, lambda: {call("socket", family, socket.SOCK_STREAM) for family in families})
    assert answers == {"EAFNOSUPPORT"}


def test_calls_that_are_not_known_do_not_exist():
    assert under(CHILD, lambda: [raw(n) for n in (600, 472, 400, 2**20)]) == ["ENOSYS"] * 4
    assert under(CHILD, lambda: call("clone3", 0, 0)) == "ENOSYS"


def test_calls_of_another_abi_kill():
    if architecture() != "x86_64":
        pytest.skip("aarch64 has no second ABI that its own programs can call")
    with pytest.raises(Ended) as x32:
        under(CHILD, lambda: raw(0x40000000 + 39))
    assert os.WTERMSIG(x32.value.args[0]) == signal.SIGSYS

    def i386() -> int:
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid of i386); int 0x80; ret
        return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()

    with pytest.raises(Ended) as ended:
        under(CHILD, i386)
    assert os.WTERMSIG(ended.value.args[0]) == signal.SIGSYS


def test_threads_and_asyncio_work():
    async def many() -> list[int]:
        return await asyncio.gather(*(asyncio.to_thread(os.getpid) for _ in range(4)))

    def action() -> bool:
        heard: list[int] = []
        thread = threading.Thread(target=lambda: heard.append(threading.get_native_id()))
        thread.start()
        thread.join()
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            assert list(pool.map(abs, [-1, -2, -3])) == [1, 2, 3]
        return asyncio.run(many()) == [os.getpid()] * 4 and len(heard) == 1

    assert under(CHILD, action)


def test_files_databases_and_memory_work(tmp_path):
    def action() -> str:
        with tempfile.NamedTemporaryFile(dir=tmp_path) as file:
            file.write(b"x" * 8192)
            file.flush()
            with mmap.mmap(file.fileno(), 0) as mapped:
                mapped[0:1] = b"y"
                mapped.flush()
        with contextlib.closing(sqlite3.connect(tmp_path / "some.db")) as database:
            database.execute("pragma journal_mode=wal")
            database.execute("create table t (a)")
            database.execute("insert into t values (1)")
            database.commit()
        one, other = tmp_path / "one", tmp_path / "other"
        one.write_text("text")
        one.chmod(0o600)
        one.rename(other)
        os.mkfifo(tmp_path / "fifo")
        shutil.copy2(other, tmp_path / "copied")
        assert error_of(lambda: os.setxattr(other, "user.a", b"1")) == "ENOTSUP"
        sys.stdout.isatty()
        os.sched_setaffinity(0, os.sched_getaffinity(0))
        os.nice(1)
        return other.read_text()

    assert under(CHILD, action) == "text"


def test_programs_and_processes_work_with_the_grant(tmp_path):
    def action() -> list[Any]:
        os.chdir(tmp_path)
        echoed = subprocess.run(
            ["/bin/sh", "-c", "echo a | cat; touch b; cp -a b c && exit 3"],
            stdout=subprocess.PIPE,
            check=False,
        )
        context = multiprocessing.get_context("fork")
        with context.Pool(2) as pool:
            doubled = pool.map(abs, [-1, -2])
        killed = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
        killed.kill()
        return [echoed.stdout, echoed.returncode, doubled, killed.wait()]

    assert under(GRANTED, action) == [b"a\n", 3, [1, 2], -signal.SIGKILL]
    assert under(GRANTED, lambda: call("clone", 0x10000000 | signal.SIGCHLD)) == "EPERM", "no namespaces"
    assert under(GRANTED, lambda: call("clone", 0x8000 | signal.SIGCHLD)) == "EPERM", (
        "no process for its parent"
    )


def test_memory_that_no_limit_counts_is_refused():
    def action() -> list[str]:
        reader, _ = os.pipe()
        one, _ = socket.socketpair()
        sizes = (socket.SO_SNDBUF, socket.SO_RCVBUF, 32, 33)  # …FORCE
        return [error_of(lambda: fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 2**20))] + [
            error_of(lambda option=option: one.setsockopt(socket.SOL_SOCKET, option, 2**20))
            for option in sizes
        ]

    assert under(CHILD, action) == ["EPERM"] * 5


def test_pairs_of_sockets_only_speak_with_each_other():
    def action() -> list[Any]:
        one, other = socket.socketpair()
        one.sendall(b"heard")
        return [
            other.recv(5),
            error_of(lambda: one.send(b"x", socket.MSG_OOB)),
            error_of(lambda: one.sendmsg([b"x"], [], 0x20000000)),
            error_of(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)),
            error_of(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)),
            error_of(lambda: one.bind("/tmp/nowhere")),
            error_of(lambda: one.connect("/tmp/nowhere")),
            error_of(lambda: one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)),
        ]

    assert under(CHILD, action) == [b"heard", *["EPERM"] * 7]


def test_tcp_sockets_that_were_handed_over_can_be_used():
    def action(connected: socket.socket) -> bytes:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        assert error_of(lambda: connected.setsockopt(socket.IPPROTO_TCP, 31, b"tls")) == "EPERM", "TCP_ULP"
        assert error_of(lambda: connected.connect(("127.0.0.1", 1))) == "EPERM"
        connected.sendall(b"ask")
        return connected.recv(10)

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as ours,
    ):
        theirs, _ = server.accept()
        with theirs:
            theirs.sendall(b"answer")
            assert under(Profile(name="child", network=True), lambda: action(ours)) == b"answer"
            assert theirs.recv(10) == b"ask"


def test_others_keep_their_limits_priorities_and_terminals():
    other = os.getpid()

    def action() -> list[Any]:
        low = (3, 3)
        return [
            error_of(lambda: resource.prlimit(other, resource.RLIMIT_NOFILE, low)),
            error_of(lambda: os.setpriority(os.PRIO_PROCESS, other, 5)),
            error_of(lambda: os.setpriority(os.PRIO_USER, 0, 5)),
            error_of(lambda: os.sched_setaffinity(other, {0})),
            error_of(lambda: fcntl.fcntl(0, 8, other)),  # F_SETOWN
            error_of(lambda: fcntl.ioctl(0, 0x5412, b"x")),  # TIOCSTI
            error_of(lambda: fcntl.ioctl(0, 0x541C, b"\x03")),  # TIOCLINUX
            resource.getrlimit(resource.RLIMIT_NOFILE) != low,
        ]

    assert under(CHILD, action) == [*["EPERM"] * 7, True]


def test_a_process_lowers_its_own_limits_unless_others_follow_it():
    def lower() -> tuple[int, int]:
        with contextlib.suppress(ValueError):  # what the module makes of EPERM
            resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
        return resource.getrlimit(resource.RLIMIT_NOFILE)

    assert under(CHILD, lower) == (20, 20)
    assert under(Profile(name="child", reusable=True), lower) == resource.getrlimit(resource.RLIMIT_NOFILE)


def test_where_nothing_bounds_signals_a_process_signals_itself_only():
    alone, parent = Profile(name="child", signals=False), os.getpid()

    def action() -> list[Any]:
        heard: list[int] = []
        signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
        os.kill(os.getpid(), signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1)
        targets = (parent, 0, -1, 1, -parent)
        return [len(heard), *(error_of(lambda target=target: os.kill(target, 0)) for target in targets)]

    assert under(alone, action, knows_pid=True) == [2, *["EPERM"] * 5]
    assert under(alone, lambda: call("tgkill", parent, parent, 0), knows_pid=True) == "EPERM"
    assert under(alone, lambda: error_of(lambda: os.kill(os.getpid(), 0))) == "EPERM"
    with pytest.raises(Ended) as ended:
        under(alone, os.abort, knows_pid=True)
    assert os.WTERMSIG(ended.value.args[0]) == signal.SIGABRT
    assert under(CHILD, lambda: error_of(lambda: os.kill(parent, 0))) == "none"


def test_the_filter_stays_and_holds_in_all_threads():
    def action() -> list[Any]:
        status = Path("/proc/self/status").read_text()
        off = libc.prctl(22, 0, 0, 0, 0), libc.prctl(38, 0, 0, 0, 0)  # PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS
        return [
            "NoNewPrivs:\t1" in status,
            "Seccomp:\t2" in status,
            off,
            call("memfd_create", 0),
            error_of(lambda: load(program(architecture(), CHILD))),
        ]

    assert under(CHILD, action) == [True, True, (-1, -1), "EPERM", "EPERM"]

    def before() -> list[str]:
        loaded, answer = threading.Event(), []
        thread = threading.Thread(target=lambda: (loaded.wait(), answer.append(error_of(socket.socket))))
        thread.start()
        load(program(architecture(), CHILD))
        loaded.set()
        thread.join()
        return answer

    assert forked(before) == ["EAFNOSUPPORT"]


def test_a_zygote_forks_and_its_children_are_stricter_than_it_is():
    def child() -> list[Any]:
        before = [call("setns", -1, 0x20000000), call("landlock_create_ruleset", 0, 0, 1) != "EPERM"]
        load(program(architecture(), CHILD))
        return [*before, call("setns", -1, 0x20000000), error_of(os.fork), error_of(socket.socket)]

    def zygote() -> list[Any]:
        refused = [
            call("execve"),
            call("ptrace"),
            call("io_uring_setup"),
            call("memfd_create"),
            call("setns", -1, 0),
            call("unshare", 0x40000000),  # CLONE_NEWNET
            call("seccomp", 1, 8, 0),  # SECCOMP_FILTER_FLAG_NEW_LISTENER
            call("clone", 0x8000 | signal.SIGCHLD),
        ]
        return [*refused, call("unshare", 0), forked(child)]

    assert under(ZYGOTE, zygote) == [
        *["EPERM"] * 8,
        0,
        ["EBADF", True, "EPERM", "EPERM", "EAFNOSUPPORT"],
    ]


def test_programs_of_a_granted_child_pass_the_zygote_s_filter_too():
    def child() -> int:
        load(program(architecture(), GRANTED))
        return subprocess.run(["/bin/true"], check=False).returncode

    assert under(Profile(name="zygote", subprocess=True), lambda: forked(child)) == 0


def test_a_filter_that_the_kernel_does_not_take_is_an_error():
    def action() -> list[str]:
        whole = program(architecture(), CHILD)
        return [
            error_of(lambda: load(b"")),
            error_of(lambda: load(whole[:-8])),
            error_of(lambda: load(whole * 40)),
        ]

    assert forked(action) == ["EINVAL"] * 3
