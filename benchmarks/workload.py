"""The workload of the router's benchmark: seeded events and triggers with the habits of a real engine.

An event has about 25 leaves and 660 bytes: an execution of some function of some tenant, its output, sometimes
a file, sometimes an error. A trigger asks two to four things of different paths; over all, about 70 % compare
for equality, 10 % ask for a prefix, 8 % for a range of numbers, 5 % exclude values, 4 % ask whether something
is there, 3 % have a suffix or stars. Two profiles:

``broad``: 2,000 functions, and one trigger in ten names neither function nor tenant nor pack nor team, so that the
matches of an event grow with the number of triggers (about 38 at 10,000).
``scoped``: 20,000 functions, 5,000 tenants, and every trigger names one of them: few matches at any number.

The trigger set of one size is the beginning of every larger one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

SEED = 20260101

# What happens, and how often.
TYPES = {
    "execution.started": 22, "execution.succeeded": 20, "execution.failed": 8, "function.updated": 5,
    "output.pattern": 12, "file.changed": 14, "schedule.tick": 12, "webhook.received": 7,
}  # fmt: skip
ENVIRONMENTS = {"prod": 6, "staging": 2, "dev": 1, "test": 1}
REGIONS = ("eu-west-1", "eu-central-1", "us-east-1", "us-west-2", "ap-south-1", "sa-east-1")
STATES = ("running", "succeeded", "failed", "queued", "retrying", "cancelled")
TAGS = ("etl", "ml", "billing", "nightly", "pii", "beta", *(f"tag-{n:02}" for n in range(34)))
WORDS = (
    "timeout", "connect", "refused", "row", "written", "saved", "parse", "error", "retry", "done",
    "model", "token", "quota", "invoice", "customer", "report", "batch", "shard", "index", "cache",
)  # fmt: skip
ENDINGS = ("csv", "json", "parquet", "txt", "log")
CODES = (200, 201, 400, 404, 429, 500, 503)
ERRORS = ("TimeoutError", "ValueError", "HTTPError", "KeyError")
DIRECTORIES = 400

# A condition: the path, and the list of accepted values.
Condition = tuple[str, list[Any]]


@dataclass(frozen=True)
class Profile:
    """How many of each there are, the share of triggers that name one, and how uneven the events are:
    the n-th is drawn as ``n = count * u ** skew`` for a uniform u."""

    functions: int
    tenants: int
    teams: int
    packs: int
    scoped: float
    skew: float


PROFILES = {
    "broad": Profile(functions=2_000, tenants=500, teams=200, packs=100, scoped=0.9, skew=2.0),
    "scoped": Profile(functions=20_000, tenants=5_000, teams=2_000, packs=1_000, scoped=1.0, skew=1.3),
}


def events(profile: str, count: int, seed: int = SEED) -> list[bytes]:
    """Return ``count`` events, each as JSON."""
    made = _Events(PROFILES[profile], Random(seed))
    return [json.dumps(made.make_event(), separators=(",", ":")).encode() for _ in range(count)]


def triggers(profile: str, count: int, seed: int = SEED) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``count`` triggers as (id, pattern)."""
    made = _Triggers(PROFILES[profile], Random(seed + 1))
    for number in range(count):
        yield f"r{number:06}", made.make_pattern()


class _Events:
    def __init__(self, profile: Profile, chance: Random) -> None:
        self._profile = profile
        self._chance = chance

    def _uneven(self, count: int) -> int:
        return int(count * self._chance.random() ** self._profile.skew)

    def _weighted(self, weights: Mapping[str, int]) -> str:
        return self._chance.choices(list(weights), list(weights.values()))[0]

    def make_event(self) -> dict[str, Any]:
        profile, chance = self._profile, self._chance
        function, type_ = self._uneven(profile.functions), self._weighted(TYPES)
        data: dict[str, Any] = {
            "function": {
                "name": _function(function),
                "version": chance.randrange(1, 60),
                "pack": _pack(function % profile.packs),
                "tags": chance.sample(TAGS, chance.randrange(4)),
            },
            "execution": self._execution(),
            "output": {
                "text": " ".join(chance.choice(WORDS) for _ in range(chance.randrange(4, 12))),
                "code": chance.choice((200, 200, *CODES)),
                "size": chance.randrange(20_000),
            },
            "client_ip": f"10.{chance.randrange(8)}.{chance.randrange(256)}.{chance.randrange(256)}",
            "labels": {"env": self._weighted(ENVIRONMENTS), "team": _team(self._uneven(profile.teams))},
        }
        if chance.random() < 0.3:
            name = f"{chance.choice(WORDS)}-{chance.randrange(10_000):04}.{chance.choice(ENDINGS)}"
            data["file"] = {
                "path": f"/data/in/{chance.randrange(DIRECTORIES):03}/{name}",
                "size": chance.randrange(10**7),
                "sha256": f"{chance.getrandbits(256):064x}",
            }
        if type_ == "execution.failed":
            data["error"] = {"kind": chance.choice(ERRORS), "retryable": chance.random() < 0.5}
        return {
            "specversion": "1.0",
            "id": f"evt-{chance.getrandbits(48):012x}",
            "type": type_,
            "source": f"/engine/worker-{chance.randrange(64):02}",
            "subject": "fn/" + _function(function),
            "time": f"2026-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}T{chance.randrange(24):02}"
            f":{chance.randrange(60):02}:{chance.randrange(60):02}.{chance.randrange(1000):03}Z",
            "datacontenttype": "application/json",
            "tenant": _tenant(self._uneven(profile.tenants)),
            "region": chance.choice(REGIONS),
            "data": data,
        }

    def _execution(self) -> dict[str, Any]:
        chance = self._chance
        execution = {
            "id": f"ex-{chance.getrandbits(40):010x}",
            "status": chance.choice(STATES),
            "duration_ms": round(chance.expovariate(1 / 900), 3),
            "attempt": 1 + self._uneven(5),
            "depth": self._uneven(9),
            "queue": f"q-{chance.randrange(8)}",
        }
        if chance.random() < 0.6:
            execution["parent"] = f"ex-{chance.getrandbits(40):010x}"
        return execution


