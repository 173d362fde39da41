"""Plain Celery with a task that does nothing: its worker, and as a program its client."""

from __future__ import annotations

import os
import time

from celery import Celery

from benchmarks.speed.line_process import answer_lines
from benchmarks.speed.peers.peer import marks, stream_of

results = os.environ.get("PEER_RESULTS") or None
app = Celery("peer", broker=os.environ["PEER_BROKER"], backend=results)
app.conf.update(
    task_ignore_result=results is None,
    # As Functory's workers: one message a slot is fetched ahead.
    worker_prefetch_multiplier=1,
    task_acks_late=False,
    task_default_queue=os.environ["PEER_QUEUE"],
    worker_hijack_root_logger=False,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
)
times = marks().times


@app.task(name="peer.noop")
def noop(number: int) -> int:
    """Mark the start."""
    times[number] = time.time()
    return 1


def send(count: int) -> float:
    """Send tasks as fast as one client does, one message each; Celery has no call for many."""
    began = time.time()
    for number in range(count):
        noop.delay(number)
    return began


if __name__ == "__main__":
    answer_lines({"send": send, "stream": lambda rate, count: stream_of(noop.delay, rate, count)})
