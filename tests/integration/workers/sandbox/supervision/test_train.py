"""Several executions of one version ride one child: each is answered once, or given back without a trace."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from functory.engine.errors import Unavailable
from functory.workers.sandbox.pool.pool import Options
from functory.workers.sandbox.protocol.control import Control
from functory.workers.sandbox.protocol.job import ChildGrants, ChildLimits
from functory.workers.sandbox.runner import Runner
from functory.workers.sandbox.supervision.train import Passenger
from tests.support.patience import patient
from tests.support.runner_world import FakeHost, alive, job, printed
from tests.support.waiting import wait_for

# Each passenger does what its input says, and returns who was there before it.
SOURCE = """
import os, sys, time, threading
seen = []
kept = []
def f(x, do=None):
    seen.append(x)
    if do == "raise":
        raise ValueError(x)
    if do == "print":
        print("hello from", x)
    if do == "exit":
        os._exit(3)
    if do == "sleep":
        time.sleep(60)
    if do == "spin":
        while True: pass
    if do == "nap":
        time.sleep(0.3)
    if do == "leave":
        kept.append(open(os.devnull))
    if do == "log":
        from functory import log
        log("hello")
    if do == "call":
        from functory import call
        call("other")
    if do == "big":
        return "x" * 300_000
    if do == "return object":
        return object()
    return [x, list(seen)]
