"""Finds tests by the name of a module, and modules without such tests: ``python -m tests.support.mirrored_tests``.

`tests/unit/engine/events/test_store.py` and `tests/integration/engine/events/test_store_<aspect>.py` stand for
`functory/engine/events/store.py`. Where several modules fit, the longest name counts. Modules of the engine and of the
triggers that no file of tests stands for are listed in `tests/without_tests.txt`, and the list only becomes shorter:
the exit status is 1 when it is not exact.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "tests" / "without_tests.txt"
# Folders of tests that lie beside the packages: the rest of a test's path is the path of what it tests.
MIRRORS = ("tests/unit", "tests/integration")
ROOMS = ("functory/engine", "functory/triggers")


def module_of(test: str) -> str | None:
    """The module or package that a file of tests stands for. Both paths are relative to the root."""
    mirror = next((mirror for mirror in MIRRORS if test.startswith(f"{mirror}/")), None)
    if mirror is None:
        return None
    path = PurePosixPath(test)
    folder = "functory" / path.parent.relative_to(mirror)
    words = path.stem.removeprefix("test_").split("_")
    for length in range(len(words), 0, -1):
        name = folder / "_".join(words[:length])
        for module in (f"{name}.py", f"{name}/__init__.py"):
            if (ROOT / module).is_file():
                return module
    return None


def has_behaviour(source: str) -> bool:
    """False for a module of tables, types and constants alone: no function of it has a body."""
    return any(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        # A docstring or `...` is no body.
        and not all(isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) for line in node.body)
        for node in ast.walk(ast.parse(source))
    )


def without_tests() -> set[str]:
    """The modules of the engine and of the triggers with behaviour that no file of tests stands for."""
    tests = (path for mirror in MIRRORS for path in (ROOT / mirror).rglob("test_*.py"))
    tested = {module_of(path.relative_to(ROOT).as_posix()) for path in tests}
    modules = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return {
        module
        for path in modules
        if (module := path.relative_to(ROOT).as_posix()) not in tested
        and path.name != "__init__.py"
        and has_behaviour(path.read_text())
    }


def problems(missing: set[str], listed: Iterable[str]) -> Iterator[str]:
    """What is wrong with the list of the modules that miss tests, and what to do."""
    known = set(listed)
    for module in sorted(missing - known):
        path = PurePosixPath(module)
        mirrored = f"{path.parent.relative_to('functory')}/test_{path.stem}.py"
        yield f"{module}: no test is named after it / try: {' or '.join(f'{m}/{mirrored}' for m in MIRRORS)}"
    for module in sorted(known - missing):
        yield f"{module}: it has tests, has no behaviour or is gone / try: remove it from {LIST.relative_to(ROOT)}"


def listed() -> list[str]:
    """The lines of the list that are no comments."""
    return [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]


if __name__ == "__main__":
    found = list(problems(without_tests(), listed()))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(1 if found else 0)
