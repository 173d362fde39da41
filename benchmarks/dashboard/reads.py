"""Times of the routes that pages ask: each is asked many times, with other rows each time."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from benchmarks.dashboard.large import Large
from benchmarks.dashboard.seed import FUNCTIONS, TREES, TRIGGERS

ASKED = 200
WARM_UP = 5
# Milliseconds (p99): of a list or a row, and of what is large.
MOST, MOST_LARGE = 50, 80


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one route, and the largest answer in bytes."""

    name: str
    median: float
    p95: float
    p99: float
    largest: int
    budget: float

    @property
    def kept(self) -> bool:
        """True when the slowest of a hundred keeps the budget."""
        return self.p99 <= self.budget


def measure(client: httpx.Client, once: Large, *, asked: int = ASKED) -> Iterator[Timing]:
    """Ask each route ``asked`` times, a warm-up aside. Raises when one answers with an error."""
    chance = random.Random(7)
    large = [(name, lambda path=path: path, MOST_LARGE) for name, path in large_routes(once).items()]
    usual = [(name, path, MOST) for name, path in routes(client, once, chance)]
    for name, path, budget in [*usual, *large]:
        for _ in range(WARM_UP):
            _ask(client, path())
        times, largest = [], 0
        for _ in range(asked):
            asks = path()
            began = time.perf_counter()
            size = _ask(client, asks)
            times.append(1000 * (time.perf_counter() - began))
            largest = max(largest, size)
        cuts = statistics.quantiles(times, n=100)
        yield Timing(name, statistics.median(times), cuts[94], cuts[98], largest, budget)


def large_routes(once: Large) -> dict[str, str]:
    """The routes of what is large, each with its path: as the pages ask for them."""
    return {
        "tree of 5,000": f"/trees/{once.tree}",
        "tree of 5,000, outline": f"/trees/{once.tree}/outline?budget=200",
        "tree of 5,000, children": f"/trees/{once.tree}/children?of={once.tree}&limit=100",
        "map of 400 boxes": "/map",
        "event of 1 MB": f"/events/{once.event}",
        "execution of 1 MB": f"/executions/{once.execution}",
        "execution of 1 MB, input": f"/executions/{once.execution}/input",
        "execution of 1 MB, result": f"/executions/{once.execution}/result",
    }


def routes(client: httpx.Client, once: Large, chance: random.Random) -> list[tuple[str, Callable[[], str]]]:
    """The routes, each with a function that makes its next path."""
    executions = _Pages(client, "/executions", chance, once.tree)
    events = _Pages(client, "/events", chance, once.tree)

    def function() -> str:
        return chance.choice(list(FUNCTIONS))

    def trigger() -> str:
        return chance.choice(list(TRIGGERS))

    def one(pages: _Pages, column: str, form: str) -> Callable[[], str]:
        return lambda: form.format(pages.row()[column])

    return [
        ("executions", lambda: "/executions?limit=100"),
        ("executions, a page of the middle", executions.deep_page),
        ("executions?state=failed", lambda: "/executions?limit=100&state=failed"),
        ("executions?state=dead", lambda: "/executions?limit=100&state=dead"),
        ("executions, three bad states", lambda: "/executions?limit=100&state=failed&state=timed_out&state=dead"),
        ("executions?function", lambda: f"/executions?limit=100&function={function()}"),
        ("executions?function&state", lambda: f"/executions?limit=100&state=failed&function={function()}"),
        ("executions?trigger", lambda: f"/executions?limit=100&trigger={trigger()}"),
        ("executions?roots", lambda: "/executions?limit=100&roots=true"),
        ("execution", one(executions, "id", "/executions/{}")),
        ("execution, attempts", one(executions, "id", "/executions/{}/attempts")),
        ("execution, logs", one(executions, "id", "/executions/{}/logs")),
        ("execution, why", one(executions, "id", "/executions/{}/why")),
        ("tree, outline", one(executions, "root_id", "/trees/{}/outline")),
        ("events", lambda: "/events?limit=100"),
        ("events?type", lambda: "/events?limit=100&type=order.received"),
        ("events?type&subject", lambda: f"/events?type=order.received&subject=order-{chance.randrange(TREES)}"),
        ("event", one(events, "id", "/events/{}")),
        ("event, decisions", one(events, "id", "/events/{}/decisions")),
        ("functions", lambda: "/functions"),
        ("function", lambda: f"/functions/{function()}"),
        ("triggers", lambda: "/triggers"),
        ("trigger, firings", lambda: f"/triggers/{trigger()}/firings?limit=100"),
        ("overview", lambda: "/overview"),
        ("search", one(executions, "id", "/search?q={}")),
    ]  # fmt: skip


class _Pages:
    """Rows of random places of a list, without those of the largest tree."""

    def __init__(self, client: httpx.Client, path: str, chance: random.Random, large: str) -> None:
        self._client, self._chance = client, chance
        self._rows: list[dict[str, Any]] = []
        self._paths: list[str] = []
        ask = f"{path}?limit=100"
        for _ in range(20):
            page = client.get(ask).raise_for_status().json()
            self._rows += [row for row in page["items"] if row["root_id"] != large]
            self._paths.append(ask)
            if page["next"] is None:
                break
            ask = f"{path}?limit=100&before={page['next']}"

    def row(self) -> dict[str, Any]:
        """A random row."""
        return self._chance.choice(self._rows)

    def deep_page(self) -> str:
        """The path of a random page."""
        return self._chance.choice(self._paths)


def _ask(client: httpx.Client, path: str) -> int:
    answer = client.get(path)
    if answer.status_code != 200:
        raise RuntimeError(f"GET {path}: {answer.status_code} {answer.text[:300]}")
    return len(answer.content)
