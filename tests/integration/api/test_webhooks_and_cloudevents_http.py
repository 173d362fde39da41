"""Webhooks and CloudEvents over real sockets: what senders do, what hostile ones do, and a server that dies."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from cloudevents.core.bindings.http import to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from fastapi import FastAPI

from functory.api import cloudevents, create_app, problem_details, webhooks
from functory.api.server import Server
from functory.client import Functory
from functory.engine.errors import Unavailable
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from tests.services.port import free_port

KEY = "the key of the sender"
LIMIT = 4096
TOKEN = "t0ken-of-the-test"


def proof(body: bytes, key: str = KEY) -> str:
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def headers(body: bytes, delivery: str = "", **more: str) -> dict[str, str]:
    given = {"content-type": "application/json", "x-hub-signature-256": proof(body)}
    given |= {"x-github-delivery": delivery} if delivery else {}
    return given | {name.replace("_", "-"): value for name, value in more.items()}


@contextlib.contextmanager
def serving(
    folder: Path, *, body_seconds: float | None = None, **settings: Any
) -> Iterator[tuple[Functory, str]]:
    """An engine that is not started, with a webhook ``github``, behind a server on a free port."""
    with Functory(Settings(home=folder / "home", max_event_bytes=LIMIT, **settings)) as functory:
        functory.secrets.set("HOOK", KEY)
        functory.sources.save("webhook", "github", {"auth": {"type": "github", "secret": "HOOK"}})
        if body_seconds is None:
            app = create_app(functory)
        else:
            app = FastAPI()
            problem_details.install(app)
            webhooks.mount(app, functory, body_seconds=body_seconds)
            cloudevents.mount(app, functory, body_seconds=body_seconds)
        server = Server(app, "127.0.0.1", 0)
        server.start()
        try:
            yield functory, server.url
        finally:
            server.stop(5)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Functory, str]]:
    with serving(tmp_path_factory.mktemp("served")) as both:
        yield both


@pytest.fixture
def functory(served: tuple[Functory, str]) -> Functory:
    return served[0]


@pytest.fixture
def url(served: tuple[Functory, str]) -> str:
    return served[1]


def raw(url: str, *pieces: bytes, timeout: float = 20) -> bytes:
    """What a server answers to bytes, until it closes the connection."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=timeout) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                connection.sendall(piece)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                answer += piece
        return answer


def head(*lines: str, path: str = "/webhooks/github") -> bytes:
    return "\r\n".join(
        [f"POST {path} HTTP/1.1", "host: 127.0.0.1", "connection: close", *lines, "", ""]
    ).encode("latin-1")


def count(functory: Functory, type_: str = "webhook.received") -> int:
    return len(functory.events.list(type_=type_, limit=1000))


def test_a_delivery_is_committed_when_it_is_answered(functory: Functory, url: str) -> None:
    body = b'{"action": "opened"}'
    answer = httpx.post(f"{url}/webhooks/github", content=body, headers=headers(body, "one"))
    assert answer.status_code == 202
    event = functory.events.get(answer.json()["event"])
    assert event["data"]["body"] == {"action": "opened"}
    again = httpx.put(f"{url}/webhooks/github?a=b", content=body, headers=headers(body, "one"))
    assert again.json() == {"event": event["id"], "duplicate": True}


def test_names_are_of_any_letters_that_names_have_and_no_path_leads_elsewhere(
    functory: Functory, url: str
) -> None:
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
    assert httpx.get(f"{url}/webhooks/github").status_code == 405
    assert httpx.get(f"{url}/webhooks/none").status_code == 405


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