class _Triggers:
    def __init__(self, profile: Profile, chance: Random) -> None:
        self._profile = profile
        self._chance = chance
        kinds: list[tuple[float, Callable[[], Condition]]] = [
            (56.6, self._exact), (14.5, self._prefix), (11.6, self._numeric),
            (7.2, self._anything_but), (5.8, self._exists), (4.3, self._stars),
        ]  # fmt: skip
        self._kinds = [kind for _, kind in kinds]
        self._weights = [weight for weight, _ in kinds]

    def make_pattern(self) -> dict[str, Any]:
        chance = self._chance
        asked = dict([self._scope()]) if chance.random() < self._profile.scoped else {}
        wanted = max(2, len(asked) + chance.choice((1, 2, 2, 2, 3)))
        while len(asked) < wanted:
            path, accepted = chance.choices(self._kinds, self._weights)[0]()
            asked.setdefault(path, accepted)
        pattern: dict[str, Any] = {}
        for path, accepted in asked.items():
            holder = pattern
            *above, name = path.split(".")
            for step in above:
                holder = holder.setdefault(step, {})
            holder[name] = accepted
        return pattern

    def _draw(self, *choices: tuple[int, Any]) -> Any:
        """One of (percent, what)."""
        return self._chance.choices([what for _, what in choices], [percent for percent, _ in choices])[0]

    def _few(self, draw: Callable[[], Any], several: float = 0.2) -> list[Any]:
        count = self._chance.randrange(2, 4) if self._chance.random() < several else 1
        return list(dict.fromkeys(draw() for _ in range(count)))

    def _scope(self) -> Condition:
        path, name, count = self._draw(
            (45, ("data.function.name", _function, self._profile.functions)),
            (25, ("tenant", _tenant, self._profile.tenants)),
            (15, ("data.function.pack", _pack, self._profile.packs)),
            (15, ("data.labels.team", _team, self._profile.teams)),
        )
        return path, self._few(lambda: name(self._chance.randrange(count)))

    def _exact(self) -> Condition:
        path, values, several = self._draw(
            (50, ("type", tuple(TYPES), 0.2)),
            (15, ("data.execution.status", STATES, 0.2)),
            (13, ("data.labels.env", tuple(ENVIRONMENTS), 0.1)),
            (8, ("region", REGIONS, 0.2)),
            (7, ("data.function.tags", TAGS, 0.2)),
            (4, ("data.output.code", CODES, 0.2)),
            (3, ("data.execution.queue", [f"q-{n}" for n in range(8)], 0.2)),
        )
        return path, self._few(lambda: self._chance.choice(values), several)

    def _prefix(self) -> Condition:
        chance = self._chance
        path = self._draw((50, "data.file.path"), (30, "subject"), (20, "data.output.text"))
        if path == "data.file.path":
            start = f"/data/in/{chance.randrange(DIRECTORIES):03}/"
        elif path == "subject":
            start = "fn/" + _function(chance.randrange(self._profile.functions))[: chance.choice((5, 6))]
        else:
            start = f"{chance.choice(WORDS)} {chance.choice(WORDS)}"
        return path, [{"prefix": start}]

    def _numeric(self) -> Condition:
        chance = self._chance
        low = chance.randrange(4000)
        return self._draw(
            (
                40,
                (
                    "data.execution.duration_ms",
                    [{"numeric": [">", low, "<=", low + chance.randrange(50, 500)]}],
                ),
            ),
            (20, ("data.execution.attempt", [{"numeric": [">=", chance.randrange(2, 6)]}])),
            (20, ("data.output.size", [{"numeric": ["<", chance.randrange(100, 4000)]}])),
            (20, ("data.function.version", [{"numeric": ["=", chance.randrange(1, 60)]}])),
        )

    def _anything_but(self) -> Condition:
        chance = self._chance
        tenants = [_tenant(chance.randrange(self._profile.tenants)) for _ in range(3)]
        path, refused = self._draw(
            (40, ("data.labels.env", chance.sample(list(ENVIRONMENTS), chance.randrange(1, 3)))),
            (30, ("data.execution.status", chance.choice(STATES))),
            (20, ("tenant", tenants)),
            (10, ("subject", {"prefix": f"fn/fn_{chance.randrange(2)}"})),
        )
        return path, [{"anything-but": refused}]

    def _exists(self) -> Condition:
        path = self._chance.choice(("data.execution.parent", "data.file.path", "data.error.kind"))
        return path, [{"exists": self._chance.random() < 0.5}]

    def _stars(self) -> Condition:
        chance = self._chance
        first, second, ending = chance.choice(WORDS), chance.choice(WORDS), chance.choice(ENDINGS)
        return self._draw(
            (40, ("data.file.path", [{"suffix": "." + ending}])),
            (30, ("data.file.path", [{"wildcard": f"/data/*/{first}-*.{ending}"}])),
            (30, ("data.output.text", [{"wildcard": f"*{first} {second}*"}])),
        )


def _function(number: int) -> str:
    return f"fn_{number:04}"


def _tenant(number: int) -> str:
    return f"t-{number:03}"


def _pack(number: int) -> str:
    return f"pack-{number:02}"


def _team(number: int) -> str:
    return f"team-{number:03}"
