"""The dashboard of language models and agents: which models answer and what they cost, and how runs of agents end."""

from __future__ import annotations

from tests.support.grafana import runs
from tests.support.grafana.board import board
from tests.support.grafana.panels import course, figure, ranking
from tests.support.grafana.promql import (
    gained,
    largest,
    or_zero,
    quantile_of_few,
    rate,
    series,
    share,
    top,
    total,
)

STEP = "$__rate_interval"
CALLS, TRIES, COST, TOKENS = (
    "llm_calls_total",
    "llm_tries_total",
    "llm_cost_dollars_total",
    "llm_tokens_total",
)
DOLLARS = "currencyUSD"


def models() -> str:
    """The dashboard of models, of the gateways that ask them, and of the runs of agents."""
    wrong = [
        figure("Gateways", or_zero(total("gateway_up")), "Gateways that run.", critical=1, low=True),
        figure(
            "Models that fail",
            or_zero(total("llm_breaker_open")),
            "Models that failed too often, and are asked again later.",
            warning=1,
        ),
        figure(
            "Oldest call that waits",
            largest("llm_oldest_queued_seconds"),
            "Age of the oldest call that may be sent: no gateway, no slot, or the rate of its model is used up.",
            unit="s",
            warning=30,
            critical=120,
        ),
        figure(
            "Unknown answers",
            or_zero(gained(CALLS, 'state="unknown"')),
            "Calls of the time range whose answer was lost. They may have cost money, and are not sent again.",
            warning=1,
        ),
        figure(
            "Failed calls",
            share(gained(CALLS, 'state="failed"'), gained(CALLS)),
            "Of all calls that ended in the time range.",
            unit="percentunit",
            warning=0.05,
            critical=0.2,
        ),
        figure(
            "Refused by a limit",
            or_zero(gained("llm_refused_total")),
            "Calls of the time range that a tree or a quota could not pay.",
            warning=1,
        ),
        figure(
            "Spent today",
            largest("llm_day_dollars", 'part="spent"'),
            "US dollars of all trees since midnight (UTC).",
            unit=DOLLARS,
        ),
        figure(
            "Fullest quota",
            largest("llm_quota_used_ratio"),
            "The most used quota of today. What is reserved by calls that are sent counts.",
            unit="percentunit",
            warning=0.8,
            critical=1,
        ),
    ]
    where = [
        ranking(
            "Cost by model",
            top(gained(COST, by="model")),
            ["model"],
            "cost",
            "US dollars of the time range.",
            unit=DOLLARS,
            width=6,
        ),
        ranking(
            "Calls without an answer",
            top(gained(CALLS, 'state!="succeeded"', by="model, state")),
            ["model", "state"],
            "calls",
            "Calls of the time range that failed, were refused, or whose answer was lost.",
            width=6,
        ),
        ranking(
            "Slowest models",
            top(quantile_of_few(0.95, "llm_try_seconds", by="model", window="$__range")),
            ["model"],
            "p95",
            "One request in twenty of the time range took longer.",
            unit="s",
            width=6,
        ),
        ranking(
            "Health of models",
            f"max by (model) ({series('llm_breaker_open')})",
            ["model"],
            "state",
            "A model that failed five times in a row is asked again after a pause.",
            width=6,
            words={"0": ("asked", "green"), "1": ("paused", "red")},
        ),
    ]
    calls = [
        course(
            "Calls by model",
            {"{{model}}": rate(CALLS, by="model")},
            "Calls that ended, a second.",
            unit="ops",
            stacked=True,
        ),
        course(
            "Calls by state",
            {"{{state}}": rate(CALLS, by="state")},
            "Calls that ended, a second: succeeded, failed, refused by a limit, unknown.",
            unit="ops",
            stacked=True,
        ),
        course(
            "Requests by outcome",
            {"{{model}} {{outcome}}": rate(TRIES, by="model, outcome")},
            "Requests to providers, a second. One call may need several: answered, retry, final, lost.",
            unit="reqps",
            stacked=True,
        ),
        course(
            "Time of requests",
            {f"p{p}": quantile_of_few(p / 100, "llm_try_seconds") for p in (50, 95, 99)},
            "From the sending of a request to its whole answer, over all models.",
            unit="s",
        ),
        course(
            "Calls that are open",
            {"{{state}}": total("llm_open_calls", by="state")},
            "queued: they wait for a gateway, a slot or a rate. sent: a gateway waits for the answer.",
            stacked=True,
        ),
        course(
            "Open calls of each gateway",
            {"{{instance}}": total("gateway_open_calls", by="instance")},
            "FUNCTORY_GATEWAY_CALLS is the most that one has.",
        ),
    ]
    money = [
        course(
            "Dollars an hour",
            {"{{model}}": f"3600 * {rate(COST, by='model')}"},
            "What the calls that end now would cost in an hour.",
            unit=DOLLARS,
            stacked=True,
        ),
        course(
            "Dollars of the day",
            {"{{part}}": f"max by (part) ({series('llm_day_dollars')})"},
            "Since midnight (UTC), of all trees: spent, reserved by calls that are sent, and the limit.",
            unit=DOLLARS,
        ),
        course(
            "Dollars of 24 hours",
            {"{{model}}": gained(COST, by="model", window="24h")},
            "What the models have cost in the last 24 hours.",
            unit=DOLLARS,
            stacked=True,
            width=8,
        ),
        course(
            "Tokens",
            {"{{model}} {{direction}}": rate(TOKENS, by="model, direction")},
            "Tokens of requests (in) and answers (out), a second.",
            stacked=True,
            width=8,
        ),
        course(
            "Refused by limits",
            {"{{whose}} {{limit}}": gained("llm_refused_total", by="whose, limit", window=STEP)},
            "By whose limit it is (tree, all, key, agent, user) and what it limits.",
            stacked=True,
            width=8,
        ),
        course(
            "Used quotas",
            {"{{scope}}": f"max by (scope) ({series('llm_quota_used_ratio')})"},
            "The most used quota of today of each scope.",
            unit="percentunit",
            critical=1,
            width=8,
        ),
        course(
            "Unknown answers",
            {"{{model}}": gained(CALLS, 'state="unknown"', by="model", window=STEP)},
            "Calls whose answer was lost.",
            stacked=True,
            width=8,
        ),
        course(
            "Models that fail",
            {"{{model}}": f"max by (model) ({series('llm_breaker_open')})"},
            "1 while a model is not asked because it failed too often.",
            width=8,
        ),
    ]
    return board(
        "models",
        "Models and agents",
        "Language models: which answer, what they cost, which calls wait or were refused. Agents: how their runs end.",
        {
            "Is anything wrong?": wrong,
            "Where?": where,
            "Since when? Calls": calls,
            "Since when? Money": money,
            **runs.rows(),
        },
    )
