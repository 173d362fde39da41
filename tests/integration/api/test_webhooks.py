"""Webhooks over real sockets: what senders do, and a server that dies."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from functory.api import create_app
from functory.client.functory import Functory
from functory.engine.errors import Unavailable
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from tests.services.port import free_port
from tests.support.http_sender import KEY, LIMIT, count, head, headers, raw
from tests.support.patience import patient
from tests.support.waiting import wait_for


def test_a_delivery_is_committed_when_it_is_answered(functory: Functory, url: str) -> None:
    body = b'{"action": "opened"}'
    answer = httpx.post(f"{url}/webhooks/github", content=body, headers=headers(body, "one"))
    assert answer.status_code == 202
    event = functory.events.get(answer.json()["event"])
    assert event["data"]["body"] == {"action": "opened"}
    again = httpx.put(f"{url}/webhooks/github?a=b", content=body, headers=headers(body, "one"))
    assert again.json() == {"event": event["id"], "duplicate": True}


def test_names_have_any_characters_of_names_and_no_path_leads_elsewhere(functory: Functory, url: str) -> None:
    functory.sources.save("webhook", "a-b.c_1", {"auth": {"type": "github", "secret": "HOOK"}})
    assert httpx.post(f"{url}/webhooks/a-b.c_1", content=b"{}", headers=headers(b"{}")).status_code == 202
    for path in (
        "/webhooks/a%2Db.c_1/",
        "/webhooks/../webhooks/none",
        "/webhooks/%2e%2e/healthz",
        "/webhooks/github%2f..%2fgithub",
        "/webhooks/github%00",
        "/webhooks/%ed%a0%80",
        "/webhooks/%ff",
        "/webhooks/gr%C3%BC%C3%9Fe",
        "/webhooks/" + "x" * 5000,
        "/webhooks/github;x",
        "/webhooks//github",
    ):
        answer = raw(url, head("content-length: 2", "content-type: application/json", path=path) + b"{}")
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 307")), path
    # GET is the address of the webhook's page in the dashboard: it takes no event.
    for name in ("github", "none"):
        page = httpx.get(f"{url}/webhooks/{name}")
        assert (page.status_code, page.headers["content-type"].split(";")[0]) == (200, "text/html")
        assert httpx.delete(f"{url}/webhooks/{name}").status_code == 405


def test_a_stranger_gets_one_and_the_same_answer(functory: Functory, url: str) -> None:
    functory.sources.save("webhook", "paused", {"auth": {"type": "github", "secret": "HOOK"}})
    functory.sources.pause("webhook", "paused")
    wrong = headers(b"{}") | {"x-hub-signature-256": "sha256=00"}
    answers = [
        httpx.post(f"{url}/webhooks/{name}", content=b"{}", headers=given)
        for name, given in (("github", wrong), ("paused", headers(b"{}")), ("none", wrong))
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content for answer in answers}) == 1
    assert len({tuple(sorted(set(answer.headers) - {"date"})) for answer in answers}) == 1


def test_without_a_database_it_says_when_to_come_again_and_nothing_else(
    functory: Functory, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise Unavailable("the database postgresql://ada:s3cret@db/rows cannot be used", "s3cret")

    event = {"ce-id": "1", "ce-source": "/x", "ce-type": "a.b", "ce-specversion": "1.0"}
    before = count(functory)
    with monkeypatch.context() as patch:
        patch.setattr(functory.database, "group_commit", away)
        answers = [
            httpx.post(f"{url}/webhooks/github", content=b"{}", headers=headers(b"{}")),
            httpx.post(f"{url}/events", headers=event),
        ]
        # Nor does it tell a stranger anything else when it cannot look what webhooks there are.
        patch.setattr(functory.database, "read", away)
        functory.database.wakeup.signal(["sources"])
        answers += [
            httpx.post(f"{url}/webhooks/{name}", content=b"{}", headers=headers(b"x"))
            for name in ("github", "no")
        ]
    for answer in answers:
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "s3cret" not in answer.text and "postgresql" not in answer.text
    assert count(functory) == before


def test_a_rate_says_when_to_come_again(functory: Functory, url: str) -> None:
    config = {"auth": {"type": "github", "secret": "HOOK"}, "rate": {"limit": 1, "period": "1h"}}
    functory.sources.save("webhook", "slow", config)
    assert httpx.post(f"{url}/webhooks/slow", content=b"{}", headers=headers(b"{}")).status_code == 202
    refused = httpx.post(f"{url}/webhooks/slow", content=b"[]", headers=headers(b"[]"))
    assert refused.status_code == 429 and 3500 < int(refused.headers["retry-after"]) <= 3600
    deadline = time.monotonic() + patient(20)
    while not functory.sources.get("webhook", "slow")["problem"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_source_says_why_requests_were_refused(functory: Functory, url: str) -> None:
    """Also those whose body is not read: too large, or compressed."""
    functory.sources.save("webhook", "asked", {"auth": {"type": "github", "secret": "HOOK"}})
    for body, given in (
        (b"{}", headers(b"x")),
        (b"x" * (LIMIT + 1), {}),
        (b"{}", headers(b"{}") | {"content-encoding": "gzip"}),
        (b"{}", headers(b"{}") | {"content-type": "image/png"}),
    ):
        assert httpx.post(f"{url}/webhooks/asked", content=body, headers=given).status_code >= 400
        # Unknown ones have the same answer, and are counted nowhere.
        httpx.post(f"{url}/webhooks/unknown", content=body, headers=given)
    wanted = {"proof_wrong", "too_large", "encoding", "content_type"}

    def counted() -> dict[str, int]:
        row = functory.sources.get("webhook", "asked")
        return {one["reason"]: one["count"] for one in row["refusals"]}

    wait_for(lambda: set(counted()) == wanted, "the refusals")
    assert counted() == dict.fromkeys(wanted, 1)


def test_requests_are_counted_by_their_answer(functory: Functory, url: str) -> None:
    def counted(status: str, reason: str) -> float:
        return (
            metrics.registry.get_sample_value(
                "functory_webhook_requests_total", {"status_class": status, "reason": reason}
            )
            or 0
        )

    wanted = [
        ("2xx", "accepted"),
        ("2xx", "duplicate"),
        ("4xx", "refused"),
        ("4xx", "malformed"),
        ("4xx", "too_large"),
    ]
    before = [counted(*labels) for labels in wanted]
    for body, given in (
        (b'["counted"]', headers(b'["counted"]', "counted")),
        (b'["counted"]', headers(b'["counted"]', "counted")),
        (b"{}", headers(b"x")),
        (b"{", headers(b"{")),
        (b"x" * (LIMIT + 1), {}),
    ):
        httpx.post(f"{url}/webhooks/github", content=body, headers=given)
    assert [counted(*labels) for labels in wanted] == [number + 1 for number in before]


def test_the_description_of_the_api_has_both_ways_in(functory: Functory) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paths = create_app(functory).openapi()["paths"]
    assert set(paths["/webhooks/{name}"]) == {"post", "put"} and set(paths["/events"]) == {"post"}


KILLS = 2
PROGRAM = """
import signal, sys, threading
from pathlib import Path
from functory.engine.settings import Settings
from functory.api import create_app
from functory.api.server import Server
from functory.client.functory import Functory

