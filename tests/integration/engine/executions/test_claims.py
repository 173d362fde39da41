"""Claims: each queued execution is given to one worker, on both databases."""

import threading
from typing import Any

from tests.support.state_rules import check

pytest_plugins = ["tests.support.world"]


def test_one_of_two_workers_gets_an_execution(ready):
    row = ready.start()
    workers = [ready.attempts(name) for name in ("one", "two")]
    assert [len(worker.claim([row["id"]])) for worker in workers] == [1, 0]


def test_of_many_workers_at_the_same_moment_one_gets_each_execution(ready):
    rows = [ready.start()["id"] for _ in range(20)]
    barrier, got = threading.Barrier(4), []

    def race(name: str) -> None:
        worker = ready.attempts(name)
        barrier.wait()
        for id_ in rows:
            got.extend((claim.id, name) for claim in worker.claim([id_]))

    threads = [threading.Thread(target=race, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(id_ for id_, _ in got) == sorted(rows)
    check(ready)


def test_a_message_with_anything_but_ids_of_queued_executions_claims_nothing(ready):
    early = ready.start(delay=60)["id"]
    done = ready.start()
    ready.finish(ready.claim(done))
    strange: list[Any] = ["nonsense", "", None, 7, "0" * 32, "\x00", early, done["id"]]
    assert ready.worker.claim(strange) == []
    assert ready.worker.claim([]) == []


def test_ids_in_any_spelling_claim_in_the_order_of_the_message(ready):
    rows = [ready.start()["id"] for _ in range(3)]
    spelled = [rows[2].upper(), rows[0].replace("-", ""), rows[1]]
    assert [claim.id for claim in ready.worker.claim(spelled)] == [rows[2], rows[0], rows[1]]
