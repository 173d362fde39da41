"""Hostile requests to the API: each is refused with a problem, none is a defect, and no answer is a page."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import httpx
import orjson
import pytest
from pydantic import SecretStr

from functory.api import request_body
from functory.api.api_request import LEAST_LIMIT, OPEN_LIMIT
from functory.client.functory import Functory
from functory.engine.database.clock import SystemClock
from functory.engine.settings import Settings
from tests.support.api_client import ApiClient
from tests.support.api_routes import ApiRoute, api_routes
from tests.support.http_sender import raw
from tests.support.thoroughness import thorough
from tests.support.two_teams import fail
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

SCRIPT = "<script>alert(1)</script>"
ID = "01998c5e-0000-7000-8000-000000000000"
# What no route expects, wherever it is sent.
IN_ADDRESSES = (f"a\x00b{SCRIPT}", "../../etc/passwd", "x" * 5000, str(2**63), "-1")
IN_BODIES: tuple[Any, ...] = (
    SCRIPT, "a\x00b", "\ud800", 2**31, 10**30, 1e308, -1, None, {"a\x00": "\x00"}, ["\x00", {"a": "\ud800"}],
)  # fmt: skip


@pytest.fixture
def api(database_url: str, tmp_path: Path) -> Iterator[ApiClient]:
    """An API over each database, whose engine is not started."""
    with Functory(Settings(home=tmp_path / "home", database_url=SecretStr(database_url))) as opened:
        opened.functions.save("def work(**given):\n    return None\n")
        opened.save_trigger("watch", on={"type": ["a.b"]}, function="work")
        opened.sources.save("schedule", "hourly", {"every": "1h"})
        yield ApiClient(opened)


def routes_of(api: ApiClient) -> tuple[list[ApiRoute], dict[str, Any]]:
    app: Any = api._client.app
    return [one for one in api_routes(app) if one.operation != "stream.open"], app.openapi()


def described(document: dict[str, Any], route: ApiRoute) -> dict[str, Any]:
    return document["paths"][route.path.replace(":path}", "}")][route.method.lower()]


def fields_of(document: dict[str, Any], route: ApiRoute) -> list[str]:
    """The members of the bodies that a route takes."""
    given = described(document, route).get("requestBody", {}).get("content", {}).get("application/json", {})
    found: list[str] = []
    waiting = [given.get("schema", {})]
    while waiting:
        one = waiting.pop()
        if "$ref" in one:
            one = document["components"]["schemas"][one["$ref"].rpartition("/")[2]]
        waiting += one.get("anyOf", [])
        found += one.get("properties", {})
    return sorted(set(found))


def check(answer: Any, what: object) -> str | None:
    """What is wrong with an answer."""
    kind = answer.headers.get("content-type", "")
    fine = kind in ("application/json", "application/problem+json") or not answer.content
    if answer.status_code >= 500 or not fine or answer.headers["x-content-type-options"] != "nosniff":
        return f"{what!r:.200}: {answer.status_code} {kind} {answer.text[:200]}"
    return None


def named(route: ApiRoute) -> str:
    """A path whose names exist, so that a request comes as far as it can."""
    known = {"functions": "work", "triggers": "watch", "sources": "hourly", "state": "work"}
    return route.filled(known.get(route.path.split("/")[3].partition(":")[0], ID)).removeprefix("/api/v1")


class Chosen:
    """Values to send: one of them for each place, by the seed of this run; all of them when the run is thorough."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def of(self, values: Sequence[Any]) -> Sequence[Any]:
        return values if thorough() else [self._random.choice(values)]


@pytest.fixture
def chosen(pytestconfig: pytest.Config) -> Chosen:
    return Chosen(pytestconfig.option.hypothesis_seed)


def test_no_value_in_any_parameter_or_path_is_a_defect(api: ApiClient, chosen: Chosen) -> None:
    routes, document = routes_of(api)
    wrong = []
    for route in routes:
        body = {} if route.method in ("POST", "PUT", "PATCH") else None
        parameters = described(document, route).get("parameters", ())
        for value in chosen.of(IN_ADDRESSES):
            for one in parameters:
                if one["in"] == "query":
                    given = {"params": {one["name"]: value}}
                    wrong.append(check(api.answer(route.method, named(route), body, **given), (route, given)))
            if "{" in route.path:
                path = route.filled(httpx.QueryParams({"v": value or "-"}).__str__()[2:]).removeprefix(
                    "/api/v1"
                )
                wrong.append(check(api.answer(route.method, path, body), path))
    found = [one for one in wrong if one]
    assert not found, "\n".join(found[:40])


