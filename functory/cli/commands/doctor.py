"""``functory doctor``: checks everything that an installation needs and gives advice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from functory.cli import session
from functory.cli.checks import machine, security, services, stored_data
from functory.cli.checks.finding import Finding, failed
from functory.cli.checks.installation import Installation
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput

# In the order in which they are made. Later ones need what earlier ones look at.
CHECKS: dict[str, Callable[[Installation], list[Finding]]] = {
    "python": lambda _: [machine.python()],
    "settings": machine.settings,
    "versions": machine.versions,
    "extras": machine.extras,
    "files": machine.files,
    "limits": machine.limits,
    "database": stored_data.database,
    "clock": stored_data.clock,
    "events": stored_data.events,
    "queues": stored_data.queues,
    "invariants": stored_data.invariants,
    "guards": stored_data.guards,
    "workers": stored_data.workers,
    "broker": services.broker,
    "sandbox": machine.sandbox,
    "secrets": security.secrets,
    "sources": services.sources,
    "webhooks": security.webhooks,
    "disk": machine.disk,
    "metrics": services.metrics,
    "traces": services.traces,
    "dashboard": machine.dashboard,
    "access": services.access,
}
# Findings with a name of their own, and the check that makes them. So are those of the sandbox about a better tier.
_MADE_BY = {"schema": "database", "proc": "sandbox", "landlock": "sandbox", "cgroup": "sandbox"}
_NO_TIER = "no tier "


def doctor(
    checks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CHECK]…", help=f"Only these checks: {', '.join(CHECKS)}.", show_default=False
        ),
    ] = None,
    json: AsJson = False,
) -> int:
    """Check this installation and say what to repair. Exit status 1 when a check fails."""
    session.log_to_stderr()
    findings = run_checks(checks or ())
    out = CommandOutput(json=json)
    if json:
        out.value([asdict(finding) for finding in findings])
    for finding in findings if not json else ():
        out.styled(
            (f"{finding.verdict:<5}", console.STYLES[finding.verdict]),
            (f" {finding.check:<13}", "bold"),
            (finding.found, ""),
        )
        if finding.advice:
            out.styled((f"      try: {finding.advice}", "dim"))
    return 1 if any(finding.verdict == "fail" for finding in findings) else 0


def run_checks(names: Sequence[str] = ()) -> list[Finding]:
    """Run these checks, or all. A name is that of a check or of one of its findings. Without readable settings the
    other checks are skipped. Raises :class:`Invalid` for an unknown name.
    """
    from functory.engine.errors import FunctoryError, Invalid
    from functory.engine.settings import load_settings
    from functory.terminal.near_options import near_options

    wanted = list(dict.fromkeys(map(_check_of, names or CHECKS)))
    unknown = sorted(set(wanted) - set(CHECKS))
    if unknown:
        near = near_options(unknown[0], [*CHECKS, *_MADE_BY])
        meant = f"did you mean {' or '.join(near)}?" if near else ""
        raise Invalid(f"no check {unknown[0][:40]!r}", "the checks are " + ", ".join(CHECKS), meant)
    try:
        settings = load_settings()
    except FunctoryError as error:
        return [*([machine.python()] if "python" in wanted else []), failed("settings", error)]
    findings: list[Finding] = []
    with Installation(settings) as installation:
        for name in wanted:
            findings += _run(name, installation)
    return findings


def _check_of(name: str) -> str:
    """Return the check that makes the finding of this name."""
    return "sandbox" if name.startswith(_NO_TIER) else _MADE_BY.get(name, name)


def _run(name: str, installation: Installation) -> list[Finding]:
    from functory.engine import os_errors
    from functory.engine.errors import FunctoryError

    try:
        return CHECKS[name](installation)
    except FunctoryError as error:
        return [failed(name, error)]
    except OSError as error:
        return [failed(name, os_errors.explain(error))]
