"""What triggers decided about past events: decide again in a backtest, and fire once what was suppressed.

:class:`functory.client.functory.Functory` composes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from functory.engine.database import audit, prune_watermarks
from functory.engine.database.connection import Database, Tx
from functory.engine.errors import FunctoryError, NotFound
from functory.engine.events.envelope import envelope
from functory.engine.events.store import Events
from functory.engine.executions import root_budget
from functory.engine.executions.lineage import Lineage
from functory.engine.firings import unfired_matches
from functory.engine.firings.admission import unavailable
from functory.engine.firings.suppressed_matches import (
    MatchFilter,
    ResumableMatch,
    Resumed,
    SuppressedMatches,
)
from functory.engine.firings.trigger_store import Triggers
from functory.engine.firings.unfired_matches import LateStart, UnfiredMatch
from functory.engine.flow_control import trigger_row
from functory.engine.flow_control.trigger_row import TriggerRow
from functory.engine.functions import dependencies, versions
from functory.engine.functions.version_row import StartVersion
from functory.engine.serialization import json_codec
from functory.engine.settings import Settings
from functory.triggers import definition
from functory.triggers.analysis import backtest
from functory.triggers.routing.inputs import check_input


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
            targets = versions.load_starts(tx, references)
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
        stored = definition.compile_definition(trigger_row.from_mapping(known)) if known is not None else None
        if draft is None:
            assert stored is not None
            return stored, None
        row = dict(known or {"id": "", "version": 0, "state": "enabled", "origin": "user"})
        tried = definition.compile_definition(
            trigger_row.from_mapping(row | {"name": name, "definition": definition.parse(draft)})
        )
        return tried, stored

    def replay(self, trigger: str, event_id: str, *, author: str) -> dict[str, Any]:
        """Fire once a match that a guard, a pause or a wrong input suppressed. Returns the execution's row.

        Raises :class:`NotFound`, :class:`Conflict`.
        """
        with self._database.write() as tx:
            return _start(tx, unfired_matches.lock_suppressed(tx, trigger, event_id), "firing.replay", author)

    def fire(self, row: TriggerRow, event_id: str, *, author: str) -> dict[str, Any]:
        """Start the execution of a trigger (its ``row``) for an event that it did not fire for, once. Returns the
        execution's row.

        A pause and shadow mode do not apply to it. The caller has checked that the event matches. Raises
        :class:`NotFound`, :class:`Conflict`, :class:`Invalid`.
        """
        with self._database.write() as tx:
            return _start(tx, unfired_matches.lock_event(tx, row, event_id), "trigger.fire", author)

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

        ``root`` is the id of an event or execution in its tree. ``dry_run`` only counts. A match whose input cannot be
        made is counted as failed, and the others go on. Raises :class:`NotFound`, :class:`Invalid`.
        """
        root_id = None if root is None else Lineage(self._database).tree(root).root_id
        which = MatchFilter(trigger, root_id, tuple(reasons))
        matches = SuppressedMatches(self._database)
        if dry_run:
            return Resumed(matches.count(which))
        done = Resumed()
        compiled: dict[str, definition.CompiledTrigger] = {}
        for page in matches.pages(which):
            with self._database.write() as tx:
                started = unfired_matches.start_once(tx, list(_ready(tx, page, compiled, done)))
                for name, count in sorted(Counter(match.trigger for match, _ in started).items()):
                    audit.append(tx, author, "firing.resume", name, {"matches": count})
                done.counts.update((match.trigger, match.reason or "") for match, _ in started)
        return done


def _start(tx: Tx, match: UnfiredMatch, action: str, author: str) -> dict[str, Any]:
    version = versions.load_reference(tx, match.definition["function"])
    input_ = _render(_compile(match), match, version)
    check_input(version, input_)
    new = unfired_matches.start_one(tx, LateStart(match, version, input_))
    about = {"event_id": match.event.id, "execution_id": new["id"]}
    audit.append(tx, author, action, match.trigger, about)
    return new


def _ready(
    tx: Tx,
    page: Sequence[ResumableMatch],
    compiled: dict[str, definition.CompiledTrigger],
    done: Resumed,
) -> Iterator[LateStart]:
    """Yield those matches of a page that can start, and count the others in ``done``. ``compiled`` keeps definitions,
    by their digest.
    """
    events = unfired_matches.lock_events(tx, {row.event_id for row in page})
    found = versions.load_starts(
        tx, [dependencies.parse_reference(row.definition["function"]) for row in page]
    )
    for row in page:
        event = events.get(row.event_id)
        if event is None:
            done.add_failed(row, "its event was pruned")
            continue
        match = UnfiredMatch(row.trigger_id, row.trigger, row.definition, event, row.reason)
        function = match.definition["function"]
        version = found.get(dependencies.parse_reference(function))
        if version is None or version.state != "enabled":
            done.add_failed(row, unavailable(function, version))
            continue
        key = json_codec.digest([match.trigger, match.definition])
        try:
            if key not in compiled:
                compiled[key] = _compile(match)
            yield LateStart(match, version, _render(compiled[key], match, version))
        except FunctoryError as error:
            done.add_failed(row, str(error))


def _render(
    compiled: definition.CompiledTrigger, match: UnfiredMatch, version: StartVersion
) -> dict[str, Any]:
    return definition.SingleEventInput(compiled, envelope(match.event)).render(version.parameters)


def _compile(match: UnfiredMatch) -> definition.CompiledTrigger:
    return definition.compile_definition(TriggerRow("", match.trigger, 0, match.definition))
