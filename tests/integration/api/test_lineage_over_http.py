"""Requests that carry a lineage token: their events continue the tree of the execution that the token names."""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from functory.client.functory import Functory
from functory.engine.access.secrets import Secrets
from functory.engine.events.causation import CausingExecution
from functory.engine.events.lineage_tokens import HEADER, TRACESTATE, VALID_FOR, LineageTokens
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from tests.support.http_sender import headers as signed

BODY = b'{"action": "opened"}'


@pytest.fixture
def row(functory: Functory) -> CausingExecution:
    """An execution."""
    functory.functions.save("def caller():\n    return None\n")
    started = functory.executions.start("caller", {})
    return CausingExecution(**{name: started[name] for name in CausingExecution.__struct_fields__})


def now(functory: Functory) -> datetime:
    return functory.database.clock.now()


@pytest.fixture
def headers(functory: Functory, row: CausingExecution) -> dict[str, str]:
    return LineageTokens(functory.secrets.derive_keys).headers(row, now(functory))


def counted(result: str) -> float:
    return metrics.lineage_tokens.labels(result)._value.get()


def deliver(url: str, given: Mapping[str, str]) -> str:
    # A body of its own each time: the same one would be the same delivery.
    body = json.dumps({"delivery": str(uuid.uuid4())}).encode()
    answer = httpx.post(f"{url}/webhooks/github", content=body, headers=signed(body) | dict(given))
    assert answer.status_code == 202, answer.text
    return answer.json()["event"]


def cause_of(functory: Functory, event_id: str) -> tuple[str, str | None, int]:
    event = functory.events.get(event_id)
    return event["root_id"], event["cause_execution_id"], event["depth"]


@pytest.mark.parametrize("names", [{HEADER}, {TRACESTATE}, {HEADER, TRACESTATE, "traceparent"}])
def test_a_webhook_continues_the_tree(
    functory: Functory, url: str, row: CausingExecution, headers: dict[str, str], names: set[str]
) -> None:
    before = counted("continued")
    event = deliver(url, {name: headers[name] for name in names})
    assert cause_of(functory, event) == (row.root_id, row.id, row.depth)
    assert counted("continued") == before + 1


def test_a_token_among_the_entries_of_other_traces_is_found(
    functory: Functory, url: str, row: CausingExecution, headers: dict[str, str]
) -> None:
    state = f"other=1, {headers[TRACESTATE]} ,third=2"
    assert cause_of(functory, deliver(url, {TRACESTATE: state}))[1] == row.id


