"""Loops and storms, run for real: stopped exactly at their limits, and the system is idle afterwards."""

from __future__ import annotations

import http.server
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.client.functory import Functory
from tests.support.waiting import stays, wait_for

pytest_plugins = ["tests.support.world"]


def reasons(engine: Functory) -> Counter[str]:
    """How often each guard has stopped something."""
    counts: Counter[str] = Counter()
    for row in engine.suppressions.list(500):
        counts[row["reason"]] += row["count"]
    return counts


def idle(engine: Functory) -> None:
    """Nothing is left to do, and nothing new comes by itself."""
    engine.settle(60)
    before = engine.lineage.totals()
    stays(lambda: engine.lineage.totals() == before, 0.3)


def test_a_storm_of_two_triggers_ends_at_the_bound_that_was_acknowledged(engine: Functory) -> None:
    for here, there in (("ping", "pong"), ("pong", "ping")):
        engine.functions.save(
            f"def {here}(event):\n    from functory import emit\n    emit('{there}', {{}}, subject='ball')\n"
        )
    engine.register_trigger(
        "on-ping", on={"type": ["ping"]}, function="ping", guards={"acknowledge_cycle": 3}
    )
    engine.register_trigger(
        "on-pong", on={"type": ["pong"]}, function="pong", guards={"acknowledge_cycle": 3}
    )
    engine.emit("ping", {}, subject="ball")
    idle(engine)
    assert len(engine.executions.list(function="ping")) == 3
    assert len(engine.executions.list(function="pong")) == 3
    assert reasons(engine) == {"cycle": 1}


def test_a_loop_without_a_revisit_limit_ends_at_the_depth(engine: Functory) -> None:
    engine.functions.save(
        "def deeper(event):\n    from functory import emit\n    n = event['data']['n']\n"
        "    emit('deeper', {'n': n + 1}, subject=f's{n}')\n"
    )
    engine.register_trigger(
        "deeper",
        on={"type": ["deeper"]},
        function="deeper",
        guards={"allow_self": True, "acknowledge_cycle": 64, "max_depth": 16},
    )
    engine.emit("deeper", {"n": 0})
    idle(engine)
    assert len(engine.executions.list(function="deeper", limit=100)) == engine.settings.max_depth
    assert reasons(engine) == {"depth": 1}


def test_a_fan_out_bomb_ends_at_the_budget_of_its_root(engine: Functory) -> None:
    engine.functions.save(
        "def burst(event):\n    from functory import emit\n    for n in range(4):\n"
        "        emit('burst', {'n': n}, subject=event['id'] + str(n))\n"
    )
    engine.register_trigger(
        "burst",
        on={"type": ["burst"]},
        function="burst",
        guards={"allow_self": True, "acknowledge_cycle": 64, "max_depth": 16, "budget": 30},
    )
    root = engine.emit("burst", {})
    idle(engine)
    rows = engine.executions.list(function="burst", limit=1000)
    assert len(rows) == 30
    assert {row["root_id"] for row in rows} == {root}
    stopped = reasons(engine)
    assert stopped == {"budget": 30 * 4 + 1 - 30}, (
        "each of thirty emitted four; what is over the budget was stopped"
    )
    assert len(engine.events.list(type_="trigger.suppressed", limit=1000)) == 1


def test_a_slow_loop_through_a_file_is_stopped_by_the_rate(engine: Functory, tmp_path: Path) -> None:
    """The lineage is lost outside: each turn is a root of its own. The rate per subject holds it."""
    inbox = tmp_path / "inbox.txt"
    inbox.write_text("0")
    # Functions may run as another user.
    inbox.chmod(0o666)
    engine.functions.save(
        "def rewrite(event):\n    with open(event['data']['path'], 'w') as file:\n"
        "        file.write(str(event['data']['turn'] + 1))\n",
        files={"write": [str(inbox)]},
    )
    engine.register_trigger("on-file", on={"type": ["inbox.changed"]}, function="rewrite", guards={"rate": 5})
    ended = threading.Event()

    def watch() -> None:
        seen = ""
        while not ended.wait(0.01):
            text = inbox.read_text()
            if text and text != seen:
                seen = text
                engine.emit("inbox.changed", {"path": str(inbox), "turn": int(text)}, subject=str(inbox))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        wait_for_rate(engine)
        idle(engine)
    finally:
        ended.set()
        watcher.join()
    assert len(engine.executions.list(function="rewrite")) == 5
    assert reasons(engine) == {"rate": 1}
    assert inbox.read_text() == "5"


@pytest.fixture
def neighbour(tmp_path: Path) -> Iterator[Functory]:
    """An engine whose functions may be granted hosts of this machine."""
    from tests.support.world import embedded

    with embedded(tmp_path, private_networks=["127.0.0.0/8"]) as opened:
        yield opened


def test_a_slow_loop_through_a_webhook_is_stopped_by_the_rate(neighbour: Functory) -> None:
    engine = neighbour

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            engine.emit("hook.called", {"url": url}, subject="hook")
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    engine.functions.save(
        "def notify(event):\n    import urllib.request\n"
        "    urllib.request.urlopen(event['data']['url'], data=b'{}', timeout=5)\n",
        hosts=[f"127.0.0.1:{server.server_port}"],
    )
    engine.register_trigger("on-hook", on={"type": ["hook.called"]}, function="notify", guards={"rate": 4})
    try:
        urllib.request.urlopen(url, data=b"{}", timeout=5)
        wait_for_rate(engine)
        idle(engine)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert len(engine.executions.list(function="notify")) == 4
    assert reasons(engine) == {"rate": 1}


def test_a_call_through_the_engine_keeps_its_lineage_and_ends(engine: Functory) -> None:
    """BabyAGI's first loop: a triggered function that calls what triggered it."""
    engine.functions.save("def z(n=0):\n    return n\n")
    engine.functions.save(
        "def after_z(output):\n    from functory import call\n    return call('z', output + 1)\n"
    )
    engine.register_trigger(
        "after-z",
        on={"type": ["execution.succeeded"], "subject": ["z"]},
        function="after_z",
        input={"output": "{{ event.data.output }}"},
        guards={"acknowledge_cycle": 1},
    )
    engine.call("z")
    idle(engine)
    assert len(engine.executions.list(function="z")) == 2
    assert len(engine.executions.list(function="after_z")) == 1
    assert reasons(engine) == {"own_event": 1}


def test_a_function_that_updates_itself_writes_one_version_for_each_turn_that_is_allowed(
    engine: Functory,
) -> None:
    """BabyAGI's second loop: it wrote 160 versions in 27 seconds."""
    engine.functions.save(
        "def bump(event):\n    from functory import functions\n    number = event['data']['version']\n"
        "    functions.update('bump', metadata={'turn': number})\n",
        permissions=["functions:write"],
    )
    engine.settle(30)
    engine.register_trigger(
        event_type="function_added_or_updated", target_function="bump", trigger_function="bump"
    )
    engine.functions.update("bump", metadata={"turn": 0})
    idle(engine)
    assert [row["number"] for row in engine.functions.versions("bump")] == [3, 2, 1]
    assert reasons(engine) == {"own_event": 1}


def wait_for_rate(engine: Functory) -> None:
    wait_for(
        lambda: any(row["reason"] == "rate" for row in engine.suppressions.list()), "the rate guard trips"
    )
