"""The rules of composites, as pure functions of the waiting matches.

All times are event times: ``mark`` is the time before which all events are known, ``span`` the length of the window. A
rule runs on the matches before the mark in their order, and later again on those that it left and on new ones. The
combined result equals that of one run over all of them: the waiting matches are the only state.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Line
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from functory.engine.serialization import durations
from functory.triggers.flow_control.buffered_match import (
    BufferDecision,
    BufferMemory,
    DroppedMatch,
    Firing,
    SilencePeriod,
    WaitingMatch,
)

# Limits of one window, in events and bytes of their data: all of them may fire together.
MAX_EVENTS = 1000
MAX_BYTES = 10_485_760


@dataclass
class RuleResult:
    """The result of a rule: firings, dropped matches, and when it changes next without an event."""

    fired: list[Firing] = field(default_factory=list)
    dropped: list[DroppedMatch] = field(default_factory=list)
    next_at: datetime | None = None


class Rule(Protocol):
    """A rule. ``strict``: an event whose time is already decided is late."""

    @property
    def strict(self) -> bool: ...

    def run(self, line: Line[WaitingMatch], mark: datetime, span: timedelta) -> RuleResult:
        """Decide about ``line``, which is in order and before the mark."""
        ...


class Window:
    """The matches of a sliding window, each with the start of its time. A match that leaves the window is dropped."""

    def __init__(self, span: timedelta) -> None:
        self.result = RuleResult()
        self.span = span
        self._line: deque[tuple[datetime, WaitingMatch]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._line)

    @property
    def masks(self) -> Counter[int]:
        """Sets of parts, each with the number of matches for it."""
        return Counter(one.parts for _, one in self._line)

    def slide(self, at: datetime) -> None:
        """Drop the matches that are too old at that time."""
        self._expire(lambda start: start + self.span < at)

    def add(self, one: WaitingMatch, start: datetime) -> None:
        """Add a match; the oldest are dropped beyond the limits."""
        self._line.append((start, one))
        self._bytes += one.size
        while len(self._line) > 1 and (len(self._line) > MAX_EVENTS or self._bytes > MAX_BYTES):
            oldest = self._line.popleft()[1]
            self._bytes -= oldest.size
            why = f"more than {MAX_EVENTS} events or {MAX_BYTES} bytes wait in its window"
            self.result.dropped.append(DroppedMatch(oldest.id, "unmatched", why))

    def fire(self) -> None:
        """Fire all matches of the window; the last one is the deciding one."""
        self.result.fired.append(_firing([one for _, one in self._line]))
        self._line.clear()
        self._bytes = 0

    def end(self, mark: datetime) -> RuleResult:
        """The result when all events before the mark are known."""
        self._expire(lambda start: start + self.span < mark)
        self.result.next_at = min((start + self.span for start, _ in self._line), default=None)
        return self.result

    def _expire(self, over: Callable[[datetime], bool]) -> None:
        if not any(over(start) for start, _ in self._line):
            return
        why = f"nothing completed it within {durations.format_duration(self.span.total_seconds())}"
        self.result.dropped += [
            DroppedMatch(one.id, "unmatched", why) for start, one in self._line if over(start)
        ]
        self._line = deque((start, one) for start, one in self._line if not over(start))
        self._bytes = sum(one.size for _, one in self._line)


@dataclass(frozen=True)
class NOf:
    """``needed`` different parts of ``count``: the rules all, any and n_of."""

    needed: int
    count: int

    @property
    def strict(self) -> bool:
        return self.needed > 1

    def run(self, line: Line[WaitingMatch], mark: datetime, span: timedelta) -> RuleResult:
        return _slide(line, mark, span, lambda window: _reach(window.masks, self.count) >= self.needed)


@dataclass(frozen=True)
class Threshold:
    """``count`` events of its one part."""

    count: int

    @property
    def strict(self) -> bool:
        return self.count > 1

    def run(self, line: Line[WaitingMatch], mark: datetime, span: timedelta) -> RuleResult:
        return _slide(line, mark, span, lambda window: len(window) >= self.count)


def _slide(
    line: Line[WaitingMatch], mark: datetime, span: timedelta, complete: Callable[[Window], bool]
) -> RuleResult:
    """Slide a window over the matches; fire it whenever it is ``complete``."""
    window = Window(span)
    for one in line:
        window.slide(one.at)
        window.add(one, one.at)
        if complete(window):
            window.fire()
    return window.end(mark)


@dataclass(frozen=True)
class Sequence:
    """All ``count`` parts in their order; other events may come between them.

    Of all partial sequences that reach a part only the one that began last counts: it lasts longest. A match waits as
    long as a sequence through it may still be completed.
    """

    count: int
    strict: bool = True

    def run(self, line: Line[WaitingMatch], mark: datetime, span: timedelta) -> RuleResult:
        window = Window(span)
        begun: list[datetime | None] = [None] * self.count
        for one in line:
            window.slide(one.at)
            starts = self._step(begun, one, span)
            if not starts:
                why = "no event of the part before came before it"
                window.result.dropped.append(DroppedMatch(one.id, "unmatched", why))
                continue
            window.add(one, max(starts.values()))
            if self.count - 1 in starts:
                window.fire()
                begun = [None] * self.count
                continue
            for number, start in starts.items():
                begun[number] = max(start, begun[number] or start)
        return window.end(mark)

    def _step(self, begun: Line[datetime | None], one: WaitingMatch, span: timedelta) -> dict[int, datetime]:
        """The parts that the event reaches, and the start of each partial sequence."""
        found: dict[int, datetime] = {}
        for number in range(self.count):
            if not one.parts >> number & 1:
                continue
            start = one.at if number == 0 else begun[number - 1]
            if start is not None and one.at - start <= span:
                found[number] = start
        return found


# The parts of an absence, as bits.
OF, AFTER = 1, 2


@dataclass(frozen=True)
class Absence:
    """An event of part ``AFTER`` that none of part ``OF`` follows within the span."""

    strict: bool = True

    def run(self, line: Line[WaitingMatch], mark: datetime, span: timedelta) -> RuleResult:
        result = RuleResult()
        open_: list[WaitingMatch] = []
        for one in line:
            if one.parts & OF:
                result.fired += [_firing([each]) for each in open_ if each.at + span < one.at]
                answered = [each for each in open_ if each.at + span >= one.at]
                result.dropped += [
                    DroppedMatch(each.id, "awaited", f"the event {one.id} followed") for each in answered
                ]
                open_ = []
                if not one.parts & AFTER:
                    result.dropped.append(
                        DroppedMatch(one.id, "awaited", f"it followed the event {answered[-1].id}")
                        if answered
                        else DroppedMatch(one.id, "unmatched", "no event waited for it")
                    )
            if one.parts & AFTER:
                open_.append(one)
        result.fired += [_firing([each]) for each in open_ if each.at + span < mark]
        result.next_at = min((each.at + span for each in open_ if each.at + span >= mark), default=None)
        return result


@dataclass(frozen=True)
class Silence:
    """No event for the span; ``keyed``: for one of the keys that have had an event."""

    keyed: bool = False

    def decide(
        self, state: BufferMemory, line: Line[WaitingMatch], mark: datetime, span: timedelta
    ) -> BufferDecision:
        """Fire once for each silence; each event ends a silence and starts a new wait.

        A silent key is kept for another span, to recognize late events.
        """
        memory = state.memory or {}
        fired, last = parse_timestamp(memory.get("fired")), parse_timestamp(memory.get("last"))
        id_ = memory.get("id")
        outcome = BufferDecision(keep_buffer=True)

        def silent(base: datetime) -> None:
            nonlocal fired
            if fired is None or fired < base + span:
                fired = base + span
                outcome.silences.append(SilencePeriod(base, id_, fired))

        def base() -> datetime | None:
            known = [at for at in (last, None if self.keyed and last is None else state.armed_at) if at]
            return max(known, default=None)

        for one in line:
            if one.at >= mark:
                continue
            since = base()
            if since is not None and since + span < one.at:
                silent(since)
            if fired is not None and one.at <= fired:
                outcome.dropped.append(
                    DroppedMatch(one.id, "late", f"its silence was reported at {fired.isoformat()}")
                )
                continue
            outcome.dropped.append(DroppedMatch(one.id, "awaited", "it came in time"))
            last, id_ = max(last or one.at, one.at), one.id
        since = base()
        if since is not None and since + span < mark:
            silent(since)
        coming = [one.at for one in line if one.at >= mark]
        quiet = since is not None and fired is not None and fired >= since + span
        if since is not None and not quiet:
            coming.append(since + span)
        elif self.keyed and fired is not None:
            coming.append(fired + span)
            outcome.keep_buffer = mark <= fired + span
        outcome.due_at = min(coming, default=None)
        outcome.memory = {
            "last": None if last is None else last.isoformat(),
            "id": id_,
            "fired": None if fired is None else fired.isoformat(),
        }
        return outcome


def decide(
    rule: Rule | Silence,
    state: BufferMemory,
    waiting: Line[WaitingMatch],
    mark: datetime,
    span: timedelta,
    most: int,
) -> BufferDecision:
    """Decide about a buffer whose events before ``mark`` are all known. At most ``most`` matches keep waiting.

    The buffer's memory is ``to``: the mark of its last decision. Undecided matches and late ones are decided together,
    as if they had come in order.
    """
    line = sorted(waiting, key=lambda one: (one.at, one.id))
    if isinstance(rule, Silence):
        return rule.decide(state, line, mark, span)
    to = parse_timestamp((state.memory or {}).get("to"))
    outcome = BufferDecision()
    if rule.strict and to is not None:
        late = [one for one in line if one.fresh and one.at < to]
        why = f"everything before {to.isoformat()} has been decided"
        outcome.dropped += [DroppedMatch(one.id, "late", why) for one in late]
        gone = {one.id for one in late}
        line = [one for one in line if one.id not in gone]
    result = rule.run([one for one in line if one.at < mark], mark, span)
    taken = {id_ for firing in result.fired for id_ in firing.ids} | {one.id for one in result.dropped}
    left = [one for one in line if one.id not in taken]
    excess = left[:-most] if len(left) > most else []
    result.dropped += [
        DroppedMatch(one.id, "unmatched", f"more than {most} of its key wait") for one in excess
    ]
    outcome.fired = result.fired
    outcome.dropped += result.dropped
    if result.fired or result.dropped:
        to = mark if to is None else max(to, mark)
    coming = [one.at for one in left[len(excess) :] if one.at >= mark]
    if result.next_at is not None:
        coming.append(result.next_at)
    if not left and rule.strict and to is not None and mark <= to + span:
        outcome.keep_buffer = True
        coming.append(to + span)
    outcome.due_at = min(coming, default=None)
    outcome.memory = None if to is None else {"to": to.isoformat()}
    return outcome


def parse_timestamp(text: Any) -> datetime | None:
    """A time in the memory of a buffer (ISO 8601); None stays None."""
    return None if text is None else datetime.fromisoformat(text)


def _firing(window: Line[WaitingMatch]) -> Firing:
    return Firing(tuple(one.id for one in window), window[-1].id)


def _reach(masks: Mapping[int, int], parts: int) -> int:
    """The largest number of parts that the events can be assigned to, one each: a maximum bipartite matching.

    ``masks`` counts events by the set of parts that they match.
    """
    union = 0
    single = True
    for mask in masks:
        union |= mask
        single = single and mask.bit_count() == 1
    if single:
        return union.bit_count()
    events = [mask for mask, times in masks.items() for _ in range(min(times, mask.bit_count()))]
    holder: dict[int, int] = {}

    def place(event: int, seen: set[int]) -> bool:
        for part in range(parts):
            if events[event] >> part & 1 and part not in seen:
                seen.add(part)
                if part not in holder or place(holder[part], seen):
                    holder[part] = event
                    return True
        return False

    return sum(place(event, set()) for event in range(len(events)))
