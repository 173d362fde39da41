"""Runs the tests that are nearest to a change: `python -m tests.support.changed_tests [--base COMMIT] [OPTIONS]`.

The change is what differs from the base: commits, and files that are not committed. The nearest tests are, in this
order: changed tests; tests whose name and folder are those of a changed module; tests that import one; and tests of the
same folder. They are taken until they would last about a minute. What is left out is printed.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tests.support.architecture_picture import ROOT, imported, modules
from tests.support.mirrored_tests import MIRRORS, module_of

SECONDS = 60.0
# Seconds of one test function with its variants on two cores, about, by the folder of its file.
SECONDS_OF_A_TEST = {
    "tests/unit": 0.1,
    "tests/integration/roles": 4.0,
    "tests/integration/workers/processes": 4.0,
    "tests/integration/deploy": 2.0,
    "tests/integration": 0.6,
    "tests/dashboard": 4.0,
    "tests/acceptance": 6.0,
    "tests/chaos": 20.0,
    "tests/attacks": 20.0,
}


class Near(NamedTuple):
    """A file of tests, how near it is to the change (0 is nearest), and why."""

    distance: int
    file: str
    why: str


class Suite:
    """The files of tests, and what each imports. Paths are relative to the root of the repository."""

    @cached_property
    def files(self) -> list[str]:
        """Every file of tests."""
        return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))

    @cached_property
    def imports(self) -> Mapping[str, frozenset[str]]:
        """The files of the repository that each file of tests imports, or names as a plug-in of pytest."""
        known = {name: str(path.relative_to(ROOT)) for name, path in modules().items()}
        for path in (ROOT / "tests").rglob("*.py"):
            known[".".join(path.relative_to(ROOT).with_suffix("").parts)] = str(path.relative_to(ROOT))
        found = {}
        for file in self.files:
            tree = ast.parse((ROOT / file).read_text())
            names = {*imported(tree), *_plugins(tree)}
            found[file] = frozenset(known[name] for name in names if name in known)
        return found

    def near(self, changed: Iterable[str]) -> list[Near]:
        """The tests of a change, the nearest first."""
        best: dict[str, Near] = {}
        for path in changed:
            for one in self._of(path):
                if one.file not in best or one.distance < best[one.file].distance:
                    best[one.file] = one
        return sorted(best.values())

    def _of(self, path: str) -> Iterable[Near]:
        if path in self.files:
            yield Near(0, path, "changed")
        for file in self.files:
            if path in self.imports[file]:
                yield Near(2, file, f"imports {path}")
        if path.startswith("docs/") or path == "README.md":
            yield Near(
                1, f"tests/acceptance/test_docs.py::test_what_a_page_says_to_type_works[{path}]", "changed"
            )
        if not path.startswith("functory/") or not path.endswith(".py"):
            return
        inside = Path(path).relative_to("functory")
        folders = {f"{mirror}/{inside.parent}" for mirror in MIRRORS}
        for file in self.files:
            if module_of(file) == path:
                yield Near(1, file, f"tests {path}")
            elif str(Path(file).parent) in folders:
                yield Near(3, file, f"the same folder as {path}")


def _plugins(tree: ast.Module) -> Iterable[str]:
    """What ``pytest_plugins`` names."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and "pytest_plugins" in ast.unparse(node.targets[0]):
            yield from (leaf.value for leaf in ast.walk(node.value) if isinstance(leaf, ast.Constant))


def seconds_of(file: str) -> float:
    """About how long the tests of a file take."""
    name, _, test = file.partition("::")
    seconds = next(
        (seconds for folder, seconds in SECONDS_OF_A_TEST.items() if name.startswith(f"{folder}/")), 0.6
    )
    return seconds * (
        1 if test else len(re.findall(r"(?m)^\s*(?:async )?def test_", (ROOT / name).read_text()))
    )


def within(near: Iterable[Near], seconds: float) -> tuple[list[Near], list[Near]]:
    """What fits into the seconds, and what is left out. The nearest fits always."""
    taken: list[Near] = []
    left: list[Near] = []
    for one in near:
        needs = seconds_of(one.file)
        if needs <= seconds or not taken:
            taken.append(one)
            seconds -= needs
        else:
            left.append(one)
    return taken, left


def changed_since(base: str) -> list[str]:
    """Paths that differ from a commit, with those that git does not know yet, without those that are gone."""
    listed = _git("diff", "--name-only", base, "--") + _git("ls-files", "--others", "--exclude-standard")
    return sorted(path for path in listed if (ROOT / path).is_file())


def default_base() -> str:
    """Where this branch left the main branch of its origin; the last commit where there is none."""
    found = subprocess.run(
        ["git", "merge-base", "HEAD", "origin/main"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "HEAD"


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Returns the status of pytest, or 0 when no test is near."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.changed_tests", description=__doc__)
    parser.add_argument("--base", default="", help="a commit (default: where this branch left origin/main)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="about how long (default: 60)")
    given, options = parser.parse_known_args(arguments)
    base = given.base or default_base()
    changed = changed_since(base)
    taken, left = within(Suite().near(changed), given.seconds)
    print(f"{len(changed)} files differ from {base[:12]}: {len(taken)} files of tests are run")
    for one in taken:
        print(f"  {one.file}  ({one.why})")
    if left:
        print(f"{len(left)} files of tests are left out; --seconds makes room for them:")
        for one in left:
            print(f"  {one.file}  ({one.why})")
    print(
        "Tests that use the change through other modules are left out as well: `make test` runs all.",
        flush=True,
    )
    if not taken:
        return 0
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(one.file for one in taken)], cwd=ROOT, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
