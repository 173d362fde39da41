"""What triggers decided about past events: decide again in a backtest, and fire once what was suppressed.

:class:`functory.client.functory.Functory` composes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from functory.engine.database import prune_watermarks
from functory.engine.database.connection import Database
from functory.engine.errors import NotFound
from functory.engine.events.store import Events
from functory.engine.executions import root_budget
from functory.engine.executions.lineage import Lineage
from functory.engine.firings.suppressed_matches import MatchFilter, Resumed, SuppressedMatches
from functory.engine.firings.suppressions import Suppressions
from functory.engine.firings.trigger_store import Triggers
from functory.engine.functions import dependencies, versions
from functory.engine.serialization import json_codec
from functory.engine.settings import Settings
from functory.triggers import definition
from functory.triggers.analysis import backtest


class TriggerHistory:
    """The stored events and suppressed matches of the triggers of one database."""

    def __init__(self, database: Database, events: Events, triggers: Triggers, settings: Settings) -> None:
        self._database = database
        self._events = events
        self._triggers = triggers
        self._settings = settings

    def backtest(
        self,
        name: str,
        draft: Mapping[str, Any] | None = None,
        *,
        since: datetime,
        progress: Callable[[int], None] | None = None,
    ) -> backtest.Comparison:
        """Decide again on the events since ``since``, for trigger ``name`` or a ``draft`` definition of it.

        Flow control decides too, at the times at which the events were routed. Nothing is run. With both, the result
        holds the difference. Raises :class:`NotFound`, :class:`Invalid`.
        """
        tried, other = self._versions(name, draft)
        references = [dependencies.parse_reference(one.function) for one in (tried, other) if one is not None]
        with self._database.read() as tx:
            targets = versions.load_many(tx, references)
            pruned_until = prune_watermarks.read(tx)

        def budget_use(least: int, trigger_id: str) -> dict[str, int]:
            with self._database.read() as tx:
                return root_budget.used_by_others(tx, least, trigger_id)

        return backtest.run(
            tried,
            other,
            self._events.scan(since, backtest.possible_event_types(tried, other)),
            self._settings,
            targets=targets,
            since=since,
            until=self._database.clock.now(),
            pruned_until=pruned_until,
            budget_use=budget_use,
            progress=progress,
        )

    def count_events(self, name: str, draft: Mapping[str, Any] | None = None, *, since: datetime) -> int:
        """Return the number of events that :meth:`backtest` looks at."""
        return self._events.count(since, backtest.possible_event_types(*self._versions(name, draft)))

    def _versions(
        self, name: str, draft: Mapping[str, Any] | None
    ) -> tuple[definition.CompiledTrigger, definition.CompiledTrigger | None]:
        """Return the version to try, and the stored one that it is compared with: None without a draft."""
        try:
            known = self._triggers.get(name)
        except NotFound:
            if draft is None:
                raise
            known = None
        stored = definition.compile_definition(known) if known is not None else None
        if draft is None:
            assert stored is not None
            return stored, None
        row = dict(known or {"id": "", "version": 0, "state": "enabled", "origin": "user"})
        tried = definition.compile_definition(row | {"name": name, "definition": definition.parse(draft)})
        return tried, stored

    def replay(self, trigger: str, event_id: str, *, author: str) -> dict[str, Any]:
        """Fire once a match that a guard, a pause or a wrong input suppressed. Returns the execution's row.

        Raises :class:`NotFound`, :class:`Conflict`.
        """
        suppressions = Suppressions(self._database)
        stored, event = suppressions.get(trigger, event_id)
        template = definition.SingleEventInput(_compile(trigger, stored), event)
        return suppressions.replay(trigger, event_id, template, author=author)

    def resume(
        self,
        *,
        trigger: str | None,
        root: str | None,
        reasons: Sequence[str],
        dry_run: bool,
        author: str,
    ) -> Resumed:
        """Fire once each match that was suppressed: of a trigger, of a root, for these reasons.

        ``root`` is the id of an event or execution in its tree. ``dry_run`` only counts. Raises :class:`NotFound`,
        :class:`Invalid`.
        """
        root_id = None if root is None else Lineage(self._database).tree(root).root_id
        which = MatchFilter(trigger, root_id, tuple(reasons))
        matches = SuppressedMatches(self._database)
        if dry_run:
            return Resumed(matches.count(which))
        compiled: dict[str, definition.CompiledTrigger] = {}

        def make_template(
            name: str, stored: Mapping[str, Any], event: Mapping[str, Any]
        ) -> definition.SingleEventInput:
            key = json_codec.digest([name, stored])
            if key not in compiled:
                compiled[key] = _compile(name, stored)
            return definition.SingleEventInput(compiled[key], event)

        return matches.resume(which, make_template, author=author)


def _compile(name: str, stored: Mapping[str, Any]) -> definition.CompiledTrigger:
    return definition.compile_definition({"id": "", "name": name, "version": 0, "definition": stored})
