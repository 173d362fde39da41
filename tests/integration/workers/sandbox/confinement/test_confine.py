"""Confined code sees and may do what its plan allows, in every tier that this machine has."""

from __future__ import annotations

import os
import socket
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from tests.support.confined_zygote import BOUNDS, HERE, MIB, Contained, ask, running
from tests.support.tier_marks import every, namespaced, tiers

_ROOT = Path(__file__).resolve().parents[5]


@namespaced
def test_the_root_holds_nothing_but_what_is_listed(tier: str) -> None:
    seen = ask(tier, "say([os.listdir('/'), os.listdir('/etc'), os.listdir('/tmp'), os.listdir('/dev')])")
    top, etc, tmp, dev = map(set, seen)
    prefix = Path(sys.base_prefix).parts[1]
    assert top <= {"usr", "lib", "lib64", "etc", "dev", "proc", "tmp", "var", "rw", "ro", prefix}
    assert etc <= {"ld.so.cache", "localtime", "ssl", "pki"}
    assert tmp == set()
    assert dev == {"null", "zero", "full", "random", "urandom", "shm", "fd"}


@every
def test_files_of_this_machine_cannot_be_read(tier: str) -> None:
    paths = ["/etc/passwd", "/etc/hostname", str(_ROOT / "pyproject.toml"), __file__, "/proc/1/environ"]
    paths = [path for path in paths if Path(path).exists()]
    said = ask(tier, f"say([attempt(open, path, 'rb') for path in {paths!r}])")
    # The first process of the own namespace is the child itself: its environment is its own.
    expected = {"ENOENT", "EACCES"} | ({""} if tier == "B" else set())
    assert set(said) <= expected
    assert set(said[:-1]) <= {"ENOENT", "EACCES"}


@every
def test_the_standard_library_is_there_and_packages_beside_it_are_not(tier: str) -> None:
    beside = sysconfig.get_path("purelib", vars={"base": sys.base_prefix})
    hidden = [beside, str(Path(msgspec.__file__).parents[1]), "/usr/lib/python3/dist-packages"]
    code = f"""
import sqlite3, ssl, json, asyncio, zoneinfo, itertools
read = []
for path in {hidden!r}:
    for folder, _, names in itertools.islice(os.walk(path), 60):
        read += [name for name in names if not attempt(open, folder + "/" + name)]
say([attempt(__import__, "sqlalchemy"), read, str(zoneinfo.ZoneInfo("Europe/Berlin"))])
"""
    error, read, zone = ask(tier, code)
    assert read == []
    assert error == "ModuleNotFoundError"
    assert zone == "Europe/Berlin"


@every
def test_scratch_is_home_and_the_only_place_to_write(tier: str) -> None:
    code = """
import tempfile
Path("own").write_text("kept")
with tempfile.NamedTemporaryFile() as file:
    file.write(b"x")
os.mkdir("folder"); os.rename("own", "folder/own"); os.symlink("folder", "link")
places = ["/", "/etc", "/usr/lib", "/dev", "/var", "/rw", "/ro", "/proc", "/dev/shm/..", "/home", "/root"]
places += [os.path.dirname(os.__file__)]
say([
    [os.path.samefile(".", os.environ["HOME"]), os.environ["HOME"], os.environ["TMPDIR"], tempfile.gettempdir()],
    Path("link/own").read_text(),
    {place: attempt(open, place + "/new", "w") for place in places},
])
"""
    contained = Contained(tier, code)
    homes, text, refused = contained.finish()[0]
    assert homes == [True] + ["/tmp" if tier in "AB" else f"{contained.base}/1"] * 3
    assert text == "kept"
    assert set(refused.values()) <= {"EROFS", "EACCES", "ENOENT", "EPERM"}, refused