HOSTILE: dict[str, tuple[bytes, bytes]] = {
    "two signatures": (
        head(
            "content-length: 2",
            "content-type: application/json",
            f"x-hub-signature-256: {proof(b'{}')}",
            "X-Hub-Signature-256: sha256=00",
        )
        + b"{}",
        b"404",
    ),
    "two content types": (
        head("content-length: 2", "content-type: application/json", "content-type: text/plain") + b"{}",
        b"415",
    ),
    "two lengths": (head("content-length: 2", "content-length: 3") + b"{}", b"400"),
    "a length and chunks": (
        head("content-length: 5", "transfer-encoding: chunked", "content-type: application/json")
        + b"0\r\n\r\nPOST /x",
        b"4",
    ),
    "a negative length": (head("content-length: -1"), b"400"),
    "a length that is no number": (head("content-length: two"), b"400"),
    "a length beyond all": (head(f"content-length: {10**30}"), b"4"),
    "a length beyond the limit": (head(f"content-length: {LIMIT + 1}"), b"413"),
    "chunks beyond the limit": (
        head("transfer-encoding: chunked", "content-type: application/json")
        + b"1000\r\n"
        + b"x" * 4096
        + b"\r\n1\r\nx\r\n",
        b"413",
    ),
    "chunks that are none": (
        head("transfer-encoding: chunked", "content-type: application/json") + b"zz\r\n{}\r\n",
        b"400",
    ),
    "a compressed transfer": (head("transfer-encoding: gzip"), b"400"),
    "a header of 100 kB": (head("content-length: 2", "x-long: " + "x" * 100_000) + b"{}", b"4"),
    "a header that is not UTF-8": (
        head("content-length: 2", "content-type: application/json", "x-hub-signature-256: \xff\xfe") + b"{}",
        b"404",
    ),
    "a header with a NUL": (head("content-length: 2", "x-hub-signature-256: a\x00b") + b"{}", b"400"),
    "a folded header": (head("content-length: 2", "x-a: b\r\n c") + b"{}", b"4"),
    "white space before the colon": (head("content-length : 2"), b"400"),
    "a method that is none": (b"PO ST /webhooks/github HTTP/1.1\r\n\r\n", b"400"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_requests_are_refused_and_the_server_serves_on(
    name: str, functory: Functory, url: str
) -> None:
    sent, status = HOSTILE[name]
    before = count(functory)
    answer = raw(url, sent)
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:200]
    assert count(functory) == before
    assert httpx.post(f"{url}/webhooks/github", content=b"{}", headers=headers(b"{}")).status_code == 202


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"0" * 10_000_000)[:4000]),
        ("deflate, gzip", b"{}"),
        ("br", b"{}"),
        ("x", b"{}"),
    ],
)
@pytest.mark.parametrize("path", ["webhooks/github", "webhooks/none", "events"])
def test_compressed_bodies_are_not_read(url: str, encoding: str, body: bytes, path: str) -> None:
    answer = httpx.post(
        f"{url}/{path}", content=body, headers=headers(body, content_encoding=encoding, ce_specversion="1.0")
    )
    assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "identity")
    identity = httpx.post(
        f"{url}/webhooks/github", content=b"{}", headers=headers(b"{}", content_encoding="identity")
    )
    assert identity.status_code == 202


def test_a_body_in_pieces_of_one_byte_is_the_same_body(functory: Functory, url: str) -> None:
    body = b'{"n": 1}'
    sent = [b"1\r\n" + body[n : n + 1] + b"\r\n" for n in range(len(body))]
    answer = raw(
        url,
        head(
            "transfer-encoding: chunked",
            "content-type: application/json",
            f"x-hub-signature-256: {proof(body)}",
        ),
        *sent,
        b"0\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 202")


