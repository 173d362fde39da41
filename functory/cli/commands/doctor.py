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
    """Run these checks, or all. Without readable settings the other checks are skipped. Raises :class:`Invalid` for an
    unknown name.
    """
    from functory.engine.errors import FunctoryError, Invalid
    from functory.engine.settings import load_settings

    unknown = sorted(set(names) - set(CHECKS))
    if unknown:
        raise Invalid(f"no check {unknown[0][:40]!r}", "the checks are " + ", ".join(CHECKS))
    findings = [] if names else [machine.python()]
    try:
        settings = load_settings()
    except FunctoryError as error:
        return [*findings, failed("settings", error)]
    if not names:
        kind = "embedded: all roles in one process" if settings.embedded else "client of a deployment"
        findings.append(Finding("settings", "ok", kind))
    with Installation(settings) as installation:
        for name in names or CHECKS:
            findings += _run(name, installation)
    return findings


def _run(name: str, installation: Installation) -> list[Finding]:
    from functory.engine import os_errors
    from functory.engine.errors import FunctoryError

    try:
        return CHECKS[name](installation)
    except FunctoryError as error:
        return [failed(name, error)]
    except OSError as error:
        return [failed(name, os_errors.explain(error))]
