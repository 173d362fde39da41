"""The rules of composites, as pure functions of the matches that wait.

Everything is in event time: ``mark`` is the moment up to which all events are known, ``span`` the length of the
window. A rule is asked with the matches up to the mark in their order, and again, later, with those that it
left and new ones; what it says of the whole is the same as if it had been asked once (the state between is
nothing but the matches that wait).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Line
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from engine import durations
from triggers.flow.waiting import Dropped, Firing, Outcome, Quiet, State, Waiting


@dataclass
class Said:
    """What a rule says: what fires, what is dropped, and the moment at which time alone changes something."""

    fired: list[Firing] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    next: datetime | None = None

    def expire(self, gone: Iterable[Waiting], span: timedelta) -> None:
        """These have waited in vain."""
        why = f"nothing completed it within {durations.text(span.total_seconds())}"
        self.dropped += [Dropped(one.id, "unmatched", why) for one in gone]


class Rule(Protocol):
    """``strict``: an event for a moment that has been decided about comes too late."""

    @property
    def strict(self) -> bool: ...

    def run(self, line: Line[Waiting], mark: datetime, span: timedelta) -> Said:
        """Decide about ``line``, which is in order and not beyond the mark."""
        ...


@dataclass(frozen=True)
class Several:
    """``needed`` different parts of ``count``: all, any, n of."""

    needed: int
    count: int

    @property
    def strict(self) -> bool:
        return self.needed > 1

    def run(self, line: Line[Waiting], mark: datetime, span: timedelta) -> Said:
        said = Said()
        window: list[Waiting] = []
        for one in line:
            window = _slide(window, one.at - span, said, span)
            window.append(one)
            if _reach(Counter(each.parts for each in window), self.count) >= self.needed:
                said.fired.append(_firing(window))
                window = []
        return _rest(window, mark, span, said)


@dataclass(frozen=True)
class Threshold:
    """``count`` events of the one part."""

    count: int

    @property
    def strict(self) -> bool:
        return self.count > 1

    def run(self, line: Line[Waiting], mark: datetime, span: timedelta) -> Said:
        said = Said()
        window: list[Waiting] = []
        for one in line:
            window = _slide(window, one.at - span, said, span)
            window.append(one)
            if len(window) == self.count:
                said.fired.append(_firing(window))
                window = []
        return _rest(window, mark, span, said)


@dataclass(frozen=True)
class Sequence:
    """All ``count`` parts in their order; what comes between them does not matter.

    Of all ways to the parts so far only the one that began last counts: it lasts longest.
    """

    count: int
    strict: bool = True

    def run(self, line: Line[Waiting], mark: datetime, span: timedelta) -> Said:
        said = Said()
        window: list[tuple[datetime, Waiting]] = []  # with the moment at which its way began
        begun: list[datetime | None] = [None] * self.count
        for one in line:
            said.expire((each for start, each in window if start < one.at - span), span)
            window = [(start, each) for start, each in window if start >= one.at - span]
            starts = self._step(begun, one, span)
            if not starts:
                why = "no event of the part before came before it"
                said.dropped.append(Dropped(one.id, "unmatched", why))
                continue
            window.append((max(starts.values()), one))
            if self.count - 1 in starts:
                said.fired.append(_firing([each for _, each in window]))
                window, begun = [], [None] * self.count
                continue
            for number, start in starts.items():
                begun[number] = max(start, begun[number] or start)
        said.expire((each for start, each in window if start + span <= mark), span)
        said.next = min((start + span for start, _ in window if start + span > mark), default=None)
        return said

    def _step(self, begun: Line[datetime | None], one: Waiting, span: timedelta) -> dict[int, datetime]:
        """The parts that the event takes the sequence to, and when each of these ways began."""
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

    def run(self, line: Line[Waiting], mark: datetime, span: timedelta) -> Said:
        said = Said()
        open_: list[Waiting] = []
        for one in line:
            if one.parts & OF:
                said.fired += [_firing([each]) for each in open_ if each.at + span < one.at]
                answered = [each for each in open_ if each.at + span >= one.at]
                said.dropped += [
                    Dropped(each.id, "awaited", f"the event {one.id} followed") for each in answered
                ]
                open_ = []
                if not one.parts & AFTER:
                    said.dropped.append(
                        Dropped(one.id, "awaited", f"it followed the event {answered[-1].id}")
                        if answered
                        else Dropped(one.id, "unmatched", "no event waited for it")
                    )
            if one.parts & AFTER:
                open_.append(one)
        said.fired += [_firing([each]) for each in open_ if each.at + span <= mark]
        said.next = min((each.at + span for each in open_ if each.at + span > mark), default=None)
        return said


@dataclass(frozen=True)
class Silence:
    """Nothing at all for the span; ``keyed``: for one of the keys that have come."""

    keyed: bool = False

    def decide(self, state: State, line: Line[Waiting], mark: datetime, span: timedelta) -> Outcome:
        """Fire once for each silence; each event ends one and begins the wait anew.

        A silent key is kept for another span, to know what comes too late.
        """
        memory = state.memory or {}
        fired, last, id_ = read_moment(memory.get("fired")), read_moment(memory.get("last")), memory.get("id")
        outcome = Outcome(keep=True)

        def silent(base: datetime) -> None:
            nonlocal fired
            if fired is None or fired < base + span:
                fired = base + span
                outcome.quiet.append(Quiet(base, id_, fired))

        def base() -> datetime | None:
            known = [
                moment for moment in (last, None if self.keyed and last is None else state.armed_at) if moment
            ]
            return max(known, default=None)

        for one in line:
            if one.at > mark:
                continue
            since = base()
            if since is not None and since + span < one.at:
                silent(since)
            if fired is not None and one.at <= fired:
                outcome.dropped.append(
                    Dropped(one.id, "late", f"its silence was told as of {fired.isoformat()}")
                )
                continue
            outcome.dropped.append(Dropped(one.id, "awaited", "it came in time"))
            last, id_ = max(last or one.at, one.at), one.id
        since = base()
        if since is not None and since + span <= mark:
            silent(since)
        coming = [one.at for one in line if one.at > mark]
        quiet = since is not None and fired is not None and fired >= since + span
        if since is not None and not quiet:
            coming.append(since + span)
        elif self.keyed and fired is not None:
            coming.append(fired + span)
            outcome.keep = mark < fired + span
        outcome.due = min(coming, default=None)
        outcome.memory = {
            "last": None if last is None else last.isoformat(),
            "id": id_,
            "fired": None if fired is None else fired.isoformat(),
        }
        return outcome


def decide(
    rule: Rule | Silence, state: State, waiting: Line[Waiting], mark: datetime, span: timedelta, most: int
) -> Outcome:
    """Decide about a bucket of which everything up to ``mark`` is known. At most ``most`` go on waiting.

    What it remembers is ``to``: the mark as of its last decision. What has come since without a decision is judged
    together with what comes late, as if it had come in order.
    """
    line = sorted(waiting, key=lambda one: (one.at, one.id))
    if isinstance(rule, Silence):
        return rule.decide(state, line, mark, span)
    to = read_moment((state.memory or {}).get("to"))
    outcome = Outcome()
    if rule.strict and to is not None:
        late = [one for one in line if one.fresh and one.at <= to]
        why = f"everything up to {to.isoformat()} has been decided"
        outcome.dropped += [Dropped(one.id, "late", why) for one in late]
        gone = {one.id for one in late}
        line = [one for one in line if one.id not in gone]
    said = rule.run([one for one in line if one.at <= mark], mark, span)
    taken = {id_ for firing in said.fired for id_ in firing.ids} | {one.id for one in said.dropped}
    left = [one for one in line if one.id not in taken]
    crowd = left[:-most] if len(left) > most else []
    said.dropped += [Dropped(one.id, "unmatched", f"more than {most} of its key wait") for one in crowd]
    outcome.fired = said.fired
    outcome.dropped += said.dropped
    if said.fired or said.dropped:
        to = mark if to is None else max(to, mark)
    coming = [one.at for one in left[len(crowd) :] if one.at > mark]
    if said.next is not None:
        coming.append(said.next)
    if not left and rule.strict and to is not None and mark < to + span:
        outcome.keep = True
        coming.append(to + span)
    outcome.due = min(coming, default=None)
    outcome.memory = None if to is None else {"to": to.isoformat()}
    return outcome


def read_moment(text: Any) -> datetime | None:
    """A moment as a bucket remembers it."""
    return None if text is None else datetime.fromisoformat(text)


def _firing(window: Line[Waiting]) -> Firing:
    return Firing(tuple(one.id for one in window), window[-1].id)


def _slide(window: Line[Waiting], least: datetime, said: Said, span: timedelta) -> list[Waiting]:
    """The window without what is older than ``least``."""
    said.expire((one for one in window if one.at < least), span)
    return [one for one in window if one.at >= least]


def _rest(window: Line[Waiting], mark: datetime, span: timedelta, said: Said) -> Said:
    """Drop what has been too long in a window that is not complete."""
    said.expire((one for one in window if one.at + span <= mark), span)
    said.next = min((one.at + span for one in window if one.at + span > mark), default=None)
    return said


def _reach(masks: Mapping[int, int], parts: int) -> int:
    """To how many different parts the events can be assigned, one each: a maximum matching (by augmenting paths).

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