def test_a_body_that_does_not_come_is_not_waited_for_and_holds_nobody_up(tmp_path: Path) -> None:
    with serving(tmp_path, body_seconds=1.0) as (functory, url):
        begun = head(
            "content-length: 10", "content-type: application/json", f"x-hub-signature-256: {proof(b'{}')}"
        )
        with ThreadPoolExecutor(50) as pool:
            slow = [pool.submit(raw, url, begun + b"{") for _ in range(50)]
            # While fifty senders hold their bodies back, others are served.
            answer = httpx.post(f"{url}/webhooks/github", content=b"{}", headers=headers(b"{}"), timeout=20)
            assert answer.status_code == 202
            assert all(one.result().startswith(b"HTTP/1.1 408") for one in slow)
        # One who goes away in the middle is no defect either.
        host, _, port = url.removeprefix("http://").partition(":")
        socket.create_connection((host, int(port))).sendall(begun + b"{")
        assert httpx.post(f"{url}/webhooks/github", content=b"{}", headers=headers(b"{}")).status_code == 202
        assert count(functory) == 2


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
    refused = httpx.post(f"{url}/webhooks/slow", content=b"{}", headers=headers(b"{}"))
    assert refused.status_code == 429 and 3500 < int(refused.headers["retry-after"]) <= 3600
    deadline = time.monotonic() + 20
    while not functory.sources.get("webhook", "slow")["problem"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


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
        (b"{}", headers(b"{}", "counted")),
        (b"{}", headers(b"{}", "counted")),
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


def test_cloudevents_of_the_standards_own_package_are_taken_in_both_modes_as_one(
    functory: Functory, url: str
) -> None:
    event = CloudEvent(
        attributes={
            "id": "ö 1",
            "source": "/shop",
            "type": "order.created",
            "specversion": "1.0",
            "subject": "Grüße",
            "datacontenttype": "application/json",
            "tenant": "a b",
        },
        data={"n": 1},
    )
    answers = []
    for made in (to_binary(event, JSONFormat()), to_structured(event, JSONFormat())):
        answers.append(httpx.post(f"{url}/events", content=made.body, headers=made.headers))
    assert [answer.status_code for answer in answers] == [202, 202]
    assert [answer.json()["duplicate"] for answer in answers] == [False, True]
    row = functory.events.get(answers[0].json()["event"])
    assert answers[1].json()["event"] == row["id"]
    assert (row["source"], row["subject"], row["data"]) == ("/shop", "Grüße", {"n": 1})
    assert row["extensions"] == {"tenant": "a b", "functorysenderid": "ö 1"}


def batch(*changes: dict[str, Any]) -> bytes:
    base = {"specversion": "1.0", "source": "/batch", "type": "batch.sent", "data": 1}
    return json.dumps([base | change for change in changes]).encode()


BATCH = {"content-type": "application/cloudevents-batch+json; charset=utf-8"}


def test_a_batch_is_taken_as_a_whole_or_not_at_all(functory: Functory, url: str) -> None:
    wrong = httpx.post(
        f"{url}/events",
        headers=BATCH,
        content=batch({"id": "1"}, {"id": "2", "type": "execution.failed"}, {"id": ""}, {"id": "4"}),
    )
    assert wrong.status_code == 400
    assert [
        (fault["index"], "reserved" in fault["why"] + fault["what"]) for fault in wrong.json()["errors"]
    ] == [
        (1, True),
        (2, False),
    ]
    large = httpx.post(
        f"{url}/events", headers=BATCH, content=batch({"id": "1"}, {"id": "2", "data": "x" * LIMIT})
    )
    assert large.status_code == 400 and large.json()["errors"][0]["index"] == 1
    assert count(functory, "batch.sent") == 0
    right = httpx.post(f"{url}/events", headers=BATCH, content=batch({"id": "1"}, {"id": "2"}, {"id": "1"}))
    answers = right.json()["events"]
    assert [answer["duplicate"] for answer in answers] == [False, False, True]
    assert answers[0]["event"] == answers[2]["event"] != answers[1]["event"]
    again = httpx.post(f"{url}/events", headers=BATCH, content=batch({"id": "2"}, {"id": "3"})).json()[
        "events"
    ]
    assert [answer["duplicate"] for answer in again] == [True, False]
    assert again[0]["event"] == answers[1]["event"]
    assert count(functory, "batch.sent") == 3
    assert httpx.post(f"{url}/events", headers=BATCH, content=b"[]").json() == {"events": []}
    for body in (b"{}", b"[", batch(*({"id": str(n)} for n in range(30)))[:-1]):
        assert httpx.post(f"{url}/events", headers=BATCH, content=body).status_code == 400


def test_two_batches_in_another_order_do_not_wait_for_each_other(functory: Functory, url: str) -> None:
    ids = [{"id": f"o{n}"} for n in range(20)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(
                lambda n: httpx.post(
                    f"{url}/events",
                    headers=BATCH,
                    content=batch(*(ids if n % 2 else ids[::-1])),
                    timeout=20,
                ),
                range(16),
            )
        )
    assert {answer.status_code for answer in answers} == {202}
    fresh = [one for answer in answers for one in answer.json()["events"] if not one["duplicate"]]
    assert len(fresh) == 20


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"content-type": "application/cloudevents+avro"}, 415),
        ({"content-type": "application/cloudevents-batch+xml"}, 415),
        ({"content-type": "application/cloudevents+json; charset=utf-16"}, 415),
        ({"content-type": "application/cloudevents+json"}, 400),
        ({"content-type": "application/json"}, 400),
        ({"ce-specversion": "1.0", "ce-type": "a.b", "ce-source": "/x"}, 400),
        ({"ce-specversion": "1.0", "ce-type": "file.created", "ce-source": "/x", "ce-id": "1"}, 400),
        ({"ce-specversion": "1.0", "ce-type": "a.b", "ce-source": "/functory/x", "ce-id": "1"}, 400),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(url: str, given: dict[str, str], status: int) -> None:
    answer = httpx.post(f"{url}/events", headers=given, content=b"[]")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json" and answer.json()["title"]


