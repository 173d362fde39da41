"""Loops that leave the engine through HTTP and come back, run for real: a server, a worker and a sandbox.

Each turn goes function → request → webhook or ``/events`` → trigger → function. The guards are the defaults, but where
a test says otherwise.
"""

from __future__ import annotations

import http.server
import json
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from functory.api import create_app
from functory.api.server import Server
from functory.client.functory import Functory
from functory.engine.maintenance.invariants import verify
from tests.support.patience import patient
from tests.support.waiting import stays, wait_for
from tests.support.world import embedded

KEY = "the key of the sender"

URLLIB = """
def turn(event):
    import json, urllib.request
    body = event["data"].get("body", event["data"])
    body = body | {"n": body["n"] + body["step"]}
    headers = {"content-type": "application/json", "x-key": "the key of the sender"}
    headers |= {"ce-id": event["id"], "ce-source": "/loop", "ce-type": "loop.turned", "ce-specversion": "1.0",
                "ce-subject": str(body["n"])} if body["url"].endswith("/events") else {}
    request = urllib.request.Request(body["url"], json.dumps(body).encode(), headers)
    urllib.request.urlopen(request, timeout=20).read()
"""

# A request that no HTTP client of Python makes: it has no lineage.
BARE_SOCKET = """
def turn(event):
    import json, socket, urllib.parse
    body = event["data"]["body"]
    body = body | {"n": body["n"] + body["step"]}
    url = urllib.parse.urlsplit(body["url"])
    data = json.dumps(body).encode()
    head = [f"POST {url.path} HTTP/1.1", f"host: {url.netloc}", "content-type: application/json",
            "x-key: the key of the sender", f"content-length: {len(data)}", "connection: close"]
    with socket.create_connection((url.hostname, url.port), timeout=20) as connection:
        connection.sendall("\\r\\n".join([*head, "", ""]).encode() + data)
        while connection.recv(4096):
            pass
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Functory, str]]:
    """A whole engine and the address of its server. The webhook ``loop`` gives each body a subject of its own."""
    with embedded(tmp_path, private_networks=["127.0.0.0/8"]) as engine:
        engine.secrets.set("HOOK", KEY)
        auth = {"type": "token", "secret": "HOOK", "header": "x-key"}
        engine.sources.save(
            "webhook", "loop", {"auth": auth, "type": '"loop.turned"', "subject": "string(body.n)"}
        )
        engine.start()
        server = Server(create_app(engine), "127.0.0.1", 0)
        server.start()
        try:
            yield engine, server.url
        finally:
            server.stop(5)


def begin(engine: Functory, url: str, source: str = URLLIB, step: int = 1, **guards: Any) -> str:
    """Save the function and its trigger, and send the first request. Returns the id of its event."""
    host = url.split("/")[2]
    engine.functions.save(source, hosts=[host])
    engine.register_trigger("again", on={"type": ["loop.turned"]}, function="turn", guards=guards)
    headers = {"content-type": "application/json", "x-key": KEY}
    if url.endswith("/events"):
        headers |= {"ce-id": "0", "ce-source": "/loop", "ce-type": "loop.turned", "ce-specversion": "1.0"}
    body = json.dumps({"url": url, "n": 0, "step": step}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=patient(20)) as answer:
        return str(json.load(answer)["event"])


def turns(engine: Functory) -> int:
    return len(engine.executions.list(function="turn", limit=1000))


def stopped_by(engine: Functory) -> Counter[str]:
    """Which guard has stopped the loop; waits until nothing goes on."""
    wait_for(lambda: engine.suppressions.list(), "a guard stops the loop", seconds=120)
    engine.settle(60)
    before = turns(engine)
    stays(lambda: turns(engine) == before, 0.3)
    assert all(row["state"] == "succeeded" for row in engine.executions.list(function="turn", limit=1000))
    counts: Counter[str] = Counter()
    for row in engine.suppressions.list(500):
        counts[row["reason"]] += row["count"]
    return counts


@pytest.mark.parametrize("path", ["/webhooks/loop", "/events"])
@pytest.mark.parametrize("guards", [{}, {"rate": 5}], ids=["defaults", "rate"])
def test_a_loop_ends_at_its_first_return(
    site: tuple[Functory, str], path: str, guards: dict[str, Any]
) -> None:
    engine, url = site
    root = begin(engine, url + path, **guards)
    assert stopped_by(engine) == {"own_event": 1}
    (execution,) = engine.executions.list(function="turn")
    (returned, first) = engine.events.list(type_="loop.turned")
    assert first["id"] == root
    assert (returned["root_id"], returned["cause_execution_id"]) == (root, execution["id"])
    assert [link["name"] for link in returned["chain"]] == ["again"]
    assert [one.code for one in verify(engine.database, engine.settings) if one.count] == []


def test_a_loop_that_may_visit_itself_ends_at_the_depth(site: tuple[Functory, str]) -> None:
    engine, url = site
    begin(engine, f"{url}/webhooks/loop", allow_self=True, acknowledge_cycle=64, max_depth=16)
    assert stopped_by(engine) == {"depth": 1}
    assert turns(engine) == engine.settings.max_depth


@pytest.mark.parametrize(("step", "guard"), [(0, "repeat_rate"), (1, "source_rate")], ids=["same", "varies"])
def test_a_loop_of_bare_sockets_ends_at_a_rate_alone(
    site: tuple[Functory, str], step: int, guard: str
) -> None:
    engine, url = site
    begin(engine, f"{url}/webhooks/loop", BARE_SOCKET, step, **{guard: 5})
    assert stopped_by(engine) == {guard: 1}
    assert 5 <= turns(engine) <= most(engine, 5)
    assert all(event["root_id"] == event["id"] for event in engine.events.list(type_="loop.turned"))


@contextmanager
def forwarder(target: str, keep: Callable[[str], bool]) -> Iterator[str]:
    """Another service: it sends each body on, with those headers of the request that it keeps."""

    class Forward(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name: value for name, value in self.headers.items() if keep(name.lower())}
            request = urllib.request.Request(target, body, headers)
            with urllib.request.urlopen(request, timeout=patient(20)) as answer:
                told = answer.read()
            self.send_response(202)
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


NEEDED = ("content-type", "x-key")


@pytest.mark.parametrize("passed_on", ["functory-lineage", "tracestate"])
def test_a_loop_through_a_service_that_passes_headers_on_ends_at_its_first_return(
    site: tuple[Functory, str], passed_on: str
) -> None:
    engine, url = site
    with forwarder(f"{url}/webhooks/loop", lambda name: name in (*NEEDED, passed_on)) as service:
        begin(engine, service)
        assert stopped_by(engine) == {"own_event": 1}
    assert turns(engine) == 1


@pytest.mark.parametrize(("guards", "limit"), [({}, 60), ({"rate": 5}, 5)], ids=["defaults", "rate"])
def test_a_loop_that_loses_its_lineage_and_repeats_itself_ends_at_the_limit(
    site: tuple[Functory, str], guards: dict[str, Any], limit: int
) -> None:
    engine, url = site
    with forwarder(f"{url}/webhooks/loop", lambda name: name in NEEDED) as service:
        begin(engine, service, step=0, **guards)
        (reason, *more) = stopped_by(engine)
    assert not more and reason == ("repeat_rate" if limit == 60 else "rate")
    assert limit <= turns(engine) <= most(engine, limit)


def most(engine: Functory, limit: int) -> float:
    """What a rate a minute allows while the loop ran: its limit at once, and then one each interval."""
    times = [row["created_at"] for row in engine.executions.list(function="turn", limit=1000)]
    return limit + (max(times) - min(times)).total_seconds() * limit / 60 + 1


def test_a_loop_that_loses_its_lineage_and_varies_ends_at_the_rate_of_its_source(
    site: tuple[Functory, str],
) -> None:
    engine, url = site
    with forwarder(f"{url}/webhooks/loop", lambda name: name in NEEDED) as service:
        begin(engine, service, rate=5, source_rate=12)
        assert stopped_by(engine) == {"source_rate": 1}
    assert 12 <= turns(engine) <= most(engine, 12)
