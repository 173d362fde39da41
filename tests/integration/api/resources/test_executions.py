"""Executions, events, trees and search over HTTP: what a caller gets, what is hidden, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from functory.client.functory import Functory
from functory.engine.access.labels import Labels
from functory.engine.database import schema, short_ids
from tests.support.api_client import ApiClient
from tests.support.orders import ORDER
from tests.support.world import World, world_beside

pytest_plugins = ["tests.support.world"]

# A word that payloads hold, to look for.
SECRET = "pineapple"
HIDDEN = {"redacted": "payload:read"}


@pytest.fixture
def world(engine: Functory) -> Iterator[World]:
    """The services over the database of ``engine``: the test plays router and worker."""
    with world_beside(engine) as opened:
        yield opened


@pytest.fixture
def api(engine: Functory, world: World) -> ApiClient:
    for name in ("work", "bill"):
        world.function(name, limits={"retries": 0})
    world.trigger("on-order", "bill", ORDER)
    return ApiClient(engine)


def failed(world: World, function: str = "work") -> str:
    row = world.executions.start(function, {"word": SECRET, "n": 1})
    world.finish(
        world.claim(row),
        "failed",
        error={"type": "ValueError", "message": SECRET, "traceback": SECRET, "frames": [{"line": SECRET}]},
        warnings=[SECRET],
        logs=[{"seq": 1, "stream": "stdout", "level": "info", "text": SECRET, "offset_seconds": 0.1}],
        spans=[
            {"seq": 1, "parent_seq": None, "function": "bill", "version": 1, "input": {"w": SECRET}, "output": SECRET,
             "error": None, "offset_seconds": 0.0, "duration_seconds": 0.1}
        ],
    )  # fmt: skip
    return row["id"]


def ordered(world: World) -> tuple[str, str]:
    """An order with a bill; their ids."""
    order = world.events.emit("order.created", {"word": SECRET}, subject=SECRET)
    world.route()
    (bill,) = world.executions.list(function="bill")
    return order, bill["id"]


def test_pages_lead_through_all_executions_and_cursors_belong_to_their_filters(
    api: ApiClient, world: World
) -> None:
    ids = [world.start()["id"] for _ in range(5)]
    first = api.get("/executions", limit=2)
    second = api.get("/executions", limit=2, before=first["next"])
    last = api.get("/executions", limit=2, before=second["next"])
    assert [row["id"] for page in (first, second, last) for row in page["items"]] == ids[::-1]
    assert last["next"] is None
    wrong = api.get("/executions", status=400, limit=2, before=first["next"], state="queued")
    assert "other filters" in wrong["title"]
    assert "cannot be read" in api.get("/executions", status=400, before="nonsense")["title"]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/executions?colour=red", "unknown parameter colour"),
        ("/executions?state=lost", "unknown state 'lost'"),
        ("/executions?since=yesterday", "wrong since 'yesterday'"),
        ("/executions?since=2026-01-31T08:00:00", "wrong since '2026-01-31T08:00:00'"),
        ("/events?state=lost", "unknown state 'lost'"),
        ("/events?subject=a", "a subject needs a type"),
        ("/search?q=a&at=1", "unknown parameter at"),
    ],
)
def test_a_filter_that_is_not_known_is_refused_and_says_why(api: ApiClient, path: str, says: str) -> None:
    assert says in api.get(path, status=400)["title"]


def test_since_is_a_duration_or_a_time(api: ApiClient, world: World) -> None:
    id_ = world.start()["id"]
    made = api.get(f"/executions/{id_}")["created_at"]
    assert [row["id"] for row in api.get("/executions", since="15m")["items"]] == [id_]
    assert [row["id"] for row in api.get("/executions", since=made[:19] + "Z")["items"]] == [id_]
    assert api.get("/executions", until="15m")["items"] == []


def test_a_caller_without_the_right_gets_a_marker_in_the_place_of_each_payload(
    api: ApiClient, world: World
) -> None:
    bad = failed(world)
    order, bill = ordered(world)
    paths = [
        "/executions", f"/executions/{bad}", f"/executions/{bad}/attempts", f"/executions/{bad}/logs",
        f"/executions/{bad}/spans", f"/executions/{bad}/trace", f"/executions/{bad}/why", f"/executions/{bad}/times",
        f"/executions/{bill}", f"/executions/{bill}/why",
        f"/trees/{bad}", f"/trees/{order}/outline", f"/trees/{order}/children?of={order}", f"/trees/{order}/nodes",
        "/events",
        f"/events/{order}", f"/events/{order}/decisions", f"/events/{order}/times", "/search?q=wor",
    ]  # fmt: skip
    readable = "".join(json.dumps(api.get(path)) for path in paths)
    assert readable.count(SECRET) >= 12
    with api.as_("viewer"):
        for path in paths:
            answer = api.answer("GET", path)
            assert answer.status_code == 200 and SECRET not in answer.text, path
        row = api.get(f"/executions/{bad}")
        assert (row["about"], row["error_type"], row["error"]["type"]) == (HIDDEN, "ValueError", "ValueError")
        assert row["error"]["message"] == row["error"]["traceback"] == row["error"]["frames"] == HIDDEN
        assert api.get(f"/executions/{bad}/logs")[0]["text"] == HIDDEN
        assert api.get(f"/events/{order}")["data"] == HIDDEN
        for path in (
            f"/executions/{bad}/input",
            f"/executions/{bad}/result",
            "/executions?q=pine",
            "/events?q=pine",
        ):
            assert api.get(path, status=403)["needs"] == "payload:read"
    with api.as_("viewer", rights=["payload:read"]):
        assert api.get(f"/executions/{bad}/input") == {"word": SECRET, "n": 1}
        assert [row["id"] for row in api.get("/executions", q="pine", state="failed")["items"]] == [bad]


def test_one_answer_has_the_outline_the_attempts_and_the_calls_of_an_execution(
    api: ApiClient, world: World
) -> None:
    bad = failed(world)
    found = api.get(f"/executions/{bad}/trace")
    assert found["outline"] == api.get(f"/trees/{bad}/outline", at=bad)
    assert found["attempts"] == api.get(f"/executions/{bad}/attempts") != []
    assert found["spans"] == api.get(f"/executions/{bad}/spans") != []
    _, bill = ordered(world)
    (node,) = api.get(f"/executions/{bill}/trace", budget=1)["outline"]["nodes"]
    assert node["id"] == bill


def test_an_execution_names_the_event_that_started_it(api: ApiClient, world: World) -> None:
    order, bill = ordered(world)
    assert api.get(f"/executions/{bill}")["event"] == {
        "id": order,
        "type": "order.created",
        "subject": SECRET,
        "source": api.get(f"/events/{order}")["source"],
        "cause_execution_id": None,
    }
    assert api.get(f"/executions/{world.start()['id']}")["event"] is None


def _raised(world: World, source: str, **frame: object) -> str:
    """An execution of a new version of ``sums``, which failed in one of its lines; its id."""
    saved = world.functions.save(source, author="ada")
    row = world.executions.start("sums", {})
    at = {"function": "sums", "version": saved["number"], "module": "", "code": "", **frame}
    error = {"type": "KeyError", "message": "x", "traceback": "", "frames": [at]}
    world.finish(world.claim(row), "failed", error=error)
    return row["id"]


def test_a_failed_execution_shows_the_lines_around_its_error_and_whether_they_are_new(
    api: ApiClient, world: World
) -> None:
    first = "def sums():\n    a = 1\n    b = 2\n    c = 3\n    return a + b + c\n"
    old = _raised(world, first, line=5)
    new = _raised(world, first.replace("c = 3", "c = {}['x']"), line=4)
    found = api.get(f"/executions/{new}")["error_source"]
    assert (found["function"], found["version"], found["author"]) == ("sums", 2, "ada")
    assert (found["first_line"], found["line"], found["changed"]) == (1, 4, True)
    assert found["lines"][3] == "    c = {}['x']" and len(found["lines"]) == 6
    # The first version has none before it.
    found = api.get(f"/executions/{old}")["error_source"]
    assert (found["first_line"], found["lines"][0], found["changed"]) == (2, "    a = 1", False)
    with api.as_("viewer"):
        assert api.get(f"/executions/{new}")["error_source"] is None
    world.functions.delete("sums", author="ada")
    assert api.get(f"/executions/{new}")["error_source"] is None


@pytest.mark.parametrize(
    "frame", [{"line": 99}, {"version": 7}, {"version": "2"}, {"function": "gone"}, {"line": 0}]
)
def test_an_error_in_a_line_that_is_not_there_has_no_source(
    api: ApiClient, world: World, frame: dict[str, object]
) -> None:
    id_ = _raised(world, "def sums():\n    return 1\n", **{"line": 2} | frame)
    assert api.get(f"/executions/{id_}")["error_source"] is None


def test_a_payload_is_a_download_that_is_sent_once(api: ApiClient, world: World) -> None:
    row = world.start()
    world.finish(world.claim(row), result={"html": "<script>"})
    got = api.answer("GET", f"/executions/{row['id']}/result")
    assert got.json() == {"html": "<script>"}
    assert got.headers["content-disposition"].startswith("attachment")
    assert (got.headers["x-content-type-options"], got.headers["content-type"]) == (
        "nosniff",
        "application/json",
    )
    same = api.answer(
        "GET", f"/executions/{row['id']}/result", headers={"If-None-Match": got.headers["etag"]}
    )
    assert (same.status_code, same.content) == (304, b"")
    assert "has no result" in api.get(f"/executions/{world.start()['id']}/result", status=404)["title"]


def test_a_start_that_is_sent_twice_makes_one_execution(api: ApiClient) -> None:
    body = {"function": "work", "input": {"n": 1}}
    key = {"Idempotency-Key": "one"}
    answer = api.answer("POST", "/executions", body, headers=key)
    made = answer.json()
    assert (answer.status_code, made["state"], made["cause"]) == (201, "queued", "api")
    assert answer.headers["location"] == f"/api/v1/executions/{made['id']}"
    assert api.post("/executions", body, 201, headers=key)["id"] == made["id"]
    assert api.post("/executions", body, 201)["id"] != made["id"]
    assert "none" in api.post("/executions", body | {"function": "none"}, 404)["title"]
    assert api.post("/executions", body | {"colour": 1}, 422)["errors"][0]["where"] == ["body", "colour"]
    assert api.post("/executions", body | {"function": "work@9"}, 404)
    assert api.post("/executions", body | {"function": "work@1", "version": 2}, 400)


def test_an_execution_is_retried_replayed_and_cancelled(api: ApiClient, world: World) -> None:
    bad = failed(world)
    key = {"Idempotency-Key": "again"}
    again = api.post(f"/executions/{bad}:retry", {"latest": True}, 201, headers=key)
    assert (again["replay_of"], again["state"], again["cause"]) == (bad, "queued", "replay")
    assert api.post(f"/executions/{bad}:retry", None, 201, headers=key)["id"] == again["id"]
    assert api.get(f"/executions/{bad}")["replays"] == [again["id"]]
    assert "is queued" in api.post(f"/executions/{again['id']}:replay", None, 409)["title"]
    world.finish(world.claim({"id": again["id"]}))
    assert api.get(f"/executions/{bad}")["resolved_by"] == again["id"]
    assert [row["id"] for row in api.get("/executions", unresolved="true")["items"]] == []
    refused = api.post(f"/executions/{again['id']}:retry", None, 409)
    assert refused["title"].endswith("succeeded") and "replay" in refused["try"]
    third = api.post(f"/executions/{again['id']}:replay", None, 201)
    assert api.post(f"/executions/{third['id']}:cancel")["state"] == "cancelled"
    assert api.get(f"/executions/{third['id']}")["cancelled_by"] == "ada"
    assert "--tree" in api.post(f"/executions/{third['id']}:cancel", None, 409)["try"]
    assert api.post(f"/executions/{third['id']}:cancel", {"tree": True})["state"] == "cancelled"
    assert [row["execution_id"] for row in world.rows(schema.open_cancel)] == [third["id"]]
    (node,) = api.get(f"/trees/{third['id']}/outline")["nodes"]
    assert node["cancelled_by"] == "ada"
    entries = [row["author"] for row in world.rows(schema.audit, schema.audit.c.action == "execution.replay")]
    assert entries == ["ada", "ada"]
    assert "no compensation" in api.post(f"/executions/{bad}:compensate", {"skip": True}, 409)["title"]


def test_why_says_what_started_it_and_what_to_do(api: ApiClient, world: World) -> None:
    bad = failed(world)
    order, bill = ordered(world)
    said = api.get(f"/executions/{bill}/why")
    assert (said["trigger"], said["event_id"]) == ("on-order", order)
    assert "was started by the trigger on-order v1" in said["sentences"][0]
    assert any(bad in one and "retry" in one for one in api.get(f"/executions/{bad}/why")["sentences"])
    steps = api.get(f"/executions/{bill}/times")
    assert steps["event_type"] == "order.created" and steps["executions"][0]["id"] == bill
    alone = api.get(f"/executions/{bad}/times")
    assert alone["event_id"] is None and alone["executions"][0]["steps"][0]["since_seconds"] == 0


def test_events_are_emitted_all_or_none_and_once_for_a_key(api: ApiClient, world: World) -> None:
    one = {"type": "order.created", "data": {"n": 1}, "subject": "order 1"}
    key = {"Idempotency-Key": "k"}
    (id_,) = api.post("/events", one, 201, headers=key)["ids"]
    assert api.post("/events", one, 201, headers=key)["ids"] == [id_]
    several = {"events": [one, {"type": "order.paid"}]}
    ids = api.post("/events", several, 201, headers={"Idempotency-Key": "many"})["ids"]
    assert api.post("/events", several, 201, headers={"Idempotency-Key": "many"})["ids"] == ids
    refused = api.post("/events", {"events": [one, {"type": "execution.failed"}]}, 400)
    assert "reserved" in refused["title"] + refused.get("detail", "")
    assert len(api.get("/events", type="order.created")["items"]) == 2
    world.route()
    row = api.get("/events", type="order.created", subject="order 1")["items"][0]
    assert (row["fired"], row["suppressed"], row["state"]) == (1, 0, "routed")
    detail = api.get(f"/events/{id_}")
    assert (detail["data"], detail["firings"][0]["trigger"]) == ({"n": 1}, "on-order")
    assert {"order.created", "order.paid"} <= set(api.get("/events/types"))
    (paid,) = api.get("/events", type="order.paid")["items"]
    (decision,) = api.get(f"/events/{paid['id']}/decisions")
    assert (decision["decision"], decision["failed_clauses"]) == ("no match", 1)
    assert decision["clauses"][0]["matched"] is False
    assert "no quarantined event" in api.post(f"/events/{id_}:release", None, 404)["title"]


def test_paths_and_filters_take_short_ids(api: ApiClient, world: World) -> None:
    order, bill = ordered(world)
    short = short_ids.short(bill)
    assert api.get(f"/executions/{short}")["id"] == bill
    assert api.get(f"/executions/{short.upper()}/attempts") == []
    assert [row["id"] for row in api.get("/executions", event=short_ids.short(order))["items"]] == [bill]
    assert api.get(f"/trees/{short}")["root_id"] == order
    assert api.get(f"/trees/{short}/outline", at=short)["nodes"][0]["id"] == bill
    assert ("execution", bill) in {(row["kind"], row["id"]) for row in api.get("/search", q=short)}
    world.start()
    several = api.get(f"/executions/{short[:4]}", status=404)
    assert bill in {one["id"] for one in several["candidates"]}
    assert api.get("/executions/zzzzzzzzzz", status=404)["title"] == "no execution 'zzzzzzzzzz'"
    assert "36 characters" in api.get("/executions/not-an-id", status=404)["detail"]


def test_a_tree_is_read_in_parts_and_its_budget_changed(api: ApiClient, world: World) -> None:
    order, bill = ordered(world)
    nodes = api.get(f"/trees/{bill}/outline")["nodes"]
    assert [(row["kind"], row["id"], row["parent"]) for row in nodes] == [
        ("event", order, None),
        ("execution", bill, order),
    ]
    assert [row["id"] for row in api.get(f"/trees/{bill}/children", of=order)["items"]] == [bill]
    assert api.get(f"/trees/{order}")["budget"]["used"] == 1
    assert api.send("PATCH", f"/trees/{order}/budget", {"maximum": 9}) == {"used": 1, "maximum": 9}
    with api.as_("viewer"):
        assert api.send("PATCH", f"/trees/{order}/budget", {"maximum": 9}, 403)["needs"] == "operate"


def test_a_caller_with_labels_finds_nothing_of_others(api: ApiClient, world: World) -> None:
    order, bill = ordered(world)
    other = failed(world)
    lonely = world.events.emit("order.paid")
    Labels(world.database).function("bill", add=["team:a"])
    with api.as_("operator", labels=["team:a"], rights=["payload:read"]):
        assert [row["id"] for row in api.get("/executions")["items"]] == [bill]
        assert [row["id"] for row in api.get("/events", type="order.created")["items"]] == [order]
        assert api.get("/events", type="order.paid")["items"] == []
        for path in ("", "/attempts", "/spans", "/trace", "/logs", "/input", "/result", "/why", "/times"):
            api.get(f"/executions/{other}{path}", status=404)
        for verb in ("retry", "replay", "cancel", "compensate"):
            api.post(f"/executions/{other}:{verb}", None, 404)
        for path in ("", "/decisions", "/times"):
            api.get(f"/events/{lonely}{path}", status=404)
        for path in ("", "/outline"):
            api.get(f"/trees/{other}{path}", status=404)
        api.post("/executions", {"function": "work"}, 404)
        for path in ("", "/why"):
            assert "on-order" not in api.answer("GET", f"/executions/{bill}{path}").text
        assert api.get(f"/executions/{bill}/why")["trigger"] == "(hidden)"
        assert api.get(f"/events/{order}")["firings"] == api.get(f"/events/{order}/decisions") == []
        assert api.get("/search", q=short_ids.short(other)) == []
        assert {row["name"] for row in api.get("/search", q="i")} == {"bill"}
        assert api.post("/executions", {"function": "bill"}, 201)["function"] == "bill"


def test_a_viewer_changes_nothing(api: ApiClient, world: World) -> None:
    bad = failed(world)
    with api.as_("viewer"):
        for path in (
            "/executions",
            "/events",
            *(f"/executions/{bad}:{verb}" for verb in ("retry", "replay", "cancel")),
        ):
            assert api.post(path, {"function": "work", "type": "a"}, 403)["needs"] == "operate"
    assert len(api.get("/executions")["items"]) == 1