def attributes(number: int, **more: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": str(number), "source": "/lineage", "type": "loop.turned", **more}


def test_events_continue_the_tree_in_each_form(
    functory: Functory, url: str, row: CausingExecution, headers: dict[str, str]
) -> None:
    def send(content: Any, media: str, **more: str) -> Any:
        given = {"content-type": media, **more}
        answer = httpx.post(f"{url}/events", content=json.dumps(content), headers=given)
        assert answer.status_code == 202, answer.text
        return answer.json()

    wanted = (row.root_id, row.id, row.depth)
    binary = {f"ce-{name}": value for name, value in attributes(1).items()}
    assert cause_of(functory, send({}, "application/json", **binary, **headers)["event"]) == wanted
    structured = "application/cloudevents+json"
    assert cause_of(functory, send(attributes(2), structured, **headers)["event"]) == wanted
    own = attributes(3, tracestate=headers[TRACESTATE])
    assert cause_of(functory, send(own, structured)["event"]) == wanted
    batch = send([attributes(4), attributes(5)], "application/cloudevents-batch+json", **headers)
    assert [cause_of(functory, one["event"]) for one in batch["events"]] == [wanted] * 2
    mixed = [attributes(6), attributes(7, tracestate=headers[TRACESTATE])]
    first, second = send(mixed, "application/cloudevents-batch+json")["events"]
    assert cause_of(functory, first["event"]) == (first["event"], None, 0)
    assert cause_of(functory, second["event"]) == wanted


def wrong(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Tokens that are none, and how each is counted."""
    token = headers[HEADER]
    for place, text in ((-1, "A"), (20, "0"), (50, "0"), (80, "7")):
        yield token[:place] + (text if token[place] != text else "B") + token[place:][1:], "forged"
    yield token.replace(".", ":"), "forged"
    yield token[:-1], "forged"
    yield re.sub(r"\.(\d+)\.(\d+)\.", r".\1.99\2.", token), "forged"
    yield "v2" + token[2:], "forged"
    yield "v1." + "0" * 8 + token[11:], "foreign"
    yield "x" * 5000, "forged"
    yield "\xe9\x85", "forged"


def test_a_token_that_is_not_ours_is_ignored_and_counted(
    functory: Functory, url: str, headers: dict[str, str]
) -> None:
    for token, result in wrong(headers):
        before = counted(result)
        answer = httpx.post(
            f"{url}/webhooks/github",
            content=BODY,
            headers=[*signed(BODY).items(), (HEADER, token.encode("latin-1"))],  # type: ignore[list-item]
        )
        event = answer.json()["event"]
        assert cause_of(functory, event) == (event, None, 0), token
        assert counted(result) == before + 1, token


def test_a_token_is_stale_after_its_time_and_means_nothing_elsewhere(
    functory: Functory, row: CausingExecution, headers: dict[str, str]
) -> None:
    tokens = LineageTokens(functory.secrets.derive_keys)
    given, made = list(headers.items()), now(functory)
    found = tokens.verify(given, made + VALID_FOR - timedelta(seconds=2))
    assert found is not None and found.execution_id == row.id
    before = counted("stale")
    assert tokens.verify(given, made + VALID_FOR + timedelta(seconds=2)) is None
    assert counted("stale") == before + 1, "both headers have the same token"
    key = SecretStr(base64.b64encode(bytes(32)).decode())
    other = LineageTokens(Secrets(functory.database, Settings(secret_key=key)).derive_keys)
    before = counted("foreign")
    assert other.verify(given, made) is None
    assert counted("foreign") == before + 1


def test_a_token_of_a_tree_that_was_deleted_is_ignored_and_counted(
    functory: Functory, url: str, row: CausingExecution
) -> None:
    gone = replace(row, id="01998c5e-0000-7000-8000-000000000000")
    headers = LineageTokens(functory.secrets.derive_keys).headers(gone, now(functory))
    before = counted("unknown")
    event = deliver(url, headers)
    assert cause_of(functory, event) == (event, None, 0)
    assert counted("unknown") == before + 1


def test_the_deepest_of_several_tokens_counts(functory: Functory, row: CausingExecution) -> None:
    tokens = LineageTokens(functory.secrets.derive_keys)
    given = [
        (HEADER, tokens.headers(replace(row, depth=depth), now(functory))[HEADER]) for depth in (1, 7, 3)
    ]
    found = tokens.verify(given, now(functory))
    assert found is not None and found.depth == 7


def test_without_a_key_requests_carry_nothing_and_none_is_read(
    functory: Functory, row: CausingExecution, headers: dict[str, str]
) -> None:
    settings = Settings(home=functory.settings.home / "elsewhere", broker_url=SecretStr("none://"))
    tokens = LineageTokens(Secrets(functory.database, settings).derive_keys)
    assert tokens.headers(row, now(functory)) == {}
    assert tokens.verify(list(headers.items()), now(functory)) is None


def test_headers_have_the_form_of_a_trace_context_and_no_key(
    functory: Functory, row: CausingExecution, headers: dict[str, str]
) -> None:
    assert re.fullmatch(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", headers["traceparent"])
    name, _, value = headers[TRACESTATE].partition("=")
    assert re.fullmatch(r"[a-z][a-z0-9_*/-]*", name)
    assert value == headers[HEADER] and re.fullmatch(r"[\x21-\x2b\x2d-\x3c\x3e-\x7e]{1,256}", value)
    ids = [row.root_id, row.id]
    assert [headers[HEADER].split(".")[part] for part in (2, 3)] == [one.replace("-", "") for one in ids]


def test_a_token_gives_no_access(url: str, headers: dict[str, str]) -> None:
    given = {"content-type": "application/json", **headers}
    assert httpx.post(f"{url}/webhooks/github", content=BODY, headers=given).status_code == 404