def test_no_value_in_any_member_of_a_body_is_a_defect(api: ApiClient, chosen: Chosen) -> None:
    routes, document = routes_of(api)
    wrong = []
    required = {"function": "work", "trigger": "watch", "version": 1, "kind": "host", "reason": "no", "value": "a",
                "config": {"every": "1h"}, "from": "2026-01-01T00:00:00Z", "until": "2026-01-01T01:00:00Z",
                "type": "a.b", "definition": {"on": {"type": ["a.b"]}, "function": "work"}, "event": ID,
                "draft": {"on": {"type": ["a.b"]}, "function": "work"}, "action": "retry", "maximum": 5,
                "mark": "good",
                "name": "ada", "ids": [ID]}  # fmt: skip
    for route in routes:
        names = fields_of(document, route)
        usual = {name: required[name] for name in names if name in required}
        for name in names:
            for value in chosen.of(IN_BODIES):
                text = json.dumps(usual | {name: value})
                sent = api._client.request(
                    route.method,
                    f"/api/v1{named(route)}",
                    content=text,
                    headers={"content-type": "application/json"},
                )
                wrong.append(check(sent, (route.operation, name, value)))
    found = [one for one in wrong if one]
    assert not found, "\n".join(found[:40])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    """An API over SQLite for what does not depend on the database."""
    with Functory(Settings(home=tmp_path_factory.mktemp("small"))) as opened:
        opened.functions.save("def work(**given):\n    return None\n")
        yield ApiClient(opened)


def body(api: ApiClient, text: bytes, path: str = "/executions", **headers: str) -> Any:
    given = {"content-type": "application/json"} | {
        key.replace("_", "-"): one for key, one in headers.items()
    }
    return api._client.post(
        f"/api/v1{path}", content=text, headers={key: one for key, one in given.items() if one}
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"function": "work", "function": "other"}', "given twice"),
        (b'{"function": "work", "input": {"a": 1, "b": {"c": 1, "c": 2}}}', "given twice"),
        (b"[" * 100_000, "deep"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "deep"),
        (b'{"function": "work", "delay": NaN}', "JSON"),
        (b'{"function": "work", "priority": ' + b"9" * 5000 + b"}", "JSON"),
        ('{"function": "work"}'.encode("utf-16"), "UTF-8"),
        (b'{"function": "\xff"}', "UTF-8"),
        (b"\xef\xbb\xbf{}", "JSON"),
        (b'{"function": "work"} {}', "JSON"),
        (b"{'function': 'work'}", "JSON"),
    ],
)
def test_what_two_readers_would_read_in_two_ways_is_refused(small: ApiClient, text: bytes, says: str) -> None:
    answer = body(small, text)
    assert answer.status_code == 400
    assert says in answer.json()["title"] + answer.json().get("detail", "")


def test_numbers_beyond_all_are_refused_or_kept(small: ApiClient) -> None:
    for member in ('"delay": 1e999', '"priority": 1e999', '"version": 1e400', f'"version": {10**100}'):
        assert body(small, b'{"function": "work", %s}' % member.encode()).status_code == 422
    assert body(small, b'{"function": "work", "input": {"a": 1e999}}').status_code in (400, 422)
    made = body(small, b'{"function": "work", "input": {"a": %d}}' % 10**100).json()
    assert small.get(f"/executions/{made['id']}/input") == {"a": 10**100}


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", "text/html", "",
     "application/json; charset=utf-16", "application/xml", "json"],
)  # fmt: skip
def test_a_body_of_another_type_is_not_read(small: ApiClient, kind: str) -> None:
    assert body(small, b'{"function": "work"}', content_type=kind).status_code == 415
    assert body(small, b'{"function": "work"}', content_encoding="gzip").status_code == 415


