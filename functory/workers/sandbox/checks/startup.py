"""Decides whether a worker may serve: its sandbox is as strong as its settings demand, and attacks on it
fail.

Called once by each process that runs functions, before it takes the first. Nothing here is lowered silently:
what the settings forbid is refused with the reason and what to change.
"""

from __future__ import annotations

import structlog

from functory.engine.errors import Conflict, Invalid, Refused, Unavailable
from functory.engine.settings import Settings
from functory.engine.telemetry import sandbox_metrics
from functory.workers.sandbox.checks import tiers
from functory.workers.sandbox.checks.canary_attacks import Canary, run_canaries
from functory.workers.sandbox.protocol.plan import Tier
from functory.workers.sandbox.runner import Runner

log = structlog.get_logger("functory.sandbox")

_GUIDE = "docs/how-to/check-the-sandbox.md"


def check_tier(settings: Settings, runner: Runner, *, inspecting: bool = False) -> Tier:
    """Return the tier of ``runner``, started for it. ``Refused`` where the settings demand a stronger one.

    With ``inspecting`` only the zygote of inspections is started: a client that saves functions may run none.
    Without confinement nothing is run unless ``unsafe_no_sandbox`` allows it; the runner itself then warns at
    every start. ``Invalid`` for settings that contradict each other, ``Unavailable`` as ``tiers.check_process``
    raises it.
    """
    tiers.check_process()
    try:
        runner.start(inspecting=inspecting)
    except Unavailable as error:
        raise _refusal(settings, "functions cannot be confined on this machine", error.why) from None
    tier = runner.tier
    if tier == "none":
        if settings.unsafe_no_sandbox != "i-understand":
            raise _refusal(settings, "functions would run without any confinement")
        if "min_tier" in settings.model_fields_set:
            raise Invalid(
                "wrong settings",
                f"unsafe_no_sandbox turns the sandbox off, and min_tier ({settings.min_tier}) demands it",
                "unset FUNCTORY_UNSAFE_NO_SANDBOX",
            )
    elif tiers.weaker(tier, settings.min_tier):
        raise _refusal(settings, f"functions would run in tier {tier}")
    return tier


def check_startup(settings: Settings, runner: Runner) -> list[Canary]:
    """Let a worker serve with ``runner`` or raise; some tenths of a second.

    Starts the runner, compares its tier with the settings and tries the canaries. Raises ``Refused`` for a
    tier that is too weak, ``Conflict`` when an attack gets through, ``Unavailable`` when it cannot be tested.
    The canaries are not tried without confinement: there, they get through.
    """
    tier = check_tier(settings, runner)
    sandbox_metrics.set_sandbox_tier(tier)
    if tier == "none":
        return []
    canaries = run_canaries(runner)
    failed = [canary for canary in canaries if canary.breaches]
    if failed:
        sandbox_metrics.set_sandbox_tier("none")
        raise Conflict(
            f"the sandbox (tier {tier}) does not hold: no function is run",
            "\n".join(f"{canary.id}, {canary.title}: {'; '.join(canary.breaches)}" for canary in failed),
            f"report this with the output of functory doctor --json; {_GUIDE} says what each attack tries",
        )
    log.info("the sandbox holds", tier=tier, attacks=len(canaries))
    return canaries


def _refusal(settings: Settings, what: str, why: str = "") -> Refused:
    """Build the refusal, with what this machine lacks for the weakest tier that would do."""
    least = settings.min_tier if settings.sandbox_tier == "auto" else settings.sandbox_tier
    found = tiers.survey()
    gap = next((gap for gap in found.gaps if gap.name == least), None)
    if gap is not None:
        return Refused(
            f"{what}; tier {least} or better is demanded",
            f"tier {least}: {gap.why}",
            f"{gap.try_}; more in {_GUIDE}",
        )
    return Refused(
        f"{what}; tier {least} or better is demanded",
        why or f"this machine offers tier {found.best}",
        "functory doctor"
        if why
        else "let FUNCTORY_SANDBOX_TIER be auto and unset FUNCTORY_UNSAFE_NO_SANDBOX",
    )
