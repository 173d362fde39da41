"""Attacks on files: the worker's, the machine's, and more of its own than are granted."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterable

from tests.attacks.case import STOPPED, SUCCEEDS, Report, attack, part
from tests.attacks.prelude import Any, Tries, check, libc, patiently, read, write


@attack("A11", "The password file", without="only root may read it")
def password_file(d: dict[str, Any]) -> Any:
    tries = Tries()
    for path in (
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/sudoers",
        "/root/.ssh/id_rsa",
        "/etc/ssh/ssh_host_rsa_key",
    ):
        tries.attempt(path, read, path)
    return tries.verdict()


@attack("A12", "A secret file of the worker", without=SUCCEEDS)
def secret_file(d: dict[str, Any]) -> Any:
    tries = Tries()
    tries.attempt("read", read, d["secret"], proof=lambda text: d["canary"].encode() in text)
    for name, flags in (("write", os.O_WRONLY), ("append", os.O_APPEND | os.O_WRONLY), ("both", os.O_RDWR)):
        opened = tries.attempt(name, os.open, d["secret"], flags)
        if opened is not None:
            os.close(opened)
    tries.attempt("list", os.listdir, d["folder"])
    tries.attempt("link", os.link, d["secret"], "link")
    tries.attempt("move", os.rename, d["secret"], d["secret"] + "2")
    tries.attempt("move back", os.rename, d["secret"] + "2", d["secret"])
    return tries.verdict()


@attack("A119", "The worker's own code and packages", without=SUCCEEDS)
def own_code(d: dict[str, Any]) -> Any:
    tries = Tries()
    for path in d["code"]:
        tries.attempt(path, read, path)
        tries.attempt(f"list beside {path}", os.listdir, os.path.dirname(path))
    return tries.verdict()


@attack(
    "A12b",
    "A secret file of the worker, by detours",
    without=SUCCEEDS,
)
def secret_file_by_detours(d: dict[str, Any]) -> Any:
    tries = Tries()
    up = "../" * 40
    secret = d["secret"].lstrip("/")
    for start in (
        "",
        "/proc/self/cwd/",
        "/proc/self/root/",
        "/proc/1/root/",
        "/dev/fd/0/",
        "/dev/shm/",
        f"/proc/{os.getppid()}/root/",
    ):
        path = f"{start}{up if not start.endswith('root/') else ''}{secret}"
        tries.attempt(path[:40], read, path, proof=lambda text: d["canary"].encode() in text)
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)

    def walk() -> bytes:
        fd = os.open(up + secret, os.O_RDONLY, dir_fd=root)
        return os.read(fd, 100)

    tries.attempt("from a descriptor", walk, proof=lambda text: d["canary"].encode() in text)
    return tries.verdict()


@attack(
    "A111",
    "The rights, times and attributes of the worker's files",
    without=SUCCEEDS,
    trace="the secret file was changed",
)
def file_rights(d: dict[str, Any]) -> Any:
    tries = Tries()
    path = d["secret"]
    tries.attempt("chmod", os.chmod, path, 0o644)
    tries.attempt("chmod the folder", os.chmod, d["folder"], 0o700)
    tries.attempt("chown", os.chown, path, -1, os.getgid())
    tries.attempt("utime", os.utime, path, (0, 0))
    tries.attempt("setxattr", os.setxattr, path, "user.attack", b"x")
    tries.attempt("truncate", os.truncate, path, len(d["canary"]))
    return tries.verdict()


@attack("A112", "Watching a folder of the worker", without=SUCCEEDS)
def watched_folder(d: dict[str, Any]) -> Any:
    tries = Tries()

    def watch(path: str) -> int:
        fd = check(libc.inotify_init1(0), "inotify_init1")
        return check(libc.inotify_add_watch(fd, ctypes.c_char_p(path.encode()), 0xFFF), "inotify_add_watch")

    tries.attempt("folder", watch, d["folder"])
    tries.attempt("secret", watch, d["secret"])
    return tries.verdict()


@attack("A13", "Writing all over the machine", without=SUCCEEDS, trace="a file was made: /tmp")
def write_everywhere(d: dict[str, Any]) -> Any:
    tries = Tries()
    # What is written to the temporary folders may be a private copy: whether it is, is seen from outside.
    private = {"/tmp", "/var/tmp", "/dev/shm"}
    for place in (
        "/usr",
        "/usr/lib",
        "/etc",
        "/root",
        "/",
        "/home",
        "/run",
        "/dev",
        "/proc",
        "/sys",
        *sorted(private),
    ):
        tries.attempt(
            place, write, f"{place}/{d['mark']}", proof=lambda path: os.path.dirname(path) not in private
        )
    tries.attempt("beside the secret", write, f"{d['folder']}/{d['mark']}")
    return tries.verdict()


def no_more(report: Report) -> Iterable[str]:
    if (written := report.found.get("mebibytes", 0)) > 8:
        yield f"{written} MiB of 4"


@attack("A28", "One huge file", without=STOPPED, scratch_bytes=2**20)
def huge_file(d: dict[str, Any]) -> Any:
    tries = Tries()
    with open("huge", "wb", buffering=0) as file:
        tries.attempt("write", lambda: [file.write(bytes(2**18)) for _ in range(32)])
    with open("sparse", "wb", buffering=0) as file:
        tries.attempt("truncate", file.truncate, 2**30)
        tries.attempt("allocate", os.posix_fallocate, file.fileno(), 0, 2**30)
    return tries.verdict()


# In tier C nothing but the worker's look at the folder, many times a second, bounds what is in it.
FILLED = ("succeeded", "scratch_full")


@attack(
    "A29",
    "Many files that fill the disk",
    without=SUCCEEDS,
    ends=FILLED,
    scratch_bytes=4 * 2**20,
    check=no_more,
)
def full_disk(d: dict[str, Any]) -> Any:
    tries, written = Tries(), 0
    for number in range(24):
        with open(f"file{number}", "wb", buffering=0) as file:
            if tries.attempt(f"file{number}", file.write, bytes(2**20), proof=lambda n: n == 2**20):
                written += 1
            elif tries.how:
                break
    if written == 24:
        patiently(3)
        return tries.verdict(mebibytes=written)
    return {"through": [], "how": tries.how, "mebibytes": written}


@attack(
    "A29b",
    "Room that is set aside beyond the end of a file",
    without=SUCCEEDS,
    ends=FILLED,
    scratch_bytes=4 * 2**20,
    check=no_more,
)
def hidden_room(d: dict[str, Any]) -> Any:
    tries, taken = Tries(), 0
    for number in range(24):
        with open(f"file{number}", "wb", buffering=0) as file:
            size = (ctypes.c_long(0), ctypes.c_long(2**20))
            if libc.fallocate(file.fileno(), 1, *size) == 0:  # FALLOC_FL_KEEP_SIZE
                taken += 1
            else:
                tries.how[f"file{number}"] = str(ctypes.get_errno())
                break
    if taken == 24:
        patiently(3)
        return {"through": ["24 MiB"], "how": {}, "mebibytes": taken}
    return {"through": [], "how": tries.how, "mebibytes": taken}


@attack(
    "A29c",
    "Files without a name that fill the disk",
    without=SUCCEEDS,
    ends=FILLED,
    scratch_bytes=4 * 2**20,
    check=no_more,
)
def unlinked_files(d: dict[str, Any]) -> Any:
    tries, kept = Tries(), []
    for number in range(24):
        kept.append(os.open(f"file{number}", os.O_CREAT | os.O_WRONLY))
        os.unlink(f"file{number}")
        if not tries.attempt(f"file{number}", os.write, kept[-1], bytes(2**20), proof=lambda n: n == 2**20):
            kept.pop()
            break
    written = len(kept)
    if written == 24:
        patiently(3)
        return tries.verdict(mebibytes=written)
    return {"through": [], "how": tries.how, "mebibytes": written}


@attack(
    "A29d",
    "Files in a folder that no user may list",
    without=SUCCEEDS,
    ends=FILLED,
    scratch_bytes=4 * 2**20,
    check=no_more,
)
def unlisted_folder(d: dict[str, Any]) -> Any:
    tries, written = Tries(), 0
    os.mkdir("hidden", 0o300)
    for number in range(24):
        with open(f"hidden/file{number}", "wb", buffering=0) as file:
            if not tries.attempt(f"file{number}", file.write, bytes(2**20), proof=lambda n: n == 2**20):
                return {"through": [], "how": tries.how, "mebibytes": written}
            written += 1
    patiently(3)
    return tries.verdict(mebibytes=written)


@attack(
    "A29e",
    "Files so deep that their path is too long to be named",
    without=SUCCEEDS,
    ends=FILLED,
    scratch_bytes=4 * 2**20,
    check=no_more,
)
def deep_files(d: dict[str, Any]) -> Any:
    tries, written = Tries(), 0
    for _ in range(40):
        os.mkdir("x" * 200)
        os.chdir("x" * 200)
    for number in range(24):
        with open(f"file{number}", "wb", buffering=0) as file:
            if not tries.attempt(f"file{number}", file.write, bytes(2**20), proof=lambda n: n == 2**20):
                return {"through": [], "how": tries.how, "mebibytes": written}
            written += 1
    patiently(3)
    return tries.verdict(mebibytes=written)


@attack(
    "A29f",
    "Files without a name that only a message under way still holds",
    without=SUCCEEDS,
    tiers="AB",
    ends=FILLED,
    scratch_bytes=4 * 2**20,
    check=no_more,
)
def files_under_way(d: dict[str, Any]) -> Any:
    tries, written = Tries(), 0
    ours, theirs = socket.socketpair()
    for number in range(24):
        fd = os.open(f"file{number}", os.O_CREAT | os.O_WRONLY)
        os.unlink(f"file{number}")
        if not tries.attempt(f"file{number}", os.write, fd, bytes(2**20), proof=lambda n: n == 2**20):
            return {"through": [], "how": tries.how, "mebibytes": written}
        socket.send_fds(ours, [b"x"], [fd])
        os.close(fd)
        written += 1
    patiently(3)
    theirs.close()
    return tries.verdict(mebibytes=written)


@attack("A30", "Many files of no size", without=SUCCEEDS, ends=FILLED, scratch_files=100)
def many_files(d: dict[str, Any]) -> Any:
    tries = Tries()
    for number in range(1000):
        try:
            os.close(os.open(f"file{number}", os.O_CREAT | os.O_WRONLY))
        except OSError as error:
            tries.how[f"file{number}"] = str(error)
            return tries.verdict(files=number)
    patiently(3)
    return {"through": ["1000 files"], "how": {}}


@attack("A46", "A link in the scratch folder to a secret", without=SUCCEEDS)
def symlink_out(d: dict[str, Any]) -> Any:
    tries = Tries()
    for number, target in enumerate((d["secret"], "/etc/shadow", d["folder"])):
        # These stay behind, for the process that removes the scratch folder to follow.
        os.symlink(target, f"link{number}")
    tries.attempt("read", read, "link0", proof=lambda text: d["canary"].encode() in text)
    tries.attempt("shadow", read, "link1")
    tries.attempt("folder", os.listdir, "link2")
    return tries.verdict()


@attack("A55", "Listing the machine", without=SUCCEEDS)
def listing(d: dict[str, Any]) -> Any:
    import sys

    tries = Tries()
    prefixes = (sys.prefix, sys.base_prefix, os.__file__, *sys.path)
    private = {"/tmp", "/var/tmp", "/dev/shm"}

    def strangers(path: str) -> list[str]:
        """Return what is listed there and neither leads to the interpreter nor is an empty folder."""
        found = []
        for name in os.listdir(path):
            entry = f"{path.rstrip('/')}/{name}"
            try:
                empty = os.path.isdir(entry) and not os.listdir(entry)
            except OSError:
                empty = False
            if not empty and not any(f"{prefix}/".startswith(f"{entry}/") for prefix in prefixes):
                found.append(name)
        return found

    for path in (
        "/home",
        "/root",
        "/run",
        "/sys",
        "/boot",
        "/opt",
        "/srv",
        "/mnt",
        "/var/lib",
        "/var/log",
        "/etc/ssh",
    ):
        tries.attempt(path, strangers, path, proof=bool)
    for path in ("/", "/var", "/etc", os.path.dirname(d["folder"]), *sorted(private)):
        # Of what is there some is given; what must not be there is known.
        tries.attempt(
            path,
            os.listdir,
            path,
            proof=lambda names, path=path: any(
                name in ("boot", "lost+found", "shadow", "passwd", "log", "spool")
                or name.startswith(("decoys-", "attacks-", "functory-"))
                for name in names
            ),
        )
    return tries.verdict()


@attack("A65", "Hard links to what it may not write", without=SUCCEEDS)
def hard_links(d: dict[str, Any]) -> Any:
    tries = Tries()
    tries.attempt("the secret", os.link, d["secret"], "secret")
    for path in ("/bin/su", "/usr/bin/passwd", "/bin/mount"):
        tries.attempt(path, os.link, path, os.path.basename(path))
    return tries.verdict()


@attack(
    "A75", "Writing into the interpreter and its packages", without="these belong to root on most machines"
)
def poisoned_packages(d: dict[str, Any]) -> Any:
    import site
    import sys
    import sysconfig

    tries = Tries()
    places = {
        *sys.path,
        *sysconfig.get_paths().values(),
        *site.getsitepackages(),
        os.path.dirname(os.__file__),
    }
    for place in sorted(place for place in places if place.startswith("/")):
        tries.attempt(place, write, f"{place}/{d['mark']}.py")
        tries.attempt(f"{place}/__pycache__", write, f"{place}/__pycache__/{d['mark']}.pyc")
    return tries.verdict()


@attack("A121", "Rewriting the interpreter that it runs in", without="that belongs to root on most machines")
def rewritten_interpreter(d: dict[str, Any]) -> Any:
    import sys

    tries = Tries()

    def again(flags: int) -> int:
        fd = os.open("/proc/self/exe", flags)
        return os.open(f"/proc/self/fd/{fd}", os.O_RDWR)

    for path in ("/proc/self/exe", os.path.realpath(sys.executable), os.__file__):
        tries.attempt(path, os.open, path, os.O_RDWR)
    tries.attempt("opened again", again, os.O_RDONLY)
    tries.attempt("opened again from a path", again, os.O_PATH)
    return tries.verdict()


@part
def leave_scratch(d: dict[str, Any]) -> Any:
    for place in (".", "/tmp", "/var/tmp", "/dev/shm"):
        try:
            write(f"{place}/{d['mark']}-before")
        except OSError:
            pass
    return "left"


@attack(
    "A76",
    "What the execution before it has left",
    without="nothing is left in the scratch folder there, either",
    before="leave_scratch",
)
def previous_scratch(d: dict[str, Any]) -> Any:
    tries = Tries()
    for place in (".", "/tmp", "/var/tmp", "/dev/shm", "..", "/rw", "/rw/tmp"):
        tries.attempt(
            place,
            os.listdir,
            place,
            proof=lambda names: any(name.startswith(d["mark"]) for name in names),
        )
    return tries.verdict(here=os.listdir("."))
