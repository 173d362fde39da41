"""The account of a train: tickets say who has begun, answers come in their order."""

import pytest

from functory.workers.sandbox.protocol.frames import ErrorInfo, Failed, Finished, LogRecord, TaskStarted
from functory.workers.sandbox.supervision.train_habits import TrainHabits
from functory.workers.sandbox.supervision.train_ledger import (
    TrainLedger,
    is_answer,
    is_last_of_child,
    shares,
)


@pytest.mark.parametrize(
    ("answered", "tickets", "running", "not_begun"),
    [
        (0, 5, None, [0, 1, 2, 3, 4]),  # the child had taken none
        (0, 4, 0, [1, 2, 3, 4]),
        (2, 2, 2, [3, 4]),
        (3, 2, None, [3, 4]),  # it ended between two of them: no one is charged
        (4, 0, 4, []),
        (5, 0, None, []),
        (3, 4, None, [3, 4]),  # answers without tickets: the child lies, and only those answered have begun
    ],
)
def test_who_runs_and_who_has_not_begun_once_the_tickets_are_back(answered, tickets, running, not_begun):
    ledger = TrainLedger(5)
    ledger.answered = answered
    assert list(ledger.close(tickets)) == not_begun
    assert ledger.running == running


def test_an_answer_that_is_read_after_the_tickets_ends_the_running_one():
    ledger = TrainLedger(5)
    ledger.answered = 1
    assert list(ledger.close(3)) == [2, 3, 4]
    assert ledger.running == 1
    ledger.answered += 1
    assert ledger.running is None


def test_while_tickets_are_out_the_next_one_may_run():
    ledger = TrainLedger(2)
    assert [ledger.running, ledger.closed] == [0, False]
    ledger.answered = 2
    assert ledger.running is None


def test_only_results_are_answers():
    error = ErrorInfo(type="ValueError", message="no")
    assert is_answer(Finished(value=1))
    assert all(is_answer(Failed(kind=kind, error=error)) for kind in ("input", "code", "output", "result"))
    others = [Failed(kind="setup", error=error), LogRecord(level="info", text="hello"), TaskStarted()]
    assert not any(map(is_answer, others))


def test_a_child_that_is_not_as_it_was_begins_no_one_more():
    assert not is_last_of_child(Finished(value=1))
    assert is_last_of_child(Finished(value=1, leftover="threads"))
    assert is_last_of_child(Failed(kind="code", error=ErrorInfo(type="E", message="")))


def test_a_child_cannot_claim_more_time_than_there_was():
    assert shares([0.1, 0.2], 1.0) == [0.1, 0.2]
    assert shares([0.1, 5.0, 1.0], 0.5) == [0.1, 0.4, 0.0]


def test_quick_and_silent_versions_suit_a_train():
    habits = TrainHabits()
    assert not habits.suits("new@1")
    habits.note("quick@1", 0.5, runs=100)
    habits.note("slow@1", 0.05)
    habits.note("loud@1", 0.001, talked=True)
    habits.note("loud@1", 0.001)
    assert [habits.suits(name) for name in ("quick@1", "slow@1", "loud@1")] == [True, False, False]
