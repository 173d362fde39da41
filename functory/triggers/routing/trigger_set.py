"""The compiled triggers of a router, indexed by their patterns, and refreshed when a trigger has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import structlog
from msgspec import structs

from functory.engine.database.connection import Tx
from functory.engine.firings import trigger_store
from functory.engine.flow_control.trigger_row import TriggerRow
from functory.triggers.definition import CompiledTrigger, compile_definition
from functory.triggers.flow_control.buffered_match import BufferPolicy
from functory.triggers.index import Index
from functory.triggers.patterns import Pattern, flatten
from functory.triggers.patterns.pattern import MAX_TESTS, MAX_TESTS_OF_ALL

log = structlog.get_logger("functory.router")

Role = Literal["on", "part", "cancel"]


@dataclass(frozen=True)
class IndexedPattern:
    """A pattern of a trigger and its role: ``on`` fires the trigger, ``part`` is part ``number`` of a composite,
    ``cancel`` is cancel-on rule ``number``."""

    compiled: CompiledTrigger
    role: Role
    number: int
    pattern: Pattern

    @property
    def key(self) -> str:
        """The name in the index."""
        return self.compiled.id if self.role == "on" else f"{self.compiled.id}/{self.role}/{self.number}"


@dataclass
class TriggerMatch:
    """A trigger that an event matches: by the pattern that fires it or by these ``parts`` of a composite (``fires``),
    and by these ``cancel_rules``. Numbers are in ascending order. With a ``problem`` it is not known whether a pattern
    that fires it matches."""

    compiled: CompiledTrigger
    fires: bool = False
    problem: str | None = None
    parts: list[int] = field(default_factory=list)
    cancel_rules: list[int] = field(default_factory=list)


class TriggerSet:
    """Compiled triggers of one version of the trigger set."""

    def __init__(self) -> None:
        self.version = -1
        self._compiled: dict[str, CompiledTrigger] = {}
        self._patterns: dict[str, IndexedPattern] = {}
        self._keys: dict[str, list[str]] = {}
        self._index = Index()
        # Those whose tests are counted for each event are not in the index.
        self._costly: dict[str, IndexedPattern] = {}
        # Events by the number of patterns that were tested for them.
        self._tested: Counter[int] = Counter()

    def refresh(self, tx: Tx, version: int | None = None) -> None:
        """Load and compile what changed since the last time, and only that.

        ``version`` is the set's version as this transaction has read it; it is read if not given.
        """
        version = trigger_store.set_version(tx) if version is None else version
        if version == self.version:
            return
        for row in trigger_store.changed_since(tx, self.version):
            self._update(row)
        self.version = version

    def _update(self, row: TriggerRow) -> None:
        """Replace a trigger by its current version."""
        compiled = None
        if row.state != "deleted":
            try:
                compiled = compile_definition(row)
                # Its text is not needed any more, and is larger than what was made of it.
                compiled = replace(compiled, row=structs.replace(row, definition={}))
            except Exception as error:
                # It was valid when it was saved; it must not stop the other triggers.
                log.error(
                    "trigger cannot be compiled",
                    trigger=row.name,
                    version=row.version,
                    error=str(error),
                )
        self._replace(row.id, compiled)

    def add(self, compiled: CompiledTrigger) -> None:
        """Add a trigger, in the place of another version of it."""
        self._replace(compiled.id, compiled)

    def _replace(self, id_: str, compiled: CompiledTrigger | None) -> None:
        if compiled is None:
            patterns: list[IndexedPattern] = []
            self._compiled.pop(id_, None)
        else:
            patterns = indexed_patterns(compiled)
            self._compiled[id_] = compiled
        for key in self._keys.pop(id_, ()):
            if all(pattern.key != key for pattern in patterns):
                del self._patterns[key]
                self._costly.pop(key, None)
                self._index.discard(key)
        for pattern in patterns:
            self._patterns[pattern.key] = pattern
            if pattern.pattern.is_costly:
                self._index.discard(pattern.key)
                self._costly[pattern.key] = pattern
            else:
                self._costly.pop(pattern.key, None)
                self._index.add(pattern.key, pattern.pattern)
        if patterns:
            self._keys[id_] = [pattern.key for pattern in patterns]

    def matching(self, event: Mapping[str, Any]) -> list[TriggerMatch]:
        """The triggers that an event (its envelope) matches, in the order of their names."""
        matches: dict[str, TriggerMatch] = {}
        keys = self._index.match(event)
        self._tested[self._index.tested] += 1
        if self._costly:
            keys = [*keys, *self._match_costly(event, matches)]
        for key in keys:
            pattern = self._patterns[key]
            match = matches.setdefault(pattern.compiled.id, TriggerMatch(pattern.compiled))
            if pattern.role == "cancel":
                match.cancel_rules.append(pattern.number)
                continue
            match.fires = True
            if pattern.role == "part":
                match.parts.append(pattern.number)
        for match in matches.values():
            match.parts.sort()
            match.cancel_rules.sort()
        return sorted(matches.values(), key=lambda match: match.compiled.name)

    def _match_costly(self, event: Mapping[str, Any], matches: dict[str, TriggerMatch]) -> Iterator[str]:
        """The keys of the costly patterns that an event matches. One that would take too many tests puts its problem
        into ``matches``, and cancels nothing. Those with the fewest tests are first: others take no share of theirs.
        """
        flat = flatten(event)
        left = MAX_TESTS_OF_ALL
        counted = ((pattern.pattern.count_tests(flat), key) for key, pattern in self._costly.items())
        for tests, key in sorted(counted):
            pattern = self._costly[key]
            problem = None
            if min(tests, MAX_TESTS) <= left:
                answer = pattern.pattern.matches_within_bound(flat)
                left -= min(tests, MAX_TESTS)
                if answer:
                    yield key
                elif answer is None:
                    problem = f"the pattern would make more than {MAX_TESTS:,} tests of this event's values"
            else:
                problem = f"the patterns of all triggers would make more than {MAX_TESTS_OF_ALL:,} tests of this event"
            if problem is not None and pattern.role != "cancel":
                match = matches.setdefault(pattern.compiled.id, TriggerMatch(pattern.compiled))
                match.problem = problem
            elif problem is not None:
                log.warning("cancel-on pattern takes too many tests", trigger=pattern.compiled.name)

    def take_tested(self) -> Counter[int]:
        """Return the numbers of events since the last call, by the number of patterns that were tested for them."""
        tested, self._tested = self._tested, Counter()
        return tested

    def get(self, trigger_id: str) -> CompiledTrigger | None:
        """A trigger as of the last refresh."""
        return self._compiled.get(trigger_id)

    def buffer_policy(self, trigger_id: str) -> BufferPolicy:
        """The control that the buffered matches of a trigger wait for; it must have one as of the last refresh."""
        policy = self._compiled[trigger_id].buffer_policy
        assert policy is not None
        return policy

    def __iter__(self) -> Iterator[CompiledTrigger]:
        return iter(self._compiled.values())

    def __len__(self) -> int:
        return len(self._compiled)


def indexed_patterns(compiled: CompiledTrigger) -> list[IndexedPattern]:
    """All patterns of a trigger: those that fire it, the parts of a composite, and the rules of cancel-on."""
    patterns = [] if compiled.pattern is None else [IndexedPattern(compiled, "on", 0, compiled.pattern)]
    if compiled.composite is not None:
        parts = enumerate(compiled.composite.parts)
        patterns = [IndexedPattern(compiled, "part", number, part.pattern) for number, part in parts]
    rules = enumerate(compiled.flow.cancel_on)
    return [*patterns, *(IndexedPattern(compiled, "cancel", number, rule.pattern) for number, rule in rules)]
