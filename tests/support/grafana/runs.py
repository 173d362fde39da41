"""The rows about runs of agents on the dashboard of models: how they end, and what waits for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.models.dashboard import Panel

from tests.support.grafana.panels import course, figure, ranking
from tests.support.grafana.promql import gained, largest, or_zero, quantile_of_few, rate, share, top, total

STEP = "$__rate_interval"
ENDED, DECIDED, DECISION = "runs_ended_total", "approvals_decided_total", "approval_decision_seconds"
FAILED = 'state=~"failed|needs_human"'
LOOPS = 'reason=~"loop|no_progress"'
LIMITS = 'state="stopped", reason!~"loop|no_progress"'


def rows() -> Mapping[str, Sequence[Panel]]:
    """Return the rows with their panels."""
    return {
        "Runs of agents: is anything wrong?": _wrong(),
        "Runs of agents: where?": _where(),
        "Runs of agents: since when?": _courses(),
    }


def _wrong() -> Sequence[Panel]:
    return [
        figure("Open runs", or_zero(total("runs")), "Runs that have not ended; most of them wait."),
        figure(
            "Questions",
            or_zero(total("approvals_pending")),
            "Questions of runs and proposals that wait for a person.",
            address="/approvals",
        ),
        figure(
            "Oldest question",
            or_zero(largest("approval_oldest_seconds")),
            "Age of the oldest question that waits for a person.",
            unit="s",
            warning=4 * 3_600,
            critical=24 * 3_600,
            address="/approvals",
        ),
        figure(
            "Stopped as loops",
            or_zero(gained(ENDED, LOOPS)),
            "Runs of the time range that repeated themselves, or of whose steps nothing new came.",
            warning=1,
            address="/runs?state=stopped",
        ),
        figure(
            "Stopped by limits",
            or_zero(gained(ENDED, LIMITS)),
            "Runs of the time range that had spent what they may: money, tokens, calls, steps, time.",
            warning=1,
            address="/runs?state=stopped",
        ),
        figure(
            "Failed runs",
            share(gained(ENDED, FAILED), gained(ENDED)),
            "Of all runs that ended in the time range; also those whose result the checks do not accept.",
            unit="percentunit",
            warning=0.2,
            critical=0.5,
            address="/runs?state=failed",
        ),
        figure(
            "Expired questions",
            or_zero(gained(DECIDED, 'outcome="expired"')),
            "Questions of the time range that no person has decided in time.",
            warning=1,
        ),
        figure(
            "Usual decision",
            quantile_of_few(0.5, DECISION, window="$__range"),
            "Half of the questions of the time range were decided faster.",
            unit="s",
        ),
    ]


def _where() -> Sequence[Panel]:
    return [
        ranking(
            "Agents",
            top(gained("runs_started_total", by="agent")),
            ["agent"],
            "runs",
            "Runs that began in the time range.",
            address="/runs?agent=${__value.raw}",
        ),
        ranking(
            "Agents whose runs fail",
            top(gained(ENDED, FAILED, by="agent, state")),
            ["agent", "state"],
            "runs",
            "Runs of the time range that failed, or whose result the checks do not accept (needs_human).",
            address="/runs?agent=${__value.raw}",
        ),
        ranking(
            "Agents whose runs are stopped",
            top(gained(ENDED, 'state="stopped"', by="agent, reason")),
            ["agent", "reason"],
            "runs",
            "By the limit that a run had reached; loop and no_progress are what the progress detectors found.",
            address="/runs?agent=${__value.raw}",
        ),
    ]


def _courses() -> Sequence[Panel]:
    return [
        course(
            "Runs that are open",
            {"{{state}}": total("runs", by="state")},
            "running: a step runs or is queued. All others hold no worker.",
            stacked=True,
        ),
        course(
            "Ended runs",
            {"{{state}}": gained(ENDED, by="state", window=STEP)},
            "succeeded, failed, stopped (by a limit, or as a loop), cancelled, needs_human.",
            stacked=True,
        ),
        course(
            "Steps",
            {"{{kind}}": rate("run_steps_total", by="kind")},
            "Steps a second, by what they were given: the answer of a model, results of tools, a problem.",
            unit="ops",
            stacked=True,
        ),
        course(
            "Stopped runs",
            {"{{reason}}": gained(ENDED, 'state="stopped"', by="reason", window=STEP)},
            "Why runs were stopped.",
            stacked=True,
        ),
        course(
            "Questions that wait",
            {"{{kind}}": total("approvals_pending", by="kind")},
            "ask: a run asks; tool: may a run use it; proposal: may it become active.",
            stacked=True,
            width=8,
        ),
        course(
            "Decided questions",
            {"{{kind}} {{outcome}}": gained(DECIDED, by="kind, outcome", window=STEP)},
            "approved, edited, rejected and answered by a person; expired; withdrawn with their run.",
            stacked=True,
            width=8,
        ),
        course(
            "Time of decisions",
            {f"p{p}": quantile_of_few(p / 100, DECISION) for p in (50, 95)},
            "From a question to the decision of a person.",
            unit="s",
            width=8,
        ),
    ]
