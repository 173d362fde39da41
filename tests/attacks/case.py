"""One attack: its code, what must become of it, and what shows that it would work without a sandbox.

An attack is a function of the modules ``cases_*``, registered with ``attack``. Its source text, below that of
``kit``, is what is stored and run; so it may use only what ``kit`` and the standard library offer.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.attacks import prelude

SUCCEEDS = "succeeds"
STOPPED = "stopped"
CALM = {"wall_seconds": 15.0, "total_seconds": 30.0, "cpu_seconds": 10.0, "memory_bytes": 256 * 2**20}
WORKER_BYTES = 64 * 2**20  # how much the worker may grow during attacks on its memory


@dataclass(frozen=True, kw_only=True)
class Report:
    """The facts after an attack. ``outcome`` is the runner's, as a dict.

    ``touched`` lists the changes seen from outside: each effect of the attack on its targets. ``grown`` is
    the number of bytes by which the worker's peak of memory rose, ``clean`` is True if the next execution ran
    undisturbed.
    """

    outcome: dict[str, Any]
    touched: list[str] = field(default_factory=list)
    grown: int = 0
    clean: bool = True
    same_zygote: bool = True

    @property
    def status(self) -> str:
        return self.outcome["status"]

    @property
    def found(self) -> dict[str, Any]:
        """The report of the attack itself, which may lie."""
        value = self.outcome["result"]
        return value if isinstance(value, dict) else {}

    @property
    def through(self) -> list[str]:
        return self.found.get("through", [])


def nothing_more(report: Report) -> Iterable[str]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Case:
    """An attack of the list. The fields are explained at ``attack``."""

    id: str
    title: str
    name: str
    source: str
    tiers: str
    without: str
    trace: str
    ends: tuple[str, ...]
    limits: dict[str, Any]
    grants: dict[str, Any] | None
    before: str
    beside: str
    planted: str
    reuse: bool
    check: Callable[[Report], Iterable[str]]
    keeps_zygote: bool
    machine: str
    raw: bool

    def problems(self, report: Report) -> list[str]:
        """Return the reasons why the sandbox did not hold; empty when it did."""
        found = list(self._common(report))
        if report.through:
            found.append(f"got through: {', '.join(report.through)}")
        found += report.touched
        return found

    def toothless(self, report: Report) -> list[str]:
        """Return the reasons why the attack proves nothing: without a sandbox it must succeed, and leave its trace."""
        found = []
        if report.status == "succeeded" and not report.through and not self.trace:
            found.append(f"nothing got through: {report.found.get('how')}")
        if self.trace and not any(self.trace in line for line in report.touched):
            found.append(f"no trace of it ({self.trace}) in {report.touched}")
        if report.status not in ("succeeded", *self.ends):
            found.append(f"ended as {report.status}: {report.outcome['error']}")
        return found

    def _common(self, report: Report) -> Iterable[str]:
        if report.status not in self.ends:
            yield f"ended as {report.status}, not {' or '.join(self.ends)}: {report.outcome['error']}"
        if report.grown > WORKER_BYTES:
            yield f"the worker grew by {report.grown >> 20} MiB"
        if not report.clean:
            yield "the next execution was not clean"
        if self.keeps_zygote and not report.same_zygote:
            yield "the zygote was lost"
        yield from self.check(report)


CASES: dict[str, Case] = {}
PARTS: dict[str, str] = {}


def attack(
    id: str,  # noqa: A002 - the word of the list
    title: str,
    *,
    without: str,
    trace: str = "",
    tiers: str = "ABC",
    ends: str | tuple[str, ...] = "succeeded",
    grants: dict[str, Any] | None = None,
    before: str = "",
    beside: str = "",
    planted: str = "",
    reuse: bool = False,
    check: Callable[[Report], Iterable[str]] = nothing_more,
    keeps_zygote: bool = True,
    machine: str = "",
    raw: str = "",
    **limits: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as attack ``id``.

    ``without``: the result with no sandbox: ``SUCCEEDS``, ``STOPPED`` (process and protocol alone stop it),
    or a sentence on why that is not tried. ``trace``: words of the effect seen from outside. ``tiers`` that
    can and must stop it. ``ends``: the statuses that an execution may end with. ``before`` and ``beside``
    name parts (see ``part``) that run in an execution of their own, before and during the attack. ``planted``
    names a part that is a module of a package, which is imported while the sandbox starts; the attack finds
    its result in ``planted.FOUND``. ``reuse``: in a process that serves many executions. ``check`` names
    further faults. ``machine``: the only architecture that has the attacked feature. ``raw``: a text that is
    stored instead of the function's, with no prelude and no arguments. The other keywords are limits of the
    job.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        assert id not in CASES, id
        CASES[id] = Case(
            id=id,
            title=title,
            name=function.__name__,
            source=raw or _source(function),
            tiers=tiers,
            without=without,
            trace=trace,
            ends=(ends,) if isinstance(ends, str) else ends,
            limits={**CALM, **limits},
            grants=grants,
            before=before,
            beside=beside,
            planted=planted,
            reuse=reuse,
            check=check,
            keeps_zygote=keeps_zygote,
            machine=machine,
            raw=bool(raw),
        )
        return function

    return register


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function that an attack names in ``before`` or ``beside``."""
    PARTS[function.__name__] = _source(function)
    return function


def stored(source: str, token: str) -> str:
    """Return the text that is stored for an attack whose processes carry the mark ``token``."""
    return f"{_KIT}\nmark({token!r})\n\n\n{source}\n"


def _source(function: Callable[..., Any]) -> str:
    """Return the function's text without its decorators, below what its module imports of the standard library."""
    imports = _imports(function.__module__)
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    (node,) = ast.parse("\n".join(lines)).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return "\n".join([*imports, "\n", *lines[node.lineno - 1 :]])


@cache
def _imports(module: str) -> list[str]:
    """The imports of the standard library in a module's text."""
    return [
        ast.unparse(node)
        for node in ast.parse(inspect.getsource(sys.modules[module])).body
        if isinstance(node, ast.Import)
        or (isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(("tests", "__future__")))
    ]


_KIT = Path(prelude.__file__).read_text()
