"""Finds a child for a train, runs the train in it, and gives back the passengers that it did not take."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from functory.engine.errors import Unavailable
from functory.workers.sandbox.pool.pool import Pool
from functory.workers.sandbox.pool.pool_key import pool_key_of
from functory.workers.sandbox.pool.warm_children import WarmChildren, warm_key_of
from functory.workers.sandbox.supervision.train import Passenger, Train, TrainCalls, train_frames
from functory.workers.sandbox.supervision.train_habits import TrainHabits

_log = structlog.get_logger(__name__)


def run_train(
    pool: Pool,
    warm: WarmChildren,
    habits: TrainHabits,
    monotonic: Callable[[], float],
    ca_file: str,
    passengers: Sequence[Passenger],
    calls: TrainCalls,
) -> None:
    """Run one train: see ``Runner.train``."""
    wanted = [each for each in passengers if each.control.reason is None and not each.control.withdrawn]
    riding: Sequence[Passenger] = ()
    try:
        if wanted:
            job = wanted[0].job
            key = warm_key_of(job, pool_key_of(job, ca_file))
            child = warm.acquire(key)
            kept = False
            try:
                frames = train_frames([each.job for each in wanted], new=not child.runs)
                if frames:
                    pool.set_lineage(child, job.lineage)
                    riding = wanted[: len(frames)]
                    train = Train(riding, child, monotonic, calls, pool.task_started)
                    usable = train.run(frames)
                    habits.note(job.entry, train.seconds, runs=train.answered, talked=train.talked)
                    kept = usable and warm.put_back(key, child, runs=train.answered, tidy=job.tidy)
            finally:
                if not kept:
                    pool.reap(child)
    except (Unavailable, OSError) as error:
        # No child to be had: those who run alone meet the same, and report it.
        _log.warning("no process for a train, its executions run alone", reason=str(error))
    finally:
        taken = {id(each) for each in riding}
        rest = [each for each in passengers if id(each) not in taken]
        if rest:
            calls.on_given_back(rest)