server = Server(create_app(Functory(Settings(home=Path(sys.argv[1])))), "127.0.0.1", int(sys.argv[2]))
server.start()
print("ready", flush=True)
threading.Event().wait()
"""


def test_a_server_that_is_killed_again_and_again_loses_and_doubles_no_delivery(tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()
    with contextlib.ExitStack() as stack:
        functory = stack.enter_context(Functory(Settings(home=home)))
        functory.secrets.set("HOOK", KEY)
        functory.sources.save("webhook", "github", {"auth": {"type": "github", "secret": "HOOK"}})
        answered: dict[str, set[str]] = {}
        client = stack.enter_context(httpx.Client(timeout=patient(20)))
        ending = threading.Event()

        def send(delivery: str) -> None:
            """As a sender does it: until there is an answer that says taken."""
            body = json.dumps({"delivery": delivery}).encode()
            deadline = time.monotonic() + patient(60)
            while time.monotonic() < deadline:
                with contextlib.suppress(httpx.HTTPError):
                    answer = client.post(
                        f"http://127.0.0.1:{port}/webhooks/github",
                        content=body,
                        headers=headers(body, delivery),
                    )
                    if answer.status_code == 202:
                        answered.setdefault(delivery, set()).add(answer.json()["event"])
                        return
                # A process that begins has the processor for itself.
                time.sleep(0.1)

        def keep_a_server() -> None:
            kills = 0
            while not ending.is_set():
                server = subprocess.Popen(
                    [sys.executable, "-c", PROGRAM, str(home), str(port)],
                    stdout=subprocess.PIPE,
                    env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
                )
                assert server.stdout is not None and server.stdout.readline() == b"ready\n"
                before = len(answered)
                while kills < KILLS and not ending.is_set() and len(answered) < before + 15:
                    time.sleep(0.002)
                if kills == KILLS:
                    ending.wait(patient(60))
                server.send_signal(signal.SIGKILL)
                server.wait()
                kills += 1

        supervisor = threading.Thread(target=keep_a_server)
        supervisor.start()
        try:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(send, [f"d-{n}" for n in range(100)]))
        finally:
            ending.set()
            supervisor.join(patient(60))
        assert len(answered) == 100
        rows = functory.events.list(type_="webhook.received", limit=100, payloads=True)
        assert {
            delivery: {row["id"]} for row in rows for delivery in [row["data"]["body"]["delivery"]]
        } == answered
        assert len(rows) == 100
