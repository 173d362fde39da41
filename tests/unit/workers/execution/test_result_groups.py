"""Results are stored in groups, none waits long, and a claim is held until its result is stored."""

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from functory.engine.access.grants import NOTHING, Grants
from functory.engine.errors import Stale, Unavailable
from functory.engine.executions.retry_or_dead import AttemptResult, NextState
from functory.workers.execution import result_groups
from functory.workers.execution.result_groups import GROUP_SIZE, ResultGroups
from functory.workers.redaction.redactor import Redactor
from tests.support.execution_rows import execution_row

SUCCEEDED = NextState("succeeded", "execution.succeeded", 0)
# Nothing here takes that long.
PATIENCE = 10.0


class Claims:
    """The claims that are held."""

    def __init__(self) -> None:
        self.held: set[str] = set()

    def remove(self, claims: Any) -> None:
        self.held -= {running.claim.id for running in claims}


class Store:
    """What is stored, group by group; answers are taken from `answers` first."""

    def __init__(self, claims: Claims) -> None:
        self.groups: list[list[str]] = []
        self.alone: list[tuple[str, str]] = []
        self.answers: list[Any] = []
        self.stored = threading.Event()
        self.held_meanwhile: list[set[str]] = []
        self._claims = claims

    def finish_many(self, results: Any) -> list[Any]:
        self.held_meanwhile.append(set(self._claims.held))
        answer = self.answers.pop(0) if self.answers else [SUCCEEDED] * len(results)
        if isinstance(answer, Exception):
            raise answer
        self.groups.append([claim.id for claim, _ in results])
        self.stored.set()
        return answer

    def finish(self, claim: Any, result: AttemptResult) -> NextState:
        self.alone.append((claim.id, result.outcome))
        return NextState("queued", "execution.attempt_failed", 0)


class Worker:
    """The results of one worker process with its store."""

    def __init__(self) -> None:
        self.claims = Claims()
        self.store = Store(self.claims)
        self.closed = threading.Event()
        self.groups = ResultGroups(self.store, self.claims, self.closed)  # type: ignore[arg-type]

    def message(self, count: int, grants: Grants = NOTHING) -> tuple[Any, list[Any]]:
        """A group and its claims."""
        claims = [
            SimpleNamespace(
                claim=SimpleNamespace(
                    id=f"e{n}", fence=1, grants=grants, row=execution_row(id=f"e{n}", root_id=f"e{n}")
                ),
                redact=Redactor(),
            )
            for n in range(count)
        ]
        self.claims.held |= {one.claim.id for one in claims}
        return self.groups.group(count), claims


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.groups.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No group is stored because its first result has waited, however slow the machine is."""
    monkeypatch.setattr(result_groups, "GROUP_SECONDS", 3600.0)


def add(group: Any, claims: list[Any]) -> None:
    for running in claims:
        group.add(running, AttemptResult("succeeded"))


def test_a_lone_result_is_stored_when_it_is_added(worker: Worker) -> None:
    before = threading.active_count()
    group, claims = worker.message(1)
    add(group, claims)
    assert worker.store.groups == [["e0"]]
    assert not worker.claims.held
    assert threading.active_count() == before


def test_the_results_of_a_message_are_stored_together(worker: Worker, patient: None) -> None:
    group, claims = worker.message(GROUP_SIZE)
    add(group, claims)
    assert worker.store.groups == [[f"e{n}" for n in range(GROUP_SIZE)]]


def test_a_full_group_is_stored_although_more_come(worker: Worker, patient: None) -> None:
    group, claims = worker.message(2 * GROUP_SIZE + 1)
    add(group, claims[:GROUP_SIZE])
    assert sum(map(len, worker.store.groups)) == GROUP_SIZE
    assert worker.claims.held == {one.claim.id for one in claims[GROUP_SIZE:]}


def test_a_result_does_not_wait_for_a_slow_execution_of_its_message(worker: Worker) -> None:
    group, claims = worker.message(3)
    add(group, claims[:1])
    assert worker.store.stored.wait(PATIENCE)
    add(group, claims[1:])
    assert worker.store.groups == [["e0"], ["e1", "e2"]]


def test_a_dropped_claim_completes_the_group_too(worker: Worker) -> None:
    group, claims = worker.message(2)
    add(group, claims[:1])
    group.drop(claims[1])
    assert worker.store.groups == [["e0"]]
    assert not worker.claims.held


def test_a_result_of_code_that_may_reach_outside_is_stored_at_once(worker: Worker) -> None:
    group, claims = worker.message(3, Grants(hosts=("example.com",)))
    add(group, claims[:1])
    assert worker.store.groups == [["e0"]]


def test_a_claim_is_held_until_its_result_is_stored(worker: Worker) -> None:
    worker.store.answers = [Unavailable("no database"), Unavailable("no database")]
    group, claims = worker.message(2)
    add(group, claims)
    assert worker.store.groups == [["e0", "e1"]]
    assert worker.store.held_meanwhile == [{"e0", "e1"}] * 3
    assert not worker.claims.held


def test_a_closed_worker_waits_for_no_database(worker: Worker) -> None:
    worker.store.answers = [Unavailable("no database")]
    worker.closed.set()
    group, claims = worker.message(1)
    add(group, claims)
    assert worker.store.groups == []
    assert not worker.claims.held


def test_a_refused_result_is_no_matter_of_the_others(worker: Worker) -> None:
    worker.store.answers = [[SUCCEEDED, Stale("zombie"), ValueError("too large"), SUCCEEDED]]
    group, claims = worker.message(4)
    add(group, claims)
    assert worker.store.alone == [("e2", "crashed")]
    assert not worker.claims.held


def test_a_result_that_comes_while_others_are_stored_is_stored_by_the_time_the_message_is_done(
    worker: Worker,
) -> None:
    group, claims = worker.message(40)
    for running in claims:
        group.add(running, AttemptResult("succeeded"))
        time.sleep(0.002)
    assert sorted(id_ for ids in worker.store.groups for id_ in ids) == sorted(f"e{n}" for n in range(40))
    assert 1 < len(worker.store.groups) < 40


def test_a_result_for_later_never_makes_its_caller_wait_for_the_database(worker: Worker) -> None:
    callers: set[str] = set()
    finish_many = worker.store.finish_many

    def noted(results: Any) -> Any:
        callers.add(threading.current_thread().name)
        return finish_many(results)

    worker.store.finish_many = noted  # type: ignore[method-assign]
    group, claims = worker.message(GROUP_SIZE + 2)
    for running in claims:
        group.add(running, AttemptResult("succeeded"), later=True)
    assert worker.store.stored.wait(PATIENCE)
    assert callers == {"functory-results"}
    group.settle()
    assert sum(map(len, worker.store.groups)) == GROUP_SIZE + 2
    assert not worker.claims.held


def test_nothing_is_settled_before_the_message_is_done(worker: Worker) -> None:
    group, claims = worker.message(2)
    group.drop(claims[0], later=True)
    group.settle()
    assert worker.store.groups == []
    group.add(claims[1], AttemptResult("succeeded"), later=True)
    group.settle()
    assert worker.store.groups == [["e1"]]