@namespaced
def test_scratch_has_a_size_and_a_number_of_files(tier: str) -> None:
    code = """
made = 0
def fill():
    for number in range(100):
        Path(f"big{number}").write_bytes(b"x" * (1 << 20))
def make():
    global made
    for number in range(1000):
        Path(f"small{number}").touch()
        made += 1
first = attempt(fill)
for path in Path(".").iterdir():
    path.unlink()
say([first, attempt(make), made])
"""
    full, many, made = ask(tier, code)
    assert (full, many) == ("ENOSPC", "ENOSPC")
    assert BOUNDS.scratch_files - 8 <= made < BOUNDS.scratch_files


@every
def test_a_child_finds_nothing_of_the_one_before(tier: str) -> None:
    write = "Path('left').write_text('x'); os.mkdir('/tmp/left') if os.getcwd() == '/tmp' else None"
    read = "say([os.listdir('.'), attempt(open, '../1/left')])"
    said = Contained(tier, write, read).finish()
    assert said[1][0] == []
    assert said[1][1] in {"EACCES", "ENOENT"}


@every
def test_no_right_is_left(tier: str) -> None:
    status = "Path('/proc/self/status').read_text()"
    code = f"""
def read():
    return dict(line.split(":\\t", 1) for line in {status}.splitlines())
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    return "" if getattr(libc, name)(*arguments) == 0 else str(ctypes.get_errno())
say([
    read() if {tier!r} in "AB" else {{}},
    libc.prctl(39, 0, 0, 0, 0), libc.prctl(21, 0, 0, 0, 0),
    [call("mount", b"none", b"/rw", b"tmpfs", 0, None), call("umount2", b"/rw/tmp", 2), call("chroot", b"/rw"),
     call("unshare", 0x10000000), call("setuid", 0)],
    attempt(os.setgroups, []),
])
"""
    status_lines, no_new_privileges, seccomp, calls, groups = ask(tier, code)
    assert no_new_privileges == 1
    assert seccomp == 2
    assert "" not in calls
    assert groups == "EPERM"
    if status_lines:
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert int(status_lines[name], 16) == 0
        assert status_lines["NSpid"].split()[-1] == "1"


@tiers("A")
def test_each_slot_has_an_id_that_no_user_of_this_machine_has(tier: str) -> None:
    contained = Contained(tier, HERE, HERE, together=True)
    zygote, *children = running(contained)
    contained.hear()
    children = psutil.Process(zygote.pid).children()
    assert contained.first_id >= 100_000
    assert set(zygote.uids()) == set(zygote.gids()) == {contained.first_id}
    assert [set(child.uids()) for child in children] == [{contained.first_id + 1}, {contained.first_id + 2}]
    assert [set(child.gids()) for child in children] == [{contained.first_id + 1}, {contained.first_id + 2}]
    assert all(Path(f"/proc/{p.pid}/status").read_text().count("Groups:\t \n") for p in [zygote, *children])
    contained.finish()


@tiers("B")
def test_without_ids_to_give_a_child_is_nobody(tier: str) -> None:
    uid, gid, became_root = ask(tier, "say([os.getuid(), os.getgid(), attempt(os.setuid, 0)])")
    assert (uid, gid) == (65534, 65534)
    assert became_root in {"EINVAL", "EPERM"}


@namespaced
def test_children_see_no_process_but_their_own(tier: str) -> None:
    look = "say([os.getpid(), sorted(n for n in os.listdir('/proc') if n.isdigit()), attempt(os.kill, 2, 0)])"
    said = [word for word in Contained(tier, look, look, together=True).finish() if word[0] != "ended"]
    assert said == [[1, ["1"], "ESRCH"]] * 2


_LOCKED = """
import ctypes
from functory.workers.sandbox.confinement import namespaces, syscalls as kernel
world = namespaces.enter(spec.plan, lambda pid: None)
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    import errno
    return "" if getattr(libc, name)(*arguments) == 0 else errno.errorcode[ctypes.get_errno()]
class Attributes(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("set", "clear", "propagation", "userns")]
writable = Attributes(clear=1)
mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
built = [m for m in dict.fromkeys(mounts) if m != "/ro/proc"]
tried = {}
for path in built:
    p = path.encode()
    tried[path] = [
        call("umount2", p, 2),
        call("mount", None, p, None, 0x20 | 0x1000, None),
        call("syscall", 442, -100, p, 0x8000, ctypes.byref(writable), 32),
        attempt(open, path + "/new", "w") if os.path.isdir(path) else "",
    ]
attempt_new = call("mount", b"tmpfs", b"/rw", b"tmpfs", 0, None)
caps = [l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("CapEff")][0].split()[1]
say([caps, tried, attempt_new, os.listdir("/")])
os._exit(0)
"""


