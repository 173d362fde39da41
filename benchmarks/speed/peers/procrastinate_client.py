"""The client of procrastinate; it sends many tasks in one call, as Functory's client does."""

from __future__ import annotations

import os
import time

import procrastinate

from benchmarks.speed.line_process import answer_lines
from benchmarks.speed.peers.peer import stream_of


def main() -> None:
    app = procrastinate.App(
        connector=procrastinate.SyncPsycopgConnector(conninfo=os.environ["PEER_DATABASE"])
    )
    with app.open():
        deferrer = app.configure_task("noop", queue="bench")

        def send(count: int) -> float:
            began = time.time()
            deferrer.batch_defer(*({"number": number} for number in range(count)))
            return began

        def stream(rate: float, count: int) -> list[float]:
            return stream_of(lambda number: deferrer.defer(number=number), rate, count)

        if not app.check_connection():
            app.schema_manager.apply_schema()
        answer_lines({"send": send, "stream": stream})


if __name__ == "__main__":
    main()