def test_a_method_is_what_it_is(small: ApiClient) -> None:
    client: Any = small._client
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "HEAD", "OPTIONS", "FROB"):
        answer = client.request(method, "/api/v1/executions")
        assert answer.status_code in (404, 405), method
        assert not answer.headers.get("access-control-allow-origin")
    before = len(small.get("/executions")["items"])
    for header in ("x-http-method-override", "x-method-override", "x-http-method"):
        client.get("/api/v1/executions", headers={header: "POST"}, params={})
        assert client.get("/api/v1/executions", params={"_method": "POST"}).status_code == 400
    assert len(small.get("/executions")["items"]) == before


LISTS = ("/executions", "/events", "/functions", "/functions/work/versions", "/triggers", "/suppressions", "/audit",
         "/batches", "/backtests", "/state?function=work", "/runs", "/approvals", "/calls")  # fmt: skip


@pytest.mark.parametrize("path", LISTS)
def test_a_forged_cursor_is_refused(small: ApiClient, path: str) -> None:
    place, _, query = path.partition("?")
    filters = [query.split("=")] if query else []
    digest = hashlib.sha256(orjson.dumps([f"/api/v1{place}", filters])).hexdigest()[:16]
    forged: list[Any] = [
        5, None, [], ["a"], "text", {"a": 1}, [None, digest], [{"a": 1}, digest], [["a"], digest], [2**40, digest],
        [-1.5, digest], [True, digest], ["\x00", digest], [["a", "b", "c", "d"], digest],
        [["0001-01-01T00:00:00+14:00", ID, ID, "a"], digest], [ID, "of another list"],
    ]  # fmt: skip
    for one in forged:
        cursor = base64.urlsafe_b64encode(orjson.dumps(one)).decode().rstrip("=")
        answer = small.answer("GET", f"{place}?{query}", params={"before": cursor} | dict(filters))
        assert answer.status_code in (400, 404), (one, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
    for text in ("", "=", "%00", "é", "A" * 10_000, "W10", "bnVsbA"):
        assert small.answer("GET", place, params={"before": text} | dict(filters)).status_code == 400


def test_headers_that_are_none_are_refused(small: ApiClient) -> None:
    source = {"source": "def work(**given):\n    return 1\n"}
    for tag in ("W/", "'1'", '"1", "2"', "-1", "1" * 30, '"', "\xb2", "\xd9\xa1"):
        answer = small.answer("PUT", "/functions/work", source, headers={"if-match": tag.encode("latin-1")})
        assert answer.status_code == 400, tag
    for key in ("", "x" * 201):
        given = {"idempotency-key": key}
        assert small.answer("POST", "/executions", {"function": "work"}, headers=given).status_code == 422


def test_a_script_is_no_name_and_every_answer_with_one_is_data(
    api: ApiClient, database_url: str, tmp_path: Path
) -> None:
    for method, path, given in (
        ("PUT", f"/functions/{SCRIPT}", {"source": "def work():\n    return 1\n"}),
        ("PUT", f"/triggers/{SCRIPT}", {"definition": {"on": {"type": ["a.b"]}, "function": "work"}}),
        ("PUT", f"/sources/schedule/{SCRIPT}", {"config": {"every": "1h"}}),
        ("PUT", f"/secrets/{SCRIPT}", {"value": "a"}),
        ("POST", "/users", {"name": SCRIPT}),
        ("POST", "/functions/work:labels", {"add": [SCRIPT]}),
        ("POST", "/events", {"type": SCRIPT}),
    ):
        assert api.answer(method, path, given).status_code in (400, 404, 405), path
    world = World(database_url, tmp_path / "world", clock=SystemClock())
    row = world.executions.start("work", {SCRIPT: SCRIPT})
    fail(world, row, SCRIPT)
    event = world.events.emit("a.b", {"a": SCRIPT}, subject=SCRIPT, dedup_key=SCRIPT)
    world.state.set("work", SCRIPT, SCRIPT)
    world.close()
    api.post("/triggers/watch:pause", {"note": SCRIPT})
    routes, _ = routes_of(api)
    wrong, seen = [], 0
    for route in (one for one in routes if one.method == "GET"):
        for value in ("work", "watch", "hourly", row["id"], event):
            answer = api.answer("GET", route.filled(value).removeprefix("/api/v1"))
            wrong.append(check(answer, route))
            seen += SCRIPT in answer.text
    assert not any(wrong), wrong
    assert seen > 10
    saved = api.answer("GET", f"/executions/{row['id'].upper()}/input")
    assert saved.headers["content-disposition"] == f'attachment; filename="{row["id"]}-input.json"'
    assert saved.headers["content-security-policy"] == "sandbox; default-src 'none'"
    made = api.answer(
        "POST", "/executions", {"function": "work"}, headers={"x-forwarded-prefix": "//evil.example"}
    )
    assert made.headers["location"] == f"/api/v1/executions/{made.json()['id']}"


# Over a socket.


@pytest.fixture(scope="module")
def token(served: tuple[Functory, str]) -> str:
    served[0].users.create("hostile", SecretStr("correct horse battery"), role="admin")
    return served[0].tokens.create("hostile", "ci")["token"]


def lines(*given: str, method: str = "POST", path: str = "/api/v1/executions") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "connection: close", *given, "", ""]
    return "\r\n".join(head).encode("latin-1")


