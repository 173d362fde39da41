"""What code prints is stored while it runs: soon, once, without secrets, and also when the attempt is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.errors import Unavailable
from functory.engine.executions.attempt_output import AttemptOutputs
from tests.support.waiting import wait_for
from tests.support.world import embedded, lines

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Functory]:
    with embedded(tmp_path, worker_slots=4) as made:
        yield made


def save(engine: Functory, source: str, **declared: Any) -> None:
    engine.functions.save(source, **declared)


def texts(engine: Functory, id_: str) -> list[str]:
    return [row["text"] for row in engine.executions.logs(id_)]


def test_a_line_is_readable_within_half_a_second_while_the_execution_runs(engine: Functory) -> None:
    save(
        engine,
        lines(
            "import time",
            "def talk():",
            "    for n in range(12):",
            "        print(n, time.time(), flush=True)",
            "        time.sleep(0.2)",
        ),
    )
    id_ = engine.executions.start("talk", {})["id"]
    engine.start()
    late: list[float] = []
    seen = 0

    def all_seen() -> bool:
        nonlocal seen
        found = texts(engine, id_)
        late.extend(time.time() - float(text.split()[1]) for text in found[seen:])
        seen = len(found)
        return seen == 12

    wait_for(all_seen)
    # Half a second on a machine of one's own; here others share it.
    assert sorted(late)[len(late) // 2] < 1.0


def test_lines_come_once_and_in_their_order_whichever_part_was_stored_meanwhile(engine: Functory) -> None:
    save(
        engine,
        lines(
            "import time",
            "def talk():",
            "    for n in range(300):",
            "        print(n, flush=True)",
            "        time.sleep(0.005)",
            "    print('end')",
        ),
    )
    row = engine.executions.start("talk", {})
    engine.start()
    wait_for(lambda: texts(engine, row["id"]))
    engine.executions.wait([row["id"]], 60)
    assert texts(engine, row["id"]) == [*map(str, range(300)), "end"]
    assert [one["seq"] for one in engine.executions.logs(row["id"])] == list(range(1, 302))


@pytest.mark.parametrize("declared", [{"limits": {"timeout": 1.5}}, {}], ids=["timeout", "cancel"])
def test_a_killed_attempt_keeps_its_lines(engine: Functory, declared: dict[str, Any]) -> None:
    save(
        engine,
        lines(
            "import time",
            "def hang():",
            "    print('before', flush=True)",
            "    time.sleep(600)",
        ),
        **declared,
    )
    row = engine.executions.start("hang", {})
    engine.start()
    wait_for(lambda: texts(engine, row["id"]) == ["before"])
    if not declared:
        engine.executions.cancel(row["id"])
    (ended,) = engine.executions.wait([row["id"]], 60)
    assert ended["state"] == ("timed_out" if declared else "cancelled")
    assert texts(engine, row["id"]) == ["before"]


def test_a_secret_that_is_printed_in_two_parts_around_a_store_is_not_in_a_line(engine: Functory) -> None:
    value = "zq8-LmW4vTr91xKp"
    engine.secrets.set("TOKEN", value)
    save(
        engine,
        lines(
            "import sys, time",
            "from functory import secret, log",
            "def leak():",
            "    s = secret('TOKEN')",
            "    for start, end in ((0, 7), (7, 16)):",
            "        sys.stdout.write('x' * 40 + '\\n' if start == 0 else '')",
            "        sys.stdout.write(s[start:end]); sys.stdout.flush()",
            "        time.sleep(0.8)",
            "    print(' tail', flush=True)",
            "    log.info('and ' + s)",
            "    time.sleep(0.8)",
        ),
        secrets=["TOKEN"],
    )
    row = engine.executions.start("leak", {})
    engine.start()
    found: list[str] = []

    def ended() -> bool:
        found.extend(texts(engine, row["id"]))
        return engine.executions.get(row["id"])["state"] == "succeeded"

    wait_for(ended)
    found.extend(texts(engine, row["id"]))
    assert "x" * 40 in found
    assert not any(value[:7] in text or value[7:] in text for text in found)
    assert {"*** tail", "and ***"} <= set(found)


def test_calls_that_have_ended_are_stored_meanwhile_and_the_others_at_the_end(engine: Functory) -> None:
    save(engine, "def part(n):\n    return n\n")
    save(
        engine,
        lines(
            "import time",
            "def whole():",
            "    part(1)",
            "    print('one', flush=True)",
            "    time.sleep(1.2)",
            "    return part(2)",
        ),
        dependencies=["part"],
    )
    row = engine.executions.start("whole", {})
    engine.start()
    wait_for(lambda: [one["output"] for one in engine.executions.spans(row["id"])] == [1])
    assert engine.executions.get(row["id"])["state"] == "running"
    engine.executions.wait([row["id"]], 60)
    assert [one["output"] for one in engine.executions.spans(row["id"])] == [1, 2]


def test_the_limit_of_the_log_holds_over_all_parts(engine: Functory) -> None:
    save(
        engine,
        lines(
            "import time",
            "def flood():",
            "    for n in range(30):",
            "        print('y' * 99, flush=True)",
            "        time.sleep(0.05)",
        ),
        limits={"log_bytes": 1024},
    )
    row = engine.executions.start("flood", {})
    engine.start()
    engine.executions.wait([row["id"]], 60)
    found = texts(engine, row["id"])
    assert found[:10] == ["y" * 99] * 10
    assert sum(len(text) + 1 for text in found[:-1]) <= 1024
    assert "is not kept" in found[-1]


def test_executions_of_one_message_and_of_a_warm_process_keep_their_lines_apart(engine: Functory) -> None:
    save(
        engine,
        lines(
            "import time",
            "def talk(who):",
            "    print(who, 1, flush=True)",
            "    time.sleep(0.4)",
            "    print(who, 2)",
        ),
        reuse=True,
    )
    ids = {who: engine.executions.start("talk", {"who": who})["id"] for who in "abcdef"}
    engine.start()
    engine.executions.wait(list(ids.values()), 60)
    for who, id_ in ids.items():
        assert texts(engine, id_) == [f"{who} 1", f"{who} 2"]


def test_short_executions_store_nothing_before_their_end(
    engine: Functory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[Any] = []
    write = AttemptOutputs.store_output
    monkeypatch.setattr(
        AttemptOutputs, "store_output", lambda self, given: stored.extend(given) or write(self, given)
    )
    with embedded(engine.settings.home.parent / "short", live_milliseconds=60_000) as short:
        save(short, "def talk(n):\n    print(n)\n    return n\n")
        assert [short.call("talk", n) for n in range(20)] == list(range(20))
    assert stored == []


def test_a_failed_store_is_made_up_for_by_the_next_one_or_by_the_end(
    engine: Functory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = AttemptOutputs.store_output, []

    def failing(self: AttemptOutputs, given: Any) -> Any:
        if len(failures) < 2:
            failures.append(1)
            if len(failures) == 2:
                # Committed, and the answer was lost.
                write(self, given)
            raise Unavailable("the database is away")
        return write(self, given)

    monkeypatch.setattr(AttemptOutputs, "store_output", failing)
    save(
        engine,
        lines(
            "import time",
            "def talk():",
            "    for n in range(40):",
            "        print(n, flush=True)",
            "        time.sleep(0.1)",
        ),
    )
    row = engine.executions.start("talk", {})
    engine.start()
    (ended,) = engine.executions.wait([row["id"]], 60)
    assert (ended["state"], len(failures)) == ("succeeded", 2)
    assert texts(engine, row["id"]) == [*map(str, range(40))]
