"""CloudEvents over real sockets: single ones, batches, and the senders that may send them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from cloudevents.core.bindings.http import to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from fastapi import Request

from functory.api import cloudevents
from functory.client.functory import Functory
from functory.engine.settings import Settings
from tests.support.http_sender import LIMIT, count, serving
from tests.support.patience import patient

TOKEN = "t0ken-of-the-test"


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


def test_a_batch_may_be_larger_than_an_event(
    functory: Functory, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functory.api.cloudevents.BATCH_BYTES", 200_000)
    events = [
        {"id": f"large {n}", "type": "batch.large", "data": "x" * (LIMIT - 100)}
        for n in range(100_000 // LIMIT + 1)
    ]
    body = batch(*events)
    assert len(body) > 70_000 + LIMIT
    assert httpx.post(f"{url}/events", headers=BATCH, content=body).status_code == 202
    assert count(functory, "batch.large") == len(events)
    single = httpx.post(
        f"{url}/events", headers={"content-type": "application/cloudevents+json"}, content=body
    )
    assert single.status_code == 413
    assert httpx.post(f"{url}/events", headers=BATCH, content=body + b" " * 200_000).status_code == 413


def test_two_batches_in_another_order_do_not_wait_for_each_other(functory: Functory, url: str) -> None:
    ids = [{"id": f"o{n}"} for n in range(20)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(
                lambda n: httpx.post(
                    f"{url}/events",
                    headers=BATCH,
                    content=batch(*(ids if n % 2 else ids[::-1])),
                    timeout=patient(20),
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
    refused = cloudevents.authorization_error(settings, request(host))
    assert (refused is None) is taken
    if refused is not None:
        assert refused.status_code == 403 and b"FUNCTORY_EVENTS_TOKEN" in refused.body
    assert cloudevents.authorization_error(settings, request("localhost", "evil.example.com")) is not None


@pytest.mark.parametrize("header", ["forwarded", "via", "x-forwarded-for", "x-real-ip"])
def test_without_a_token_nothing_that_a_proxy_passes_on_is_taken(header: str) -> None:
    # nginx, unless told otherwise, calls the server by the address at which it reaches it.
    local = "127.0.0.1:7400"
    assert cloudevents.authorization_error(Settings(), request(local)) is None
    assert cloudevents.authorization_error(Settings(), request(local, **{header: "10.0.0.7"})) is not None
    assert cloudevents.authorization_error(Settings(), request(local, version="1.0")) is not None
    behind = Settings(public_url="https://functory.example.com")
    assert cloudevents.authorization_error(behind, request(local)) is not None


def request(*hosts: str, version: str = "1.1", **headers: str) -> Request:
    pairs = [*(("host", host) for host in hosts), *headers.items()]
    raw = [(name.encode(), value.encode()) for name, value in pairs]
    return Request({"type": "http", "http_version": version, "headers": raw})
