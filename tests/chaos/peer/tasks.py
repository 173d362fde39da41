"""A plain Celery app with one task, which works for some seconds and writes a line at its start and its end.

A worker process runs it as Celery's users do. ``PEER_*`` variables set the broker, the file and the options.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from celery import Celery

app = Celery("peer", broker=os.environ.get("PEER_BROKER", "memory://"), set_as_current=False)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    task_default_queue="peer",
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    **json.loads(os.environ.get("PEER_OPTIONS", "{}")),
)


@app.task(name="peer.work", bind=True)
def work(self: object, number: int, seconds: float) -> None:
    """Write the start, work, write the end."""
    note(f"start {number} {os.getpid()}")
    time.sleep(seconds)
    note(f"end {number}")


def note(line: str) -> None:
    """Append a line in one write, which is atomic for such short lines."""
    handle = os.open(Path(os.environ["PEER_FILE"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)
