"""The reader of the stream by its numbers, over a history in memory and with a clock that the test moves."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from functory.api.access.rights import OF_ROLE, Caller
from functory.api.stream import frames
from functory.api.stream.reader import Reader
from functory.api.stream.subscriber import Frame, Subscriber
from functory.api.stream.topics import parse
from functory.api.stream.window import LATEST_COMMIT, LONG_LOOK_EVERY
from functory.engine.access.scopes import Scope
from functory.engine.database.clock import ManualClock, lowest_id
from functory.engine.executions.changes import Changes, Recent, Touched
from functory.engine.telemetry import metrics

ADA = Caller("ada", "user", "admin", OF_ROLE["admin"])
TURN = 0.2


class History(Changes):
    """Events that are all decided, and no execution."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._ids: set[str] = set()

    def commit(self, number: int = 1, *, made_before: float = 0.0) -> list[str]:
        """Commit events whose ids were made some seconds before."""
        first = lowest_id(self._clock.now() - timedelta(seconds=made_before))[:-12]
        new = [f"{first}{len(self._ids) + n:012x}" for n in range(number)]
        self._ids.update(new)
        return new

    def recent(self, seconds: float, limit: int, since: datetime | None = None) -> Recent:
        begin = self._clock.now() - timedelta(seconds=seconds)
        return self.since(begin if since is None else min(begin, since), limit)

    def since(self, time: datetime, limit: int) -> Recent:
        found = sorted((id_ for id_ in self._ids if id_ >= lowest_id(time)), reverse=True)[:limit]
        return Recent(self._clock.now(), found, [], complete=len(found) < limit)

    def settled(self, ids: Collection[str]) -> list[str]:
        return []

    def touched(self, event_ids: Sequence[str], execution_ids: Sequence[str]) -> Touched:
        return Touched(list(event_ids), [], [])

    def events(self, ids: Sequence[str], scope: Scope = None) -> list[dict[str, Any]]:
        return [_row(id_, self._clock.now()) for id_ in sorted(ids)]

    def executions(self, ids: Sequence[str], scope: Scope = None) -> list[dict[str, Any]]:
        return []


def _row(id_: str, time: datetime) -> dict[str, Any]:
    """An event as the list has it."""
    numbers = {"depth": 0, "fired": 0, "suppressed": 0}
    texts = {"type": "order.created", "source": "/test", "state": "routed", "root_id": id_}
    absent = dict.fromkeys(("subject", "cause_execution_id", "extensions", "problem"))
    return {"id": id_, "time": time} | numbers | texts | absent


class Following:
    """A reader whose turns are taken by the test, and what its clients got."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.history = History(self.clock)
        self._reader = Reader(self.history, lambda _scope: {}, self.clock.monotonic, self._send)
        self._clients: list[Subscriber] = []
        self.got: list[tuple[str, Any]] = []

    def _send(self, _client: Subscriber, found: Sequence[Frame], _at: str) -> None:
        for one in found:
            event, data = one.data.decode().partition("event: ")[2].split("\ndata: ")
            self.got.append((event, json.loads(data)))

    def open(self, resume: str | None = None) -> None:
        """Let a client come."""
        client = Subscriber(ADA, parse("events"), resume, None, None)  # type: ignore[arg-type]
        self._reader.turn(self._clients, [client])
        self._clients.append(client)

    def turns(self, seconds: float) -> None:
        """Let time pass, turn by turn."""
        for _ in range(round(seconds / TURN)):
            self.clock.advance(TURN)
            self._reader.turn(self._clients, [])

    def ids(self) -> list[str]:
        """The ids of all rows that came, in their order."""
        return [row["id"] for event, data in self.got if event == "rows" for row in data["rows"]]


@pytest.fixture
def following() -> Following:
    return Following()


def late_rows() -> float:
    return metrics.registry.get_sample_value("functory_stream_late_rows_total") or 0.0


@pytest.mark.parametrize(
    ("made_before", "found_within", "counted"),
    [(4, TURN, 0), (6, LONG_LOOK_EVERY, 1), (LATEST_COMMIT, LONG_LOOK_EVERY, 1)],
)
def test_a_row_that_is_committed_late_is_sent_once_and_counted(
    following: Following, made_before: float, found_within: float, counted: int
) -> None:
    following.open()
    following.turns(2)
    before = late_rows()
    (late,) = following.history.commit(made_before=made_before)
    (usual,) = following.history.commit()
    following.turns(TURN)
    assert usual in following.ids()
    assert (late in following.ids()) == (found_within == TURN)
    following.turns(found_within)
    assert late in following.ids()
    following.turns(100)
    assert sorted(following.ids()) == sorted([late, usual])
    assert late_rows() - before == counted


@pytest.mark.parametrize(("missed", "is_sent"), [(2000, True), (2001, False)])
def test_a_client_gets_at_most_two_thousand_rows_that_it_has_missed(
    following: Following, missed: int, is_sent: bool
) -> None:
    at = frames.cursor(following.clock.now())
    following.clock.advance(60)
    ids = following.history.commit(missed)
    following.clock.advance(1)
    following.open(resume=at)
    assert following.ids() == (ids if is_sent else [])
    assert (("resync", {"topic": "events"}) in following.got) == (not is_sent)


@pytest.mark.parametrize(("seconds", "is_continued"), [(599, True), (601, False)])
def test_a_client_that_was_away_for_more_than_ten_minutes_reads_anew(
    following: Following, seconds: float, is_continued: bool
) -> None:
    at = frames.cursor(following.clock.now())
    following.clock.advance(seconds)
    following.open(resume=at)
    assert following.got == ([] if is_continued else [("resync", {"topic": "events"})])


def test_of_five_thousand_rows_in_a_second_the_newest_come_and_the_others_are_counted(
    following: Following,
) -> None:
    following.open()
    following.turns(TURN)
    ids = following.history.commit(5000)
    following.turns(1)
    assert following.ids() == ids[-500:]
    assert [data for event, data in following.got if event == "skipped"] == [{"topic": "events", "n": 4500}]