def test_a_body_beyond_the_limit_is_cut(url: str, token: str) -> None:
    known = (f"authorization: Bearer {token}", "content-type: application/json")
    assert raw(url, lines(*known, f"content-length: {LEAST_LIMIT + 1}")).startswith(b"HTTP/1.1 413")
    chunk = b"%x\r\n" % (LEAST_LIMIT + 1) + b" " * (LEAST_LIMIT + 1) + b"\r\n"
    assert raw(url, lines(*known, "transfer-encoding: chunked"), chunk).startswith(b"HTTP/1.1 413")
    begin = lines("content-type: application/json", f"content-length: {OPEN_LIMIT + 1}", path="/api/v1/login")
    assert raw(url, begin).startswith(b"HTTP/1.1 413")


def test_a_body_of_a_stranger_is_not_waited_for(url: str) -> None:
    begun = lines("content-type: application/json", f"content-length: {LEAST_LIMIT}")
    assert raw(url, begun + b"{").startswith(b"HTTP/1.1 401")
    false = lines(
        "authorization: Bearer fnc_no", "content-type: application/json", f"content-length: {LEAST_LIMIT}"
    )
    assert raw(url, false + b"{").startswith(b"HTTP/1.1 401")


def test_a_body_that_does_not_come_is_not_waited_for(
    url: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "READ_TIMEOUT_SECONDS", 0.3)
    known = (f"authorization: Bearer {token}", "content-type: application/json", "content-length: 100")
    assert raw(url, lines(*known) + b'{"function"').startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "path",
    ["/../../../../etc/passwd", "/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "/assets/../../../../etc/passwd",
     "/assets/..%2f..%2f..%2f..%2fetc%2fpasswd", "/assets/%2e%2e/serving.py", "/assets/%00", "//etc/passwd",
     "/assets/..\\..\\serving.py", "/%5c..%5c..%5cserving.py", "/executions/%2e%2e/%2e%2e/serving.py",
     "/api/v1/functions/..%2f..%2f..%2fetc%2fpasswd", "/api/v1/functions/work%00", "/api/v1/state/work/..%2f..%2fa",
     "/api/v1/executions/%ff%fe", "/api/v1/%2e%2e/openapi.json", "/file:///etc/passwd", "/index.html%00.js"],
)  # fmt: skip
def test_no_path_reaches_another_file(url: str, token: str, path: str) -> None:
    answer = raw(url, lines(f"authorization: Bearer {token}", method="GET", path=path))
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.split(b" ", 2)[1] in (b"200", b"400", b"404"), head
    assert b"x-content-type-options: nosniff" in head
    assert b"root:" not in content and b"def mount" not in content and b"openapi" not in content
    if path.startswith("/api/"):
        assert b"content-type: application/problem+json" in head


def test_half_a_character_in_a_payload_breaks_no_list_and_is_kept(api: ApiClient) -> None:
    half = {"a\ud800": ["\udfff", "é😀"]}
    text = json.dumps({"function": "work", "input": half}).encode()
    made = body(api, text).json()
    assert [row["id"] for row in api.get("/executions")["items"]] == [made["id"]]
    assert api.get(f"/executions/{made['id']}/input") == half
    body(api, json.dumps({"type": "a.b", "data": half}).encode(), "/events")
    (event,) = api.get("/events", type="a.b")["items"]
    assert api.get(f"/events/{event['id']}")["data"] == {"a�": ["�", "é😀"]}
