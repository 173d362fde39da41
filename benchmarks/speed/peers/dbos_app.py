"""DBOS with a workflow that does nothing: its worker, and with ``client`` as the program's name its client."""

from __future__ import annotations

import os
import time

from dbos import DBOS, DBOSClient

from benchmarks.speed.peers.peer import marks

QUEUE = "bench"
VERSION = "bench"
# Its default is a second, and a queue with a limit of workflows starts no more of them than that in each poll.
POLL_SECONDS = 0.05


def work() -> None:
    """Run queued workflows until a signal ends the process."""
    times = marks().times
    DBOS(
        config={
            "name": "peer",
            "system_database_url": os.environ["PEER_DATABASE"],
            "application_version": VERSION,
            "log_level": "ERROR",
        }
    )

    @DBOS.workflow(name="noop")
    def noop(number: int) -> int:
        times[number] = time.time()
        return 1

    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=POLL_SECONDS)
    while True:
        time.sleep(3600)


class Client:
    """Enqueues workflows, one call each; DBOS has no call for many."""

    def __init__(self) -> None:
        self._client = DBOSClient(system_database_url=os.environ["PEER_DATABASE"])

    def send(self, count: int) -> float:
        began = time.time()
        for number in range(count):
            self._client.enqueue({"queue_name": QUEUE, "workflow_name": "noop"}, number)
        return began


if __name__ == "__main__":
    work()