@namespaced
def test_all_capabilities_of_the_zygote_cannot_open_a_mount(tier: str) -> None:
    # Before any capability is dropped and without the filter of system calls: the kernel's lock alone.
    capabilities, tried, new, top = Contained(tier, world=_LOCKED).finish()[-1]
    assert int(capabilities, 16) & (1 << 21), "the test must hold CAP_SYS_ADMIN to mean anything"
    assert new == "", "it may mount what is new, or the lock is not what refused the rest"
    assert "/" in tried
    assert len(tried) > 8
    for path, (unmounted, remounted, changed, written) in tried.items():
        assert unmounted in {"EINVAL", "EPERM"} or path == "/", path
        assert remounted == "EPERM", path
        assert changed == "EPERM", path
        assert written in {"EROFS", "EACCES", ""}, path
    assert "home" not in top


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """Make a folder that other users may enter, too: those of pytest are their owner's alone."""
    with tempfile.TemporaryDirectory(prefix="granted-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@every
def test_granted_paths_are_where_they_are(tier: str, everybodys: Path) -> None:
    reading, writing = everybodys / "reading", everybodys / "writing"
    for folder in (reading, writing):
        folder.mkdir()
        (folder / "old").write_text("old")
        (folder / "old").chmod(0o666)
        folder.chmod(0o777)
    code = f"""
reading, writing = Path({str(reading)!r}), Path({str(writing)!r})
say([
    (reading / "old").read_text(), (writing / "old").read_text(),
    attempt((reading / "old").write_text, "x"), attempt((reading / "new").write_text, "x"),
    attempt((writing / "old").write_text, "new"), attempt((writing / "new").write_text, "new"),
    attempt(open, {str(everybodys)!r} + "/beside", "w"),
])
"""
    said = Contained(tier, code, code, read=(str(reading),), write=(str(writing),)).finish()
    assert said[0][:2] == ["old", "old"]
    assert set(said[0][2:4]) <= {"EROFS", "EACCES"}
    assert said[0][4:6] == ["", ""]
    # Where it lies below /tmp, what is beside it is the child's own scratch.
    assert said[0][6] == "EACCES" or tier == "B"
    assert not (everybodys / "beside").exists()
    assert said[2][1] == "new", "what one child wrote, the next finds"
    assert (writing / "new").read_text() == "new"
    assert (reading / "old").read_text() == "old"


@every
@pytest.mark.parametrize(
    "path", ["/", "/tmp", "/proc/sys", "/dev/shm", "/not/there", "relative", "/usr/../etc"]
)
def test_what_cannot_be_granted_is_refused_by_name(tier: str, path: str) -> None:
    ((word, text),) = Contained(tier, "say('ran')", read=(path,)).finish()
    assert word == "refused"
    assert f"granted path {path}" in text


@every
def test_limits_are_those_of_the_bounds(tier: str) -> None:
    names = ("CPU", "AS", "FSIZE", "NOFILE", "CORE", "MEMLOCK")
    code = f"import resource; say([resource.getrlimit(getattr(resource, 'RLIMIT_' + n)) for n in {names}])"
    bounds = msgspec.structs.replace(BOUNDS, cpu_seconds=2.5, open_files=40, memory_bytes=300 * MIB)
    expected = [[3, 4], [300 * MIB] * 2, [8 * MIB] * 2, [40, 40], [0, 0], [0, 0]]
    assert ask(tier, code, bounds=bounds) == expected
    repeated = ask(tier, code, bounds=msgspec.structs.replace(bounds, reusable=True))
    assert repeated[0] != [3, 4]
    assert repeated[1:] == expected[1:]


_THREADS = """
import threading
started, end = 1, threading.Event()
try:
    while started < 300:
        threading.Thread(target=end.wait, daemon=True).start()
        started += 1
except RuntimeError:
    pass
say(started)
sys.stdin.buffer.read(1)
"""


@namespaced
def test_threads_are_counted_for_each_child(tier: str) -> None:
    bounds = msgspec.structs.replace(BOUNDS, threads=7)
    said = Contained(tier, _THREADS, _THREADS, bounds=bounds, together=True).finish()
    assert [word for word in said if isinstance(word, int)] == [7, 7]


@tiers("C")
def test_threads_are_bounded_where_they_are_counted_together(tier: str) -> None:
    bounds = msgspec.structs.replace(BOUNDS, memory_bytes=256 * MIB)
    assert ask(tier, _THREADS, bounds=bounds) < 200


@every
def test_no_process_can_be_started_without_the_grant(tier: str) -> None:
    code = "import subprocess; say([attempt(os.fork), attempt(subprocess.run, ['/bin/true'])])"
    fork, run = ask(tier, code)
    assert fork == "EPERM"
    assert run in {"EPERM", "ENOENT", "EACCES"}


@namespaced
def test_with_the_grant_programs_run_and_end_with_the_child(tier: str) -> None:
    code = """
import subprocess
done = subprocess.run(["id", "-u"], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
subprocess.Popen(["sleep", "1000"], start_new_session=True)
say(done.stdout.strip())
say("here"); sys.stdin.buffer.read(1)
"""
    bounds = msgspec.structs.replace(BOUNDS, processes=4)
    contained = Contained(tier, code, bounds=bounds, subprocess=True)
    assert contained.hear() == ("1" if tier == "A" else "65534")
    (sleeper,) = [p for p in running(contained) if "sleep" in p.cmdline()]
    assert contained.finish() == [["ended", 0]]
    assert not sleeper.is_running()


@every
def test_more_processes_without_the_grant_are_an_error(tier: str) -> None:
    said = Contained(tier, "say('ran')", bounds=msgspec.structs.replace(BOUNDS, processes=2)).finish()
    assert said == [["not confined", "more than one process needs the subprocess grant"], ["ended", 1]]


@tiers("C")
def test_without_pid_namespaces_there_are_no_subprocesses(tier: str) -> None:
    ((word, text),) = Contained(tier, "say('ran')", subprocess=True).finish()
    assert word == "refused"
    assert "subprocess" in text


@namespaced
def test_a_refused_step_is_named_and_nothing_runs(tier: str) -> None:
    # A size that does not fit the kernel's number.
    said = Contained(tier, "say('ran')", bounds=msgspec.structs.replace(BOUNDS, scratch_bytes=-1)).finish()
    word, text = said[0]
    assert word == "not confined"
    assert text.endswith("mount tmpfs on /rw/tmp: Invalid argument")
    assert said[1:] == [["ended", 1]]


@every
def test_nothing_outside_can_be_reached_by_sockets_or_signals(tier: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"""
import socket, signal
say([
    attempt(socket.create_connection, ("127.0.0.1", {server.getsockname()[1]}), 2),
    attempt(os.kill, {os.getpid()}, 0), attempt(os.kill, os.getppid() or {os.getpid()}, signal.SIGTERM),
])
"""
        connected, *killed = ask(tier, code)
    assert connected not in {"", "ETIMEDOUT", "ECONNREFUSED"}
    assert set(killed) <= {"EPERM", "ESRCH"}


@every
def test_the_zygote_is_contained_before_foreign_code_runs_in_it(tier: str) -> None:
    before = f"""
import socket
say([
    attempt(open, {__file__!r}), attempt(open, "/etc/passwd"), attempt(os.kill, {os.getpid()}, 9),
    attempt(os.execv, "/bin/true", ["true"]), attempt(socket.socket),
    attempt(open, os.path.dirname(os.__file__) + "/new", "w"),
])
"""
    said = Contained(tier, "say('ran')", before=before).finish()
    assert "" not in said[0]
    assert said[1:] == ["ran", ["ended", 0]]
