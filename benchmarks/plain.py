"""The peer: a plain Celery app with a no-op task, the worker started as its users start it.

Run as a module by the worker process; ``PEER_BROKER`` names the broker. The task notes the time
between sending and start in Redis-free fashion: it appends to a file, one line a task.
"""

from __future__ import annotations

import os
import time

from celery import Celery

app = Celery("peer", broker=os.environ.get("PEER_BROKER", "memory://"))
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    task_acks_late=False,
    task_default_queue="peer",
    worker_hijack_root_logger=False,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
)


@app.task(name="peer.noop")
def noop(sent: float) -> None:
    """Append the latency (seconds) to the file: one write, atomic for lines this short."""
    with open(os.environ["PEER_FILE"], "a") as stream:  # noqa: PTH123
        stream.write(f"{time.time() - sent:.6f}\n")
