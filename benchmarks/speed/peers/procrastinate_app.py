"""procrastinate with a task that does nothing: its worker. ``procrastinate_client`` is its client."""

from __future__ import annotations

import asyncio
import os
import time

import procrastinate

from benchmarks.speed.peers.peer import marks

times = marks().times
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["PEER_DATABASE"]))


@app.task(name="noop", queue="bench")
async def noop(number: int) -> int:
    """Mark the start."""
    times[number] = time.time()
    return 1


async def work() -> None:
    """Run tasks until a signal ends the process."""
    async with app.open_async():
        await app.run_worker_async(concurrency=int(os.environ["PEER_SLOTS"]), queues=["bench"])


if __name__ == "__main__":
    asyncio.run(work())