"""
QUICK = ChildLimits(wall_seconds=2.0, total_seconds=30.0, cpu_seconds=1.0)
PATIENT = ChildLimits(wall_seconds=50.0, total_seconds=50.0, cpu_seconds=1.0)


class Ride:
    """A train of inputs, and what became of each: ``outcomes`` and ``back`` by their ``x``."""

    def __init__(
        self, runner: Runner, inputs: list, *, source: str = SOURCE, limits: ChildLimits = QUICK
    ) -> None:
        self.runner = runner
        self.outcomes: dict = {}
        self.back: list = []
        self.handed: list = []
        self.on_outcome = lambda x, outcome: None
        self.on_back = lambda xs: None
        tasks = [given if isinstance(given, tuple) else (given, None) for given in inputs]
        self.passengers = [
            Passenger(
                job(
                    source,
                    input={"x": x} | ({"do": do} if do else {}),
                    limits=limits,
                    reuse=True,
                    tidy=True,
                    execution_id=f"e-{x}",
                ),
                Control(),
            )
            for x, do in tasks
        ]

    def learn(self) -> Ride:
        """Let the runner see that the version is quick and silent."""
        limits = self.passengers[0].job.limits
        task = job(SOURCE, input={"x": -1}, limits=limits, reuse=True, tidy=True)
        for _ in range(20):
            if self.runner.may_train(self.passengers[0].job):
                break
            assert self.runner.run(task, FakeHost()).status == "succeeded"
        assert self.runner.may_train(self.passengers[0].job)
        return self

    def go(self) -> Ride:
        def on_outcome(passenger, outcome):
            x = passenger.job.input["x"]
            self.handed.append(x)
            self.outcomes[x] = outcome
            self.on_outcome(x, outcome)

        def on_given_back(passengers):
            xs = [passenger.job.input["x"] for passenger in passengers]
            self.handed += xs
            self.back += xs
            self.on_back(xs)

        self.runner.train(self.passengers, on_outcome=on_outcome, on_given_back=on_given_back)
        assert sorted(self.handed) == sorted(p.job.input["x"] for p in self.passengers), "each once"
        return self

    def statuses(self) -> list[str]:
        return [outcome.status for outcome in self.outcomes.values()]


@pytest.fixture
def runner():
    with Runner() as made:
        yield made


def test_all_ride_one_process_in_their_order_and_the_next_train_too(runner):
    ride = Ride(runner, list(range(500))).learn().go()
    assert ride.handed == list(range(500))
    assert [outcome.result[0] for outcome in ride.outcomes.values()] == list(range(500))
    assert len({outcome.pid for outcome in ride.outcomes.values()}) == 1
    seen = ride.outcomes[499].result[1]
    assert seen[-500:] == list(range(500))
    again = Ride(runner, [1000, 1001]).go()
    assert again.outcomes[1001].result[1][-3:] == [499, 1000, 1001]
    assert all(0 <= outcome.duration_seconds < patient(5) for outcome in ride.outcomes.values())


def test_one_that_raises_is_answered_and_those_behind_it_have_not_begun(runner):
    ride = Ride(runner, [0, (1, "raise"), 2, 3]).learn().go()
    assert ride.statuses() == ["succeeded", "failed"]
    assert ride.outcomes[1].error["type"] == "ValueError"
    assert ride.back == [2, 3]
    rest = Ride(runner, [2, 3]).go()
    assert rest.outcomes[3].result == [3, [2, 3]], "in a process that has seen none of the others"


@pytest.mark.parametrize("how", ["print", "log", "call"])
def test_one_that_says_more_than_its_result_is_given_back_and_rides_no_more(runner, how):
    ride = Ride(runner, [0, (1, how), 2]).learn().go()
    assert 1 in ride.back
    assert 2 in ride.back
    assert set(ride.statuses()) <= {"succeeded"}
    assert not runner.may_train(ride.passengers[0].job)
    alone = runner.run(ride.passengers[1].job, FakeHost(other=lambda: 1))
    assert alone.status == "succeeded"
    if how == "print":
        assert printed(alone) == ["hello from 1"]
    assert Ride(runner, [5, 6]).go().back == [5, 6]


def test_one_that_exits_is_charged_and_those_behind_it_have_not_begun(runner):
    ride = Ride(runner, [0, (1, "exit"), 2, 3]).learn().go()
    assert ride.statuses() == ["succeeded", "crashed"]
    assert "code 3" in ride.outcomes[1].error["message"]
    assert ride.back == [2, 3]


def test_one_that_leaves_something_ends_its_process_and_is_the_last_in_it(runner):
    ride = Ride(runner, [0, (1, "leave"), 2]).learn().go()
    assert ride.statuses() == ["succeeded", "succeeded"]
    assert ride.back == [2]


def test_the_clock_of_each_begins_with_the_result_of_the_one_before(runner):
    ride = Ride(runner, [*((n, "nap") for n in range(8)), (8, "sleep"), 9]).learn().go()
    assert ride.statuses() == ["succeeded"] * 8 + ["timed_out"]
    assert ride.outcomes[8].kill_reason == "wall"
    assert ride.back == [9]


def test_the_processor_time_of_each_is_limited(runner):
    limits = ChildLimits(wall_seconds=60.0, total_seconds=60.0, cpu_seconds=0.3)
    ride = Ride(runner, [0, 1, (2, "spin"), 3], limits=limits).learn().go()
    assert ride.statuses() == ["succeeded", "succeeded", "timed_out"]
    assert ride.outcomes[2].kill_reason == "cpu"
    assert ride.back == [3]


def _until_one_runs(make: Callable[[], Ride]) -> Ride:
    """Ride until passenger 1 runs when the outcome of 0 is known: on a busy machine it may not have begun."""
    while 1 not in (ride := make().go()).outcomes:
        assert ride.back == list(range(1, len(ride.passengers)))
    return ride


def test_a_running_one_that_is_cancelled_is_killed_and_those_behind_it_have_not_begun(runner):
    def make() -> Ride:
        ride = Ride(runner, [0, (1, "sleep"), 2], limits=PATIENT).learn()
        ride.on_outcome = lambda x, _: ride.passengers[1].control.kill("cancelled") if x == 0 else None
        return ride

    ride = _until_one_runs(make)
    assert [ride.outcomes[0].status, ride.outcomes[1].kill_reason] == ["succeeded", "cancelled"]
    assert ride.back == [2]


@pytest.mark.parametrize("unwanted", [[3], [1, 2, 3]], ids=["cancelled", "withdrawn"])
def test_who_has_not_begun_is_given_back_at_once_while_another_runs(runner, unwanted):
    ran_then: list[bool] = []

    def make() -> Ride:
        ride = Ride(runner, [0, (1, "sleep"), 2, 3], limits=PATIENT).learn()

        def on_outcome(x, _):
            for number in unwanted if x == 0 else ():
                control = ride.passengers[number].control
                # What is withdrawn goes only if it has not begun; the one that runs goes on.
                control.withdraw() if len(unwanted) > 1 else control.kill("cancelled")

        def on_back(xs):
            ran_then.append(1 not in xs and 1 not in ride.outcomes)
            ride.passengers[1].control.kill("enough")

        ride.on_outcome, ride.on_back = on_outcome, on_back
        return ride

    ride = _until_one_runs(make)
    assert ran_then[-1]
    assert ride.back == [2, 3]
    assert [ride.outcomes[0].status, ride.outcomes[1].kill_reason] == ["succeeded", "enough"]


def test_who_is_cancelled_before_the_train_leaves_does_not_ride(runner):
    ride = Ride(runner, [0, 1, 2]).learn()
    ride.passengers[1].control.kill("cancelled")
    ride.go()
    assert sorted(ride.outcomes) == [0, 2]
    assert 1 not in ride.outcomes[2].result[1]


def test_results_do_not_wait_for_a_slow_one(runner):
    ride = Ride(runner, [0, 1, (2, "sleep"), 3], limits=PATIENT).learn()

    def on_outcome(x, _outcome):
        if x == 1:
            # Only the result of the one before ends the slow one.
            threading.Timer(0.5, ride.passengers[2].control.kill, ["enough"]).start()

    ride.on_outcome = on_outcome
    ride.go()
    assert list(ride.outcomes) == [0, 1, 2]
    assert ride.back == [3]


def test_many_bytes_in_both_directions_do_not_block(runner):
    source = "def f(x, text):\n    return text"
    texts = ["t" * 200_000] * 40
    limits = ChildLimits(wall_seconds=60.0, total_seconds=60.0, cpu_seconds=30.0)
    passengers = [
        Passenger(job(source, input={"x": n, "text": text}, limits=limits, reuse=True, tidy=True))
        for n, text in enumerate(texts)
    ]
    small = job(source, input={"x": 0, "text": ""}, limits=limits, reuse=True, tidy=True)
    for _ in range(20):
        runner.run(small, FakeHost())
    got, back = [], []
    runner.train(passengers, on_outcome=lambda p, o: got.append(o), on_given_back=back.extend)
    assert {len(outcome.result) for outcome in got} == {200_000}
    assert len(got) > 10, "as many as go well together"
    assert len(got) + len(back) == 40


def test_a_result_without_a_json_form_and_an_input_that_does_not_fit(runner):
    ride = Ride(runner, [0, (1, "return object"), 2]).learn().go()
    assert ride.statuses() == ["succeeded", "not_serializable"]
    assert ride.back == [2]


def test_a_child_that_was_killed_while_idle_costs_no_passenger(runner):
    ride = Ride(runner, list(range(3))).learn().go()
    os.kill(ride.outcomes[0].pid, signal.SIGKILL)
    wait_for(lambda: not alive(ride.outcomes[0].pid))
    again = Ride(runner, list(range(3))).go()
    # Found dead before, or on the way; a passenger that is given back has not begun.
    assert again.statuses() == ["succeeded"] * len(again.outcomes)


def test_a_version_rides_only_if_it_has_no_grant_and_its_process_is_kept(runner):
    Ride(runner, [0]).learn()
    for fields in ({"reuse": False}, {"reuse": True, "grants": ChildGrants(read=("/usr/share",))}):
        assert not runner.may_train(job(SOURCE, input={"x": 1}, limits=QUICK, **fields))


def test_a_slow_version_rides_no_train(runner):
    source = "import time\ndef f(x):\n    time.sleep(0.05)"
    task = job(source, input={"x": 1}, reuse=True, tidy=True)
    for _ in range(3):
        runner.run(task, FakeHost())
    assert not runner.may_train(task)


def test_several_trains_at_once_have_processes_of_their_own(runner):
    rides = [Ride(runner, list(range(100))) for _ in range(4)]
    rides[0].learn()
    threads = [threading.Thread(target=ride.go) for ride in rides]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [ride.handed for ride in rides] == [list(range(100))] * 4


def test_a_closed_runner_gives_all_back():
    runner = Runner(options=Options())
    ride = Ride(runner, [0, 1]).learn()
    runner.close()
    with pytest.raises(Unavailable, match="closed"):
        ride.go()
    assert ride.back == [0, 1]
