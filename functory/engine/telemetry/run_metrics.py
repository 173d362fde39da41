"""Metric families of agents' runs, and of what people decide for them."""

from __future__ import annotations

from functory.engine.telemetry.label_budget import LabelBudget
from functory.engine.telemetry.registry import counter, histogram

# A run goes on wherever something ends that it waits for: an execution, a call of a model, a question.
_ON = ("server", "router", "scheduler", "worker", "gateway")
# With the states and reasons of ended runs each agent may have 14 series in each process.
agent_label = LabelBudget(40)
MINUTE, HOUR, DAY = 60, 3_600, 86_400

runs_started = counter("functory_runs_started_total", "Started runs of agents.", "agent", on=_ON)
runs_ended = counter(
    "functory_runs_ended_total",
    "Ended runs of agents, by final state and by the reason why a run was stopped: a limit (usd, tokens, calls, "
    "tool_calls, children, seconds, steps, executions), loop, no_progress; none for the other states.",
    "agent",
    "state",
    "reason",
    on=_ON,
)
run_steps = counter(
    "functory_run_steps_total",
    "Steps of runs, by what they were given: start, again, model, tools, children, answer, proposal, checks, problem.",
    "kind",
    on=_ON,
)
approvals_requested = counter(
    "functory_approvals_requested_total",
    "Questions that a person is to decide: ask (a run asks), tool (may a run use it), proposal (may it become active).",
    "kind",
    on=_ON,
)
approvals_decided = counter(
    "functory_approvals_decided_total",
    "Questions that wait no more: approved, edited (with other arguments), rejected, answered; expired without a "
    "decision; withdrawn, because the run or the proposal has ended.",
    "kind",
    "outcome",
    on=_ON,
)
approval_seconds = histogram(
    "functory_approval_decision_seconds",
    "Time from a question to the decision of a person.",
    "kind",
    buckets=(10, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, 8 * HOUR, DAY, 3 * DAY, 7 * DAY),
    on=_ON,
)
