"""What the API and the command line show of an engine, in the fields of :mod:`functory.rows`.

Each reading is put together of several parts of the engine. Nothing is changed. A scope leaves out what its labels
hide; who may read payloads is decided by the face.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from functory.client.functory import Functory
from functory.client.inspections import summary_of_function
from functory.client.schedules import KIND as SCHEDULE
from functory.engine.access.scopes import Scope
from functory.engine.agents import call_listing
from functory.engine.agents.money import NANO
from functory.engine.errors import NotFound
from functory.engine.executions import detail, event_listing
from functory.engine.executions import listing as executions
from functory.engine.firings import failures
from functory.engine.firings import trigger_listing as triggers
from functory.engine.functions import listing as functions
from functory.engine.functions import version_diff
from functory.engine.serialization import json_codec
from functory.engine.sources.lag import lag_seconds
from functory.engine.sources.secret_users import secret_users
from functory.engine.sources.webhooks import webhook_url
from functory.explanations import error_source
from functory.triggers.analysis import cycles
from functory.triggers.analysis.preview import cycle_of

# Characters of a pattern on one line.
MAX_LINE = 300
# Functions or triggers that are read together.
_TOGETHER = 500
WEBHOOK = "webhook"
# The field of the configuration that says what a source is about.
_ABOUT = {"file": "path", "table": "table", "queue": "queue"}
_PRICES = ("price_in", "price_out", "price_cached")
_NO_USE: Mapping[str, int] = {"open_calls": 0, "calls_today": 0, "cost_today": 0}
# A model has a row of its health since it was added; the join may yet have found none.
_NO_HEALTH: Mapping[str, Any] = {"failures": 0, "open_until": None, "problem": None}

Found = Mapping[str, Any]
_Rows = Callable[[Sequence[Found]], list[dict[str, Any]]]


class ReadModels:
    """Readings of one engine, within a scope."""

    def __init__(self, engine: Functory, scope: Scope = None) -> None:
        self._engine = engine
        self._database = engine.database
        self._scope = scope

    def executions(self, found: Sequence[Found]) -> list[dict[str, Any]]:
        """The rows of a list of executions (``ExecutionRow``), by their ``id``."""
        with self._database.read() as tx:
            return executions.rows_of(tx, [row["id"] for row in found], self._scope)

    def execution(self, id_: str) -> dict[str, Any]:
        """Everything about an execution but its input and its result (``Execution``). Raises :class:`NotFound`."""
        row = detail.read(self._database, id_, self._scope)
        return row | {"error_source": error_source.of_error(self._engine.functions, row["error"], self._sees)}

    def events(self, found: Sequence[Found]) -> list[dict[str, Any]]:
        """The rows of a list of events (``EventRow``), by their ``id``."""
        with self._database.read() as tx:
            return event_listing.rows_of(tx, [row["id"] for row in found])

    def event(self, id_: str) -> dict[str, Any]:
        """An event with its data and the recorded decisions (``Event``). Raises :class:`NotFound`."""
        row = self._engine.events.get(id_)
        firings = self.visible_decisions(self._engine.lineage.firings(id_))
        decisions = [firing["decision"] for firing in firings]
        return row | {
            "fired": decisions.count("fired"),
            "suppressed": decisions.count("suppressed"),
            "data_bytes": len(json_codec.encode_stored(row["data"])),
            "firings": [
                firing
                | {
                    "version": firing["trigger_version"],
                    "limit": firing["limit_value"],
                    "value": firing["actual_value"],
                }
                for firing in firings
            ],
        }

    def visible_decisions(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of the decisions that are of triggers in the scope."""
        if self._scope is None:
            return found
        names = {row["trigger"] for row in found if row["trigger"]}
        seen = self._engine.triggers.visible_names(names, self._scope)
        return [row for row in found if row["trigger"] in seen]

    def all_functions(self) -> Iterator[dict[str, Any]]:
        """The rows of all functions by name (``FunctionRow``)."""
        return self._all(functions.list_functions, self.functions)

    def _all(self, page: Callable[..., Sequence[Found]], rows: _Rows) -> Iterator[dict[str, Any]]:
        """The rows of all that a listing finds, by name, read a page at a time."""
        after: str | None = None
        while True:
            found = page(self._database, scope=self._scope, after=after, limit=_TOGETHER)
            yield from rows(found[:_TOGETHER])
            if len(found) <= _TOGETHER:
                return
            after = found[_TOGETHER - 1]["name"]

    def functions(self, found: Sequence[Found]) -> list[dict[str, Any]]:
        """The rows of a list of functions, of what :func:`functory.engine.functions.listing.list_functions` found."""
        pending = self._engine.grant_approvals.pending(found)
        names = [row["name"] for row in found]
        used_by, summaries = self._triggers_of(names), self._engine.tallies.of_functions(names)
        return [
            {
                **row,
                "pending_grants": list(pending[row["name"], row["sha256"]]),
                "triggers": used_by[row["name"]],
                **summary_of_function(summaries[row["name"]]),
            }
            for row in found
        ]

    def function(self, name: str, number: int | None = None) -> dict[str, Any]:
        """A version of a function: the active one, or the newest while none is active (``Function``). Raises
        :class:`NotFound`.
        """
        with self._database.read() as tx:
            found = functions.check_visible(tx, name, self._scope)
        row = self._engine.functions.get(name, number)
        return row | {
            "labels": found["labels"],
            "updated_at": found["updated_at"],
            "mark": functions.marks(self._database, row["function_id"]).get(row["number"]),
            "pending_grants": list(self._engine.grant_approvals.pending([row])[name, row["sha256"]]),
            "triggers": self._triggers_of([name])[name],
        }

    def difference(self, name: str, a: int, b: int) -> dict[str, Any]:
        """Two versions of a function side by side (``Difference``). Raises :class:`NotFound`."""
        registry = self._engine.functions
        texts = registry.modules(name, a), registry.modules(name, b)
        return version_diff.difference(registry.get(name, a), registry.get(name, b), texts)

    def all_triggers(self) -> Iterator[dict[str, Any]]:
        """All triggers by name with the numbers of all their decisions (``TriggerDefinition``)."""
        return self._all(triggers.list_triggers, self.definitions)

    def definitions(self, found: Sequence[Found]) -> list[dict[str, Any]]:
        """Triggers with the numbers of all their decisions (``TriggerDefinition``)."""
        totals = self._engine.triggers.totals([row["name"] for row in found])
        return [{**row, **totals[row["name"]]} for row in found]

    def triggers(self, found: Sequence[Found]) -> list[dict[str, Any]]:
        """The rows of a list of triggers (``TriggerRow``), of what the listing found."""
        summaries = self._engine.tallies.of_triggers([row["name"] for row in found])
        made: list[dict[str, Any]] = []
        for row in found:
            definition, summary = row["definition"], summaries[row["name"]]
            pattern = definition.get("on") or definition.get("composite") or {}
            made.append(
                {
                    **row,
                    "function": definition["function"],
                    "on": json_codec.dumps(pattern)[:MAX_LINE],
                    "fired_24h": summary.fired,
                    "suppressed_24h": summary.suppressed,
                    "spark": summary.spark,
                }
            )
        return made

    def trigger(self, name: str, *, totals: bool = False) -> dict[str, Any]:
        """A trigger with its definition, its warnings, and the shortest cycle that it is part of (``Trigger``). With
        ``totals`` also the numbers of all its decisions. Raises :class:`NotFound`.
        """
        row = triggers.get(self._database, name, self._scope)
        graph = self._engine.trigger_saves.stored_graph()
        return (
            self.triggers([row])[0]
            | {
                "warnings": self._engine.trigger_saves.warnings(row),
                "cycle": self._cycle(graph, name),
                "failure": failures.last(self._database, row["id"]),
            }
            | (self._engine.triggers.totals([name])[name] if totals else {})
        )

    def sources(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The rows of sources by kind and name (``SourceRow``). They belong to the whole installation."""
        if kind == SCHEDULE:
            return [self._source_row(row) for row in self._engine.schedules.list()]
        return [self._source_row(row) for row in self._engine.sources.list(kind)]

    def all_sources(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Sources by kind and name, with their configurations (``Source``)."""
        return [self.source(row["kind"], row["name"]) for row in self._engine.sources.list(kind)]

    def source(self, kind: str, name: str) -> dict[str, Any]:
        """A source with its configuration (``Source``). Raises :class:`NotFound`."""
        found = self._engine.schedules.get(name) if kind == SCHEDULE else self._engine.sources.get(kind, name)
        trigger = found.get("trigger")
        return self._source_row(found) | {
            "trigger": trigger["name"] if isinstance(trigger, Mapping) else None
        }

    def secrets(self) -> list[dict[str, Any]]:
        """The secrets with their users, also those that are used and not set (``Secret``). Never a value."""
        users = secret_users(self._database)
        known = {row["name"]: row for row in self._engine.secrets.list()}
        if self._scope is not None:
            users = self._users_of_scope(users)
            known = {name: row for name, row in known.items() if name in users}
        unset = {"version": None, "created_at": None, "updated_at": None}
        return [
            {"name": name, **known.get(name, unset), "used_by": users.get(name, [])}
            for name in sorted({*known, *users})
        ]

    def all_models(self) -> list[dict[str, Any]]:
        """The language models by name (``Model``)."""
        return self.models(self._engine.models.list())

    def model(self, name: str) -> dict[str, Any]:
        """A language model (``Model``). Raises :class:`NotFound`."""
        return self.models([self._engine.models.get(name)])[0]

    def models(self, found: Sequence[Found]) -> list[dict[str, Any]]:
        """Language models with their health and what was asked of them today (``Model``)."""
        use = call_listing.model_use(self._database)
        missing = set(self._engine.secrets.missing(sorted({row["secret"] for row in found if row["secret"]})))
        return [
            in_dollars(row, *_PRICES)
            | in_dollars(use.get(row["name"], _NO_USE), "cost_today")
            | {
                "health": {name: row[name] or empty for name, empty in _NO_HEALTH.items()},
                "secret_set": None if row["secret"] is None else row["secret"] not in missing,
            }
            for row in found
        ]

    def runs(self, found: Sequence[Found]) -> list[dict[str, Any]]:
        """The rows of a list of runs of agents (``RunRow``)."""
        return [in_dollars(row, "usd_spent", "usd_limit") for row in found]

    def _sees(self, function: str) -> bool:
        try:
            with self._database.read() as tx:
                functions.check_visible(tx, function, self._scope)
        except NotFound:
            return False
        return True

    def _triggers_of(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The triggers of each of these functions that are in the scope."""
        targets = self._engine.trigger_targets.by_function()
        seen = self._engine.triggers.visible_names(
            [trigger for name in names for trigger in targets.get(name, ())], self._scope
        )
        return {name: [one for one in targets.get(name, ()) if one in seen] for name in names}

    def _cycle(self, graph: cycles.Graph, name: str) -> dict[str, Any] | None:
        """The shortest cycle through a trigger, unless triggers of it are outside of the scope."""
        ring = graph.cycle(name) if name in graph.triggers else None
        if ring is None:
            return None
        names = {step.trigger for step in ring}
        return (
            cycle_of(ring, graph)
            if self._engine.triggers.visible_names(names, self._scope) == names
            else None
        )

    def _source_row(self, row: Found) -> dict[str, Any]:
        url = webhook_url(self._engine.settings, row["name"]) if row["kind"] == WEBHOOK else None
        lag = lag_seconds(row, self._database.clock.now())
        return {**row, "url": url, "about": _about(row["kind"], row["config"]), "lag_seconds": lag}

    def _users_of_scope(self, users: Mapping[str, list[dict[str, str]]]) -> dict[str, list[dict[str, str]]]:
        """The secrets that functions of the scope use, each with these functions."""
        names = {user["name"] for found in users.values() for user in found if user["kind"] == "function"}
        seen = functions.visible_names(self._database, names, self._scope)
        kept = {
            name: [user for user in found if user["kind"] == "function" and user["name"] in seen]
            for name, found in users.items()
        }
        return {name: found for name, found in kept.items() if found}


def in_dollars(row: Found, *fields: str) -> dict[str, Any]:
    """The row with these amounts in US dollars, where the engine counts whole nano-dollars. A limit that is none stays
    None.
    """
    return {**row, **{name: None if row[name] is None else row[name] / NANO for name in fields}}


def _about(kind: str, config: Mapping[str, Any]) -> str | None:
    if kind == WEBHOOK:
        return config["auth"]["type"]
    field = _ABOUT.get(kind)
    return None if field is None else config[field]
