"""Runs pieces of code in a confined zygote and in its children, for tests of the confinement itself.

Executed as ``python -I -S contained.py`` with a JSON ``Spec`` on the command line, by ``Contained`` below, as root
for tier A, as an ordinary user for B and C. The code sends values to the test with ``say(value)``.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_ROOT = str(Path(__file__).resolve().parents[2])

if __name__ == "__main__":
    sys.path[:0] = [_ROOT, *json.loads(sys.argv[1])["paths"]]

import msgspec  # noqa: E402 - the path is set above

from functory.workers.sandbox.protocol.plan import Bounds, Plan  # noqa: E402
from tests.support.patience import patient  # noqa: E402

MIB = 1 << 20
BOUNDS = Bounds(
    cpu_seconds=10,
    memory_bytes=512 * MIB,
    file_bytes=8 * MIB,
    open_files=64,
    threads=16,
    processes=1,
    scratch_bytes=16 * MIB,
    scratch_files=256,
)


class Spec(msgspec.Struct, kw_only=True):
    """The code to run: ``before`` in the zygote, then each of ``children``, one after the other.

    ``world`` runs instead of both, before any confinement.
    """

    paths: list[str]
    plan: Plan
    bounds: Bounds
    before: str
    world: str
    lifeline: int
    children: list[str]
    together: bool
    """The children run at the same time, each in a slot of its own."""


@functools.cache
def _parent_of_bases() -> Path:
    """Make a folder in which every user may remove its own, whatever this machine's temporary folder allows."""
    folder = Path(tempfile.mkdtemp(prefix="contained-"))
    folder.chmod(0o1777)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Contained:
    """A started shim with its zygote; ``said`` and ``statuses`` are complete when it has ended."""

    def __init__(
        self,
        tier: Any,
        *children: str,
        before: str = "",
        world: str = "",
        bounds: Bounds = BOUNDS,
        together: bool = False,
        ids: int = 0,
        **plan: Any,
    ) -> None:
        from functory.workers.sandbox.confinement.confine import free_ids
        from tests.support import unprivileged

        self.as_root = os.geteuid() == 0 and (tier == "A" or bool(ids))
        self.base = tempfile.mkdtemp(prefix="zygote-", dir=_parent_of_bases())
        self.first_id = ids or (free_ids(seed=os.getpid()) if self.as_root else 0)
        made = Plan(tier=tier, base=self.base, first_id=self.first_id, **plan)
        scratches = [Path(self.base, str(slot)) for slot in range(1, len(children) + 1)]
        if tier in ("C", "none"):
            for folder in scratches:
                folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            owner = self.first_id if self.as_root else unprivileged.UID
            for folder in (self.base, *(scratches if tier != "B" else ())):
                if tier != "A":
                    os.chown(folder, owner, owner)
        theirs, self._lifeline = os.pipe()
        spec = Spec(
            paths=[path for path in sys.path if path.endswith("site-packages")],
            plan=made,
            bounds=bounds,
            before=before,
            world=world,
            lifeline=theirs,
            children=list(children),
            together=together,
        )
        argv = [sys.executable, "-I", "-S", __file__, msgspec.json.encode(spec).decode()]
        self.shim = subprocess.Popen(
            argv if self.as_root else unprivileged.command(argv),
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs],
            text=True,
        )
        os.close(theirs)

    def leave(self) -> None:
        """Close the worker's end, like a worker that has died."""
        os.close(self._lifeline)
        self._lifeline = -1

    def hear(self) -> Any:
        """The next value that the code sends."""
        assert self.shim.stdout is not None
        line = self.shim.stdout.readline()
        assert line, self.shim.communicate()[1]
        return json.loads(line)

    def finish(self) -> list[Any]:
        """Wait for the end. Returns all sent values; a child's wait status is ``["ended", n]``."""
        out, error = self.shim.communicate(timeout=patient(60))
        shutil.rmtree(self.base, ignore_errors=True)
        if self._lifeline >= 0:
            self.leave()
        assert not error, error
        return [json.loads(line) for line in out.splitlines()]


def ask(tier: Any, code: str, **options: Any) -> Any:
    """The first value that one child sends; fails with the child's error when it sends none."""
    said = Contained(tier, code, **options).finish()
    assert said[-1] == ["ended", 0], said
    return said[0]


HERE = "say('here'); sys.stdin.buffer.read(1)"
"""Code that waits until ``Contained.finish``."""


def running(contained: Contained) -> list[Any]:
    """The processes below the shim, the zygote first, after ``HERE`` has run in it."""
    import psutil

    assert contained.hear() == "here"
    return psutil.Process(contained.shim.pid).children(recursive=True)


def say(value: Any) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


def attempt(work: Any, *arguments: Any, **options: Any) -> str:
    """The name of the error that ``work`` raises; empty without an error."""
    try:
        work(*arguments, **options)
    except OSError as error:
        import errno

        return errno.errorcode.get(error.errno or 0, str(error))
    except Exception as error:
        return type(error).__name__
    return ""


def _main(spec: Spec) -> None:
    from functory.workers.sandbox.confinement.confine import confine_zygote

    names = {"say": say, "attempt": attempt, "os": os, "sys": sys, "Path": Path, "spec": spec}
    if spec.world:
        exec(spec.world, names)
    try:
        confined = confine_zygote(spec.plan, spec.lifeline)
    except (OSError, ValueError) as error:
        say(["refused", str(error)])
        os._exit(3)
    for path in [*spec.paths, _ROOT]:
        sys.path.remove(path)
    exec(spec.before, dict(names, confined=confined))
    pids = []
    for number, code in enumerate(spec.children, 1):
        pid = confined.fork()
        if pid == 0:
            _child(spec, confined, number, code, names)
        pids.append(pid)
        if not spec.together:
            _await(pids)
    _await(pids)
    os._exit(0)


def _await(pids: list[int]) -> None:
    while pids:
        say(["ended", os.waitstatus_to_exitcode(os.waitpid(pids.pop(0), 0)[1])])


def _child(spec: Spec, confined: Any, number: int, code: str, names: dict[str, Any]) -> None:
    from functory.workers.sandbox.confinement import syscalls

    try:
        syscalls.close_all_but({0, 1, 2, *confined.descriptors})
        scratch = f"{spec.plan.base}/{number}" if spec.plan.tier in ("C", "none") else ""
        confined.confine_child(spec.bounds, number, scratch)
    except (OSError, ValueError) as error:
        say(["not confined", str(error)])
        os._exit(1)
    try:
        exec(code, dict(names))
        os._exit(0)
    except BaseException:
        import traceback

        say(traceback.format_exc())
        os._exit(2)


if __name__ == "__main__":
    _main(msgspec.json.decode(sys.argv[1], type=Spec))