def test_events_are_not_larger_than_events_are(url: str) -> None:
    given = {"ce-specversion": "1.0", "ce-type": "a.b", "ce-source": "/x", "ce-id": "large"}
    given |= {"content-type": "text/plain"}
    answer = httpx.post(f"{url}/events", headers=given, content=b"x" * (LIMIT + 1))
    assert answer.status_code == 400 and "too large" in answer.json()["title"]
    assert httpx.post(f"{url}/events", headers=given, content=b"x" * 100_000).status_code == 413


def test_a_token_is_asked_for_where_one_is_set(tmp_path: Path) -> None:
    with serving(tmp_path, events_token=TOKEN, host="0.0.0.0") as (functory, url):
        event = {"ce-specversion": "1.0", "ce-type": "a.b", "ce-source": "/x", "ce-id": "1"}
        for given in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": TOKEN},
            {"authorization": f"Basic {TOKEN}"},
            {"authorization": "Bearer"},
        ):
            answer = httpx.post(f"{url}/events", headers=event | given)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert TOKEN not in answer.text
        twice = [*event.items(), ("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer x")]
        assert httpx.post(f"{url}/events", headers=twice).status_code == 401
        assert (
            httpx.post(f"{url}/events", headers=event | {"authorization": f"bearer {TOKEN}"}).status_code
            == 202
        )
        assert count(functory, "a.b") == 1


@pytest.mark.parametrize(
    ("listens", "host", "taken"),
    [
        ("127.0.0.1", "127.0.0.1:7400", True),
        ("127.0.0.1", "localhost", True),
        ("::1", "[::1]:7400", True),
        # A page in a browser that has made its own name point here.
        ("127.0.0.1", "evil.example.com", False),
        ("127.0.0.1", "localhost.evil.example.com", False),
        ("127.0.0.1", "", False),
        ("0.0.0.0", "127.0.0.1", False),
        ("192.168.1.5", "127.0.0.1", False),
    ],
)
def test_without_a_token_only_this_machine_may_send_and_under_its_own_name(
    listens: str, host: str, taken: bool
) -> None:
    settings = Settings(host=listens)
    refused = cloudevents.authorization_error(settings, [], [host])
    assert (refused is None) is taken
    if refused is not None:
        assert refused.status_code == 403 and b"FUNCTORY_EVENTS_TOKEN" in refused.body
    assert cloudevents.authorization_error(settings, [], ["localhost", "evil.example.com"]) is not None


KILLS = 2
PROGRAM = """
import signal, sys, threading
from pathlib import Path
from functory.engine.settings import Settings
from functory.api import create_app
from functory.api.server import Server
from functory.client import Functory

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
        client = stack.enter_context(httpx.Client(timeout=20))
        ending = threading.Event()

        def send(delivery: str) -> None:
            """As a sender does it: until there is an answer that says taken."""
            body = json.dumps({"delivery": delivery}).encode()
            deadline = time.monotonic() + 60
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
                    ending.wait(60)
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
            supervisor.join(60)
        assert len(answered) == 100
        rows = functory.events.list(type_="webhook.received", limit=1000)
        assert {
            delivery: {row["id"]} for row in rows for delivery in [row["data"]["body"]["delivery"]]
        } == answered
        assert len(rows) == 100
