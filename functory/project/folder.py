"""Reads the folder of a project: the functions of ``functions/*.py``, with the modules that they import from ``lib/``.

A file that cannot be read is a :class:`Problem` with its place, and says nothing about the other files. Files whose
names begin with ``_`` or ``.`` are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from functory.engine.errors import FunctoryError, Invalid
from functory.engine.functions.source import modules, parser
from functory.engine.serialization import json_codec
from functory.project import function_files
from functory.project.function_files import FileProblem, FunctionEntry

FUNCTIONS, LIB = "functions", "lib"
# A project of people has some hundred files.
MAX_FILES = 5_000


@dataclass(frozen=True)
class ProjectFunction:
    """A function of a project: its entry, its file relative to the folder, and the texts of its own modules."""

    entry: FunctionEntry
    file: str
    modules: Mapping[str, str]

    @property
    def fields(self) -> dict[str, Any]:
        """What a save takes beside the text and the name."""
        declared = {name: value for name, value in self.entry.fields.items() if name != "lib"}
        return declared | {"modules": dict(self.modules)}

    @cached_property
    def sha256(self) -> str:
        """The hash of all that the project says about it."""
        return json_codec.digest([self.entry.text, self.fields])


@dataclass(frozen=True)
class Problem:
    """A place of a file, counted from 1, and what is wrong there."""

    file: str
    line: int
    column: int
    error: FunctoryError

    def __str__(self) -> str:
        why = f" ({self.error.why})" if self.error.why else ""
        advice = f"; try: {self.error.try_}" if self.error.try_ else ""
        return f"{self.file}:{self.line}:{self.column}: error: {self.error.what}{why}{advice}"


@dataclass(frozen=True)
class Project:
    """The functions of a folder by name, the files that could be read, and the problems of the others."""

    root: Path
    functions: Mapping[str, ProjectFunction] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


def read(root: Path) -> Project:
    """Read the folder ``root``. Raises :class:`Invalid` when it has no folder ``functions``, or too many files."""
    functions: dict[str, ProjectFunction] = {}
    readable: set[str] = set()
    problems: list[Problem] = []
    for path in _function_files(root):
        file = path.relative_to(root).as_posix()
        try:
            for one in _read_file(root, path, file):
                if (known := functions.get(one.entry.name)) is not None:
                    raise FileProblem(
                        Invalid(
                            f"the function {one.entry.name} is there twice",
                            f"{known.file}:{known.entry.line} defines it",
                            "rename one of them",
                        ),
                        one.entry.line,
                    )
                functions[one.entry.name] = one
            readable.add(file)
        except FileProblem as problem:
            problems.append(Problem(file, problem.line, problem.column, problem.error))
    return Project(root, functions, frozenset(readable), tuple(problems))


def files(root: Path) -> Iterator[Path]:
    """Yield the files that :func:`read` may read. Raises as it does."""
    yield from _function_files(root)
    yield from sorted((root / LIB).rglob("*.py"))


def _function_files(root: Path) -> list[Path]:
    folder = root / FUNCTIONS
    if not folder.is_dir():
        raise Invalid(
            f"{root} is no project",
            f"it has no folder {FUNCTIONS}",
            f"mkdir {FUNCTIONS}, and put files with functions into it",
        )
    found = sorted(path for path in folder.glob("*.py") if path.name[0] not in "_." and path.is_file())
    if len(found) > MAX_FILES:
        raise Invalid(f"{folder} has more than {MAX_FILES:,} files", try_="name the folder of one project")
    return found


def _read_file(root: Path, path: Path, file: str) -> Iterator[ProjectFunction]:
    """Yield the functions of a file. Raises :class:`FileProblem`."""
    for entry in function_files.read(_text(path)):
        own = path.parent / str(entry.fields["lib"]) if "lib" in entry.fields else root / LIB
        try:
            reached = (
                modules.reachable(entry.text, modules.ModuleFolder(own))
                if own.is_dir() or "lib" in entry.fields
                else {}
            )
        except Invalid as error:
            raise FileProblem(error, entry.line) from None
        yield ProjectFunction(entry, file, reached)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(parser.MAX_BYTES + 1)
    except OSError as error:
        raise FileProblem(Invalid("the file cannot be read", error.strerror or str(error))) from None
    if len(raw) > parser.MAX_BYTES:
        raise FileProblem(Invalid("the file is too large", f"at most {parser.MAX_BYTES:,} bytes are read"))
    try:
        # A checkout on another system has other ends of lines, and the same functions.
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise FileProblem(
            Invalid("the file is not UTF-8 text", f"byte {error.start}", "save it as UTF-8")
        ) from None
